package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.SQLException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Strangers who append at the worst moment of an adoption (docs/spec.md 9.3). */
@Timeout(120)
class AdoptionRacesTest extends AdoptionLake {
  private static final TableIdentifier LOG = id("txns.commits");

  private static Table now(TxnHandle ours) {
    return ours.catalog(() -> null).loadTable(A);
  }

  private long count(String kind) {
    return handle.transactions().stream().map(TransactionRow::kind).filter(kind::equals).count();
  }

  // What a person has decided

  /**
   * 1. A transaction is not applied. 2. A stranger changes what it needs, and appends. 3. A person
   * rejects that: the transaction is applied, and takes main off the stranger's rows. 4. Another
   * one writes the table.
   */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whatWasRejectedBesideAnUnappliedChangeStaysWhereItIs(String apply) {
    lazy.catalog(() -> null).loadTable(A).replaceSortOrder().asc("id").commit();
    outside.loadTable(A).replaceSortOrder().asc("name").commit();
    appendBeside(BESIDE);
    assertThat(lazy.apply()).isEqualTo(1);
    handle.repairReject(A);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    append(now(opened(apply)), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(count("adopt")).isZero();
    assertThat(outside.loadTable(A).refs()).hasSize(2);
    handle.repairAdopt(A);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
  }

  /**
   * 1. Somebody renames a column, which is not applied yet. 2. A stranger appends. 3. The change is
   * applied, and keeps that on a branch. 4. Others write the table.
   */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whatIsKeptWithOtherColumnsIsInNobodysWay(String apply) {
    lazy.catalog(() -> null).loadTable(A).updateSchema().renameColumn("name", "title").commit();
    appendBeside(BESIDE);
    assertThat(lazy.apply()).isZero();
    TxnHandle writer = opened(apply);
    for (long row : new long[] {2, 3}) {
      Transaction txn = begun(writer);
      Table table = in(writer, txn);
      table.newDelete().deleteFromRowFilter(Expressions.equal("id", row + 10)).commit();
      table.updateProperties().set("a", "b" + row).commit();
      txn.commit();
    }
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(outside.loadTable(A).refs()).hasSize(2);
    assertThatThrownBy(() -> handle.repairAdopt(A)).hasMessageContaining("drop the branch");
  }

  // Heads and tables of different moments

  /**
   * 1. A writer looks what there is to adopt, and has loaded the head. 2. Another process commits,
   * and by its apply keeps a stranger's row on a branch; it dies. 3. The writer loads the table.
   */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2})
  void aBranchThatIsYoungerThanTheHeadIsLookedAtAgain(int load) {
    AtomicInteger loads = new AtomicInteger(-1);
    TxnHandle slow = TxnHandle.open("lake", between(loads, load), Lake.INLINE, Lake.CLOCK);
    append(now(lazy), 2);
    appendBeside(BESIDE);
    assertThat(lazy.apply()).isZero();
    loads.set(0);
    slow.services().committer().adopt(A);
    assertThat(loads.get()).isGreaterThan(load);
    slow.services().committer().adopt(A);
    append(now(slow), 4);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 4L, BESIDE, BESIDE + 1);
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  /** 1. A statement loads its table. 2. Others adopt what stands there. 3. So would it. */
  @Test
  void oneOperationSeesWhatOthersAdoptAtThatMoment() {
    AtomicInteger loads = new AtomicInteger(-1);
    JdbcCatalog catalog =
        between(loads, 1, () -> assertThat(handle.services().committer().adopt(A)).isTrue());
    TxnHandle writer = TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK);
    assertThat(ids(now(writer))).containsExactly(1L);
    appendBeside(BESIDE);
    loads.set(0);
    Table table = writer.catalog(() -> null).loadTableForWrite(A);
    assertThat(loads.get()).isGreaterThan(1);
    assertThat(ids(table)).containsExactly(1L, BESIDE);
  }

  /** A catalog in which the table goes on just before one load of it. */
  private JdbcCatalog between(AtomicInteger loads, int load) {
    return between(
        loads,
        load,
        () -> {
          append(now(lazy), 3);
          appendBeside(BESIDE + 1);
          assertThat(lazy.apply()).isZero();
        });
  }

  private JdbcCatalog between(AtomicInteger loads, int load, Runnable goesOn) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            if (identifier.equals(A) && loads.get() >= 0 && loads.getAndIncrement() == load) {
              goesOn.run();
            }
            return super.newTableOps(identifier);
          }
        };
    catalog.initialize("lake", lake.options());
    return catalog;
  }

  // Attempts

  /** However often they come, the commit ends, and each row is there once. */
  @Test
  void aStrangerBeforeEachAttempt() {
    TxnHandle writer = HookedDriver.atomic(lake);
    Transaction txn = begun(writer);
    Table table = in(writer, txn);
    table.newDelete().deleteFromRowFilter(Expressions.equal("id", 1L)).commit();
    AtomicInteger begins = new AtomicInteger();
    HookedDriver.hookBegin(
        begin -> {
          int n = begins.getAndIncrement();
          if (n < 80 && n % 2 == 0) { // each adoption begins once, too
            appendBeside(BESIDE + n);
          }
          return begin.run();
        });
    txn.commit();
    HookedDriver.hookBegin(HookedDriver.Update::run);
    while (handle.services().committer().adopt(A)) {
      continue; // what came last
    }
    List<Long> expected =
        LongStream.range(0, Math.min(begins.get(), 80))
            .filter(n -> n % 2 == 0)
            .map(n -> BESIDE + n)
            .boxed()
            .toList();
    assertThat(lake.txnIds("shop.a")).isEqualTo(expected);
    assertThat(lake.plainIds("shop.a")).isEqualTo(expected);
    assertThat(count("commit")).isEqualTo(2);
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  /** Two of them, a compaction between, before one attempt. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void severalStrangersBeforeOneAttempt(String apply) throws Exception {
    TxnHandle writer = opened(apply);
    Transaction txn = begun(writer);
    append(in(writer, txn), 2);
    appendBeside(BESIDE);
    compact(outside.loadTable(A));
    appendBeside(BESIDE + 1);
    compact(outside.loadTable(A));
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE, BESIDE + 1);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, BESIDE, BESIDE + 1);
  }

  /** 1. A transaction looks for strangers. 2. One appends. 3. The swap, and the apply. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aStrangerAtTheSwap(boolean before) {
    AtomicInteger swaps = new AtomicInteger(-1);
    TxnHandle writer =
        HookedOperations.open(
            lake,
            LOG,
            (real, base, next) -> {
              int n = swaps.get() < 0 ? -1 : swaps.getAndIncrement();
              if (n == 0 && before) {
                appendBeside(BESIDE);
              }
              real.commit(base, next);
              if (n == 0 && !before) {
                appendBeside(BESIDE);
              }
            },
            Lake.CLOCK);
    Transaction txn = begun(writer);
    Table table = in(writer, txn);
    assertThat(ids(table)).containsExactly(1L);
    append(table, 2);
    swaps.set(0);
    assertThat(txn.commit().applied()).isTrue();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  /** What became of it the next head tells; the transaction itself is no less certain for it. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theAnswerToTheAdoptionIsLost(boolean lands) {
    AtomicInteger swaps = new AtomicInteger(-1);
    TxnHandle writer =
        HookedOperations.open(
            lake, LOG, (real, base, next) -> lost(swaps, lands, real, base, next), Lake.CLOCK);
    Transaction txn = begun(writer);
    append(in(writer, txn), 2);
    appendBeside(BESIDE);
    swaps.set(0);
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    assertThat(count("adopt")).isEqualTo(1);
    assertThat(count("commit")).isEqualTo(2);
  }

  private static void lost(
      AtomicInteger swaps,
      boolean lands,
      TableOperations real,
      TableMetadata base,
      TableMetadata next) {
    boolean isLost = swaps.get() >= 0 && swaps.getAndIncrement() == 0;
    if (!isLost || lands) {
      real.commit(base, next);
    }
    if (isLost) {
      throw new ServiceFailureException("connection reset by peer");
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theAnswerToTheAdoptionIsLostUnderTheLock(boolean lands) {
    TxnHandle writer = HookedDriver.atomic(lake);
    Transaction txn = begun(writer);
    append(in(writer, txn), 2);
    appendBeside(BESIDE);
    AtomicInteger commits = new AtomicInteger();
    HookedDriver.hookCommit(
        commit -> {
          boolean isLost = commits.getAndIncrement() == 0;
          int done = isLost && !lands ? 0 : commit.run();
          if (isLost) {
            throw new SQLException("connection reset by peer", "08006");
          }
          return done;
        });
    txn.commit();
    HookedDriver.hookCommit(HookedDriver.Update::run);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    assertThat(count("adopt")).isEqualTo(1);
    assertThat(count("commit")).isEqualTo(2);
  }

  /**
   * Who is overtaken pauses, longer each time: whoever writes the table is not in step with him.
   *
   * <p>1. Transactions append. 2. So does a stranger. 3. As often as that is to be adopted one of
   * them commits before the swap.
   */
  @Test
  void whoIsOvertakenPauses() {
    Deque<Transaction> overtaking = new ArrayDeque<>();
    for (long row = 2; row < 7; row++) {
      Transaction txn = begun(lazy);
      append(in(lazy, txn), row);
      overtaking.add(txn);
    }
    appendBeside(BESIDE);
    List<Long> pauses = new ArrayList<>();
    MovedClock clock =
        new MovedClock() {
          @Override
          public void backOff(long maxMs) {
            pauses.add(maxMs);
            super.backOff(maxMs);
          }
        };
    TxnHandle writer =
        HookedOperations.open(
            lake,
            LOG,
            (real, base, next) -> {
              if (!overtaking.isEmpty()) {
                overtaking.pop().commit();
              }
              real.commit(base, next);
            },
            clock);
    assertThat(writer.services().committer().adopt(A)).isFalse();
    assertThat(overtaking).isEmpty();
    assertThat(pauses).containsSubsequence(20L, 40L, 80L, 160L);
    assertThat(writer.services().committer().adopt(A)).isTrue();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 4L, 5L, 6L, BESIDE);
  }

  // Many at once

  /** Each row once, whoever was first. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic", "both"})
  void manyAdoptTheSameAtOnce(String apply) throws Exception {
    List<TxnHandle> writers =
        IntStream.range(0, 4)
            .mapToObj(
                n ->
                    "both".equals(apply) ? opened(n % 2 == 0 ? "inline" : "atomic") : opened(apply))
            .toList();
    ExecutorService pool = Executors.newFixedThreadPool(writers.size());
    List<Long> expected = new ArrayList<>(List.of(1L));
    try {
      for (int round = 0; round < 5; round++) {
        long theirs = BESIDE * (round + 1);
        appendBeside(theirs);
        expected.add(theirs);
        List<Callable<Object>> tasks = new ArrayList<>();
        for (int n = 0; n < writers.size(); n++) {
          TxnHandle writer = writers.get(n);
          long row = theirs + 1 + n;
          expected.add(row);
          tasks.add(
              () -> {
                Transaction txn = begun(writer);
                append(in(writer, txn), row);
                return txn.commit();
              });
        }
        for (Future<Object> done : pool.invokeAll(tasks)) {
          done.get();
        }
      }
    } finally {
      pool.shutdown();
    }
    assertThat(lake.txnIds("shop.a")).isEqualTo(expected);
    handle.apply();
    assertThat(lake.plainIds("shop.a")).isEqualTo(expected);
    assertThat(count("adopt")).isEqualTo(5);
  }

  // Time

  /** Of a stranger's snapshot, or of whoever adopts. */
  @ParameterizedTest
  @ValueSource(longs = {-600_000, -30_000, 30_000, 50_000})
  void clocksThatAreWrong(long aheadMs) {
    MovedClock clock = new MovedClock(aheadMs);
    TxnHandle writer = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
    appendBeside(BESIDE);
    Transaction txn = begun(writer);
    append(in(writer, txn), 2);
    appendBeside(BESIDE + 1);
    txn.commit();
    Transaction next = begun(handle);
    append(in(handle, next), 3);
    appendBeside(BESIDE + 2);
    next.commit();
    TxnHandle atomic = lake.atomic();
    Transaction last = begun(atomic);
    append(in(atomic, last), 4);
    appendBeside(BESIDE + 3);
    last.commit();
    assertThat(lake.plainIds("shop.a"))
        .containsExactly(1L, 2L, 3L, 4L, BESIDE, BESIDE + 1, BESIDE + 2, BESIDE + 3);
  }

  // Switched off

  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void nothingIsAdoptedWhileTransactionsAreOff(String apply) {
    TxnHandle writer = opened(apply);
    Transaction txn = begun(writer);
    append(in(writer, txn), 2);
    handle.off();
    appendBeside(BESIDE);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("0A000"))
        .hasMessageContaining("off");
    assertThat(count("adopt")).isZero();
    assertThat(handle.on()).isEmpty();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, BESIDE);
    Transaction again = begun(writer);
    append(in(writer, again), 2);
    again.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
  }

  // Transactions

  /** Under an id of its own a refusal is a promise, which the next try keeps. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void triesUnderAnIdOfTheCallers(String apply) {
    TxnHandle writer = opened(apply);
    BeginOptions options = BeginOptions.defaults().withId("nightly");
    Transaction txn = writer.begin(options);
    assertThat(ids(in(writer, txn))).containsExactly(1L);
    append(in(writer, txn), 2);
    appendBeside(BESIDE);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"));
    assertThat(count("abort")).isEqualTo(1);
    Transaction again = writer.begin(options);
    assertThat(ids(in(writer, again))).containsExactly(1L, BESIDE);
    append(in(writer, again), 2);
    again.commit();
    Transaction third = writer.begin(options);
    assertThat(third.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
  }

  /** What is undone has not touched the table, and a rollback leaves what was adopted. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void savepoints(String apply) {
    TxnHandle writer = opened(apply);
    Transaction txn = begun(writer);
    append(writer.catalog(() -> txn).loadTable(id("shop.b")), 5);
    txn.savepoint("s");
    append(in(writer, txn), 2);
    appendBeside(BESIDE);
    txn.rollbackTo("s");
    append(in(writer, txn), 3);
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L, BESIDE);
    assertThat(lake.plainIds("shop.b")).containsExactly(5L);
  }

  /** A new column of theirs, and rows in it. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void aStrangersColumnAndRows(String apply) {
    TxnHandle writer = opened(apply);
    Transaction txn = begun(writer);
    append(in(writer, txn), 2);
    outside.loadTable(A).updateSchema().addColumn("extra", Types.IntegerType.get()).commit();
    appendBeside(BESIDE);
    try {
      txn.commit();
    } catch (TxnException e) { // whose rows were made for other columns
      assertThat(e).hasMessageContaining("has another schema");
      append(now(writer), 2);
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    append(now(writer), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, BESIDE);
  }

  /** Iceberg does not repeat an ALTER whose table has moved: the next one stands on their rows. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void anAlterBesideAStranger(String apply) {
    TxnHandle writer = opened(apply);
    Table table = now(writer);
    appendBeside(BESIDE);
    assertThatThrownBy(() -> rename(table)).isInstanceOf(CommitFailedException.class);
    rename(now(writer));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, BESIDE);
    assertThat(outside.loadTable(A).schema().findField("title")).isNotNull();
  }

  private static void rename(Table table) {
    table.updateSchema().renameColumn("name", "title").commit();
  }

  /** Numbers of rows are given once. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void rowsThatHaveIds(String apply) {
    outside.buildTable(id("shop.v3"), Lake.SCHEMA).withProperty("format-version", "3").create();
    handle.register(id("shop.v3"));
    TxnHandle writer = opened(apply);
    for (long row = 1; row < 4; row++) {
      Transaction txn = begun(writer);
      append(writer.catalog(() -> txn).loadTable(id("shop.v3")), row, row + 10);
      append(outside.loadTable(id("shop.v3")), BESIDE + row, BESIDE + row + 10);
      txn.commit();
    }
    List<Long> rowIds = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks =
        outside.loadTable(id("shop.v3")).newScan().planFiles()) {
      tasks.forEach(
          task -> {
            for (long n = 0; n < task.file().recordCount(); n++) {
              rowIds.add(task.file().firstRowId() + n);
            }
          });
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    assertThat(rowIds).hasSize(12).doesNotHaveDuplicates();
  }
}
