package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.table.DataTables;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Races over the commit table: lost answers, many writers, heads that move. */
class RaceTest {
  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lake.create(handle, "shop.a", "shop.b");
  }

  /** What the catalog does to the first swap of the commit table. */
  enum Answer {
    /** Done, and the answer is lost. */
    APPLIED_THEN_LOST,
    /** Done, and falsely called lost, as a client does that retries by itself. */
    APPLIED_THEN_CALLED_STALE,
    /** Not done, and the answer is lost. */
    LOST,
    /** Not done, and so answered. */
    STALE
  }

  private TxnHandle flaky(Answer answer, AtomicInteger times) {
    assumeFalse(Lake.isRest(), "answers are falsified inside the JDBC catalog");
    JdbcCatalog catalog =
        HookedOperations.catalog(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              if (times.getAndDecrement() <= 0) {
                real.commit(base, next);
                return;
              }
              if (answer == Answer.APPLIED_THEN_LOST
                  || answer == Answer.APPLIED_THEN_CALLED_STALE) {
                real.commit(base, next);
                times.set(0);
              }
              if (answer == Answer.STALE || answer == Answer.APPLIED_THEN_CALLED_STALE) {
                throw new CommitFailedException("called stale");
              }
              throw new IllegalStateException("the connection broke");
            });
    return TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK);
  }

  @ParameterizedTest
  @EnumSource(Answer.class)
  void aLostAnswerCommitsExactlyOnce(Answer answer) {
    AtomicInteger times = new AtomicInteger(2);
    TxnHandle client = flaky(answer, times);
    Transaction txn = client.begin(BeginOptions.defaults());
    append(client.catalog(() -> txn).loadTable(id("shop.a")), 1);
    append(client.catalog(() -> txn).loadTable(id("shop.b")), 1);
    Committed committed = txn.commit();
    assertThat(committed.txnId()).isEqualTo(txn.id());
    assertThat(times).hasNonPositiveValue();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(1L);
    assertThat(handle.transactions()).filteredOn(row -> row.txnId().equals(txn.id())).hasSize(2);
  }

  /** The answer stays unknown: nothing that the attempt wrote is deleted, the id tells later. */
  @Test
  void anUnknownOutcomeIsNeverTreatedAsAFailure() throws Exception {
    TxnHandle client = flaky(Answer.LOST, new AtomicInteger(Integer.MAX_VALUE));
    Transaction txn = client.begin(BeginOptions.defaults().withId("unsure"));
    Lake.written(txn, () -> append(client.catalog(() -> txn).loadTable(id("shop.a")), 1));
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> {
              assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN);
              assertThat(e.sqlState()).isEqualTo("08007");
              assertThat(e.parameters()).containsEntry("txnId", "unsure");
            });
    assertThat(parquetFiles()).isEqualTo(1);
    Transaction again = handle.begin(BeginOptions.defaults().withId("unsure"));
    assertThat(again.state()).isEqualTo(Transaction.State.ACTIVE);
  }

  /** Restaged appends leave no file behind that nothing points to. */
  @Test
  void restagingCleansUpAfterItself() throws Exception {
    lake.create(handle, "shop.restaged");
    Transaction txn = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> txn).loadTable(id("shop.restaged")), 1);
    append(handle.catalog(() -> null).loadTable(id("shop.restaged")), 2);
    txn.commit();
    Table table = lake.catalog().loadTable(id("shop.restaged"));
    List<String> reachable = new ArrayList<>();
    table
        .snapshots()
        .forEach(
            snapshot -> {
              reachable.add(snapshot.manifestListLocation());
              snapshot.allManifests(table.io()).forEach(one -> reachable.add(one.path()));
            });
    assertThat(lake.filesBelow("shop/restaged/metadata").stream().map(Path::toString))
        .filteredOn(path -> path.endsWith(".avro"))
        .allMatch(path -> reachable.stream().anyMatch(one -> one.endsWith(path)));
  }

  /** Many writers in many handles: every append is there once, every transfer keeps the sum. */
  @Test
  void manyWritersLoseAndDoubleNothing() throws Exception {
    long seed = System.nanoTime();
    System.out.println("seed=" + seed);
    int writers = 6;
    int rounds = 4;
    ExecutorService pool = Executors.newFixedThreadPool(writers);
    List<Future<List<Long>>> done = new ArrayList<>();
    for (int writer = 0; writer < writers; writer++) {
      Random random = new Random(seed + writer);
      long base = writer * 1000L;
      done.add(pool.submit(writer(base, rounds, random)));
    }
    List<Long> acknowledged = new ArrayList<>();
    for (Future<List<Long>> future : done) {
      acknowledged.addAll(future.get());
    }
    pool.shutdown();
    acknowledged.sort(Long::compare);
    handle.apply();
    assertThat(acknowledged).hasSize(writers * rounds);
    assertThat(lake.txnIds("shop.a")).isEqualTo(acknowledged);
    assertThat(lake.plainIds("shop.a")).isEqualTo(acknowledged);
    assertThat(lake.plainIds("shop.b")).isEqualTo(acknowledged);
    handle.services().log().load().state().validate();
  }

  /** Each round appends to a and rewrites b as a copy of a; run again on a conflict. */
  private Callable<List<Long>> writer(long base, int rounds, Random random) {
    return () -> {
      TxnHandle mine = lake.open(random.nextBoolean() ? Map.of("txns.apply", "next") : Map.of());
      List<Long> acknowledged = new ArrayList<>();
      for (int round = 0; round < rounds; round++) {
        long row = base + round;
        while (true) {
          Transaction txn = mine.begin(BeginOptions.defaults());
          TxnCatalog tables = mine.catalog(() -> txn);
          try {
            append(tables.loadTable(id("shop.a")), row);
            long[] all =
                ids(tables.loadTable(id("shop.a"))).stream().mapToLong(Long::longValue).toArray();
            overwrite(tables.loadTable(id("shop.b")), all);
            txn.commit();
            acknowledged.add(row);
            break;
          } catch (TxnException e) {
            if (e.kind() != ErrorKind.CONFLICT) {
              throw e;
            }
            txn.rollback();
          }
        }
      }
      return acknowledged;
    };
  }

  /**
   * Schedule 5: an entry that is not applied stands in the head, a newer one is tidied, and a
   * transaction from before both must still find its conflict.
   */
  @Test
  void tidyingOutOfOrderHidesNoConflict() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 1); // 1. E1 stays unapplied
    Transaction three = handle.begin(BeginOptions.defaults()); // 2. T3 begins
    ids(handle.catalog(() -> three).loadTable(id("shop.b"))); // 3. and reads b
    overwrite(handle.catalog(() -> null).loadTable(id("shop.b")), 2); // 4. T2 overwrites b
    assertThat(handle.tidy()).isPositive(); // 5. and is archived
    assertThat(Lake.standing(handle)).hasSize(1);
    append(handle.catalog(() -> three).loadTable(id("shop.a")), 3);
    assertThatThrownBy(three::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  /** Schedule 13: a chain of operations must not hide a concurrent one from validation. */
  @Test
  void aChainOfOperationsIsValidatedOnce() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    Transaction chain = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    append(handle.catalog(() -> chain).loadTable(id("shop.a")), 2);
    overwrite(handle.catalog(() -> null).loadTable(id("shop.a")), 10);
    overwrite(handle.catalog(() -> chain).loadTable(id("shop.a")), 20);
    assertThatThrownBy(chain::commit).hasMessageContaining("lost a race");
    assertThat(lake.plainIds("shop.a")).containsExactly(10L);
  }

  /** Schedule 8: a reader older than an incarnation gets an error, never an empty table. */
  @Test
  void aReaderOlderThanTheTableIsToldSo() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    Transaction reader = handle.begin(BeginOptions.defaults());
    plain.dropTable(id("shop.a"), false);
    plain.createTable(id("shop.a"), Lake.SCHEMA);
    append(plain.loadTable(id("shop.a")), 2);
    assertThatThrownBy(() -> handle.catalog(() -> reader).loadTable(id("shop.a")))
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> {
              assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT);
              assertThat(e.parameters()).containsKey("leastTs");
            });
  }

  /** Schedule 18: an applier that holds an old head does nothing to a table registered again. */
  @Test
  void aSlowApplierDoesNothingAfterForgetAndRegister() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 1);
    Head old = handle.services().log().load();
    handle.apply();
    handle.forget(id("shop.a"));
    handle.register(id("shop.a"));
    List<Long> before = lake.plainIds("shop.a");
    DataTables tables = handle.services().tables();
    Applier slow =
        new Applier(
            lake.catalog(),
            handle.services().log(),
            tables,
            handle.services().places(),
            Lake.CLOCK);
    assertThat(slow.apply(old, id("shop.a"))).isTrue();
    assertThat(lake.plainIds("shop.a")).isEqualTo(before);
  }

  /** Schedule 19: expiry that cuts the ancestry is an error, never an empty table. */
  @Test
  void aReaderBelowWhatExpiryLeftIsToldSo() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    Transaction reader = handle.begin(BeginOptions.defaults());
    overwrite(plain.loadTable(id("shop.a")), 2);
    Table table = lake.catalog().loadTable(id("shop.a"));
    table
        .manageSnapshots()
        .setMinSnapshotsToKeep("main", 1)
        .setMaxSnapshotAgeMs("main", 1)
        .commit();
    lake.catalog()
        .loadTable(id("shop.a"))
        .expireSnapshots()
        .expireOlderThan(Long.MAX_VALUE)
        .commit();
    assertThatThrownBy(() -> handle.catalog(() -> reader).loadTable(id("shop.a")))
        .hasMessageContaining("expired");
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }

  @Test
  void aLargePayloadHasAFileOfItsOwn() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    TxnCatalog tables = handle.catalog(() -> txn);
    String large = "x".repeat(70_000);
    tables.loadTable(id("shop.a")).updateProperties().set("large", large).commit();
    txn.commit();
    Entry entry = handle.services().log().load().state().under(txn.id()).get(0);
    assertThat(entry.payload().inline()).isNull();
    assertThat(entry.payload().location()).contains("txns-payload-");
    assertThat(lake.catalog().loadTable(id("shop.a")).properties()).containsEntry("large", large);
  }

  @Test
  void aTransactionAboveTheMaximumAgeIsRefused() throws Exception {
    TxnHandle impatient = lake.open(Map.of("txns.max-age-s", "1"));
    Transaction txn = impatient.begin(BeginOptions.defaults());
    append(impatient.catalog(() -> txn).loadTable(id("shop.a")), 1);
    Thread.sleep(1100);
    assertThatThrownBy(txn::commit)
        .hasMessageContaining("txns.max-age-s")
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("25P04"));
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
  }

  @Test
  void wrongOptionsAreNamed() {
    for (Map<String, String> options :
        List.of(
            Map.of("txns.aply", "next"),
            Map.of("txns.apply", "later"),
            Map.of("txns.tidy-after", "0"))) {
      String key = options.keySet().iterator().next();
      assertThatThrownBy(() -> TxnConfig.from(options)).hasMessageContaining(key);
    }
  }

  @Test
  void tablesAreReadTogetherAtAnyTimestamp() {
    TxnCatalog plain = handle.catalog(() -> null);
    List<Long> commits = new ArrayList<>();
    for (long k = 1; k <= 5; k++) {
      long row = k;
      Transaction txn = handle.begin(BeginOptions.defaults());
      append(handle.catalog(() -> txn).loadTable(id("shop.a")), row);
      append(handle.catalog(() -> txn).loadTable(id("shop.b")), row);
      commits.add(txn.commit().commitTs());
    }
    for (int k = 0; k < 5; k++) {
      List<Long> expected = LongStream.rangeClosed(1, k + 1).boxed().toList();
      assertThat(ids(plain.loadTableAt(id("shop.a"), commits.get(k)))).isEqualTo(expected);
      assertThat(ids(plain.loadTableAt(id("shop.b"), commits.get(k)))).isEqualTo(expected);
    }
  }

  /**
   * 1. Two changes of a are logged. 2. Another process applies both, right before the swap of the
   * one who applies the first. 3. That one goes on with what it had loaded before, where the second
   * change stood on a snapshot that was not there: quarantine, for a writer who did nothing wrong.
   */
  @Test
  void anAppliersLostSwapIsNoExpiry() {
    assumeFalse(Lake.isRest(), "the swap is held inside the JDBC catalog");
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 1);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    AtomicBoolean first = new AtomicBoolean(true);
    TxnHandle late =
        TxnHandle.open(
            "lake",
            HookedOperations.catalog(
                lake,
                id("shop.a"),
                (real, base, next) -> {
                  if (first.getAndSet(false)) {
                    lake.open().apply();
                  }
                  real.commit(base, next);
                }),
            TxnConfig.from(Map.of("txns.apply", "inline")),
            Lake.CLOCK);
    Transaction txn = late.begin(BeginOptions.defaults());
    Table table = late.catalog(() -> txn).loadTable(id("shop.a"));
    table.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit();
    append(table, 3);
    txn.commit();
    assertThat(first).isFalse();
    assertThat(lake.plainIds("shop.a")).containsExactly(3L);
  }

  private long parquetFiles() {
    return lake.filesBelow("shop").stream()
        .filter(path -> path.toString().endsWith(".parquet"))
        .filter(path -> !path.getFileName().toString().startsWith("."))
        .count();
  }
}
