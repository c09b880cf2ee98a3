package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.table.TableMark;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** One swap moves the log and its tables together (docs/spec.md 11.3). */
@Timeout(120)
class AtomicTest extends TwoTables {
  private static final TableIdentifier A = id("shop.a");
  private static final TableIdentifier B = id("shop.b");

  private TxnHandle atomic;

  @BeforeEach
  void openAtomic() {
    atomic = lake.atomic();
  }

  private static Transaction appending(TxnHandle handle, long row, TableIdentifier... tables) {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    for (TableIdentifier table : tables) {
      append(handle.catalog(() -> txn).loadTable(table), row);
    }
    return txn;
  }

  /** Which tables of each entry that stands moved with it. */
  private List<List<Boolean>> born() {
    return Lake.standing(handle).stream()
        .map(entry -> entry.changes().stream().map(Change::bornApplied).toList())
        .toList();
  }

  private List<Boolean> bornLast() {
    List<List<Boolean>> born = born();
    return born.get(born.size() - 1);
  }

  private TableMetadata stored(TableIdentifier table) {
    return ((BaseTable) outside.loadTable(table)).operations().refresh();
  }

  private Set<Path> metadataFiles() {
    return lake.filesBelow("").stream()
        .filter(path -> path.toString().endsWith(".metadata.json"))
        .filter(path -> !path.toString().contains("/txns/"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** The metadata files that the rows of tables lead to. */
  private Set<Path> named(TableIdentifier... tables) {
    Set<Path> named = new TreeSet<>();
    for (TableIdentifier table : tables) {
      TableMetadata metadata = stored(table);
      named.add(path(metadata.metadataFileLocation()));
      metadata.previousFiles().forEach(file -> named.add(path(file.file())));
    }
    return named;
  }

  private static Path path(String location) {
    return Path.of(location.replaceFirst("^file:", ""));
  }

  @Test
  void tablesAreWhatTheEntrySaysFromItsFirstMoment() {
    Transaction txn = atomic.begin(BeginOptions.defaults());
    TxnCatalog tables = atomic.catalog(() -> txn);
    append(tables.loadTable(A), 2);
    tables.loadTable(B).updateProperties().set("owner", "somebody").commit();
    Committed committed = txn.commit();

    Entry entry = Lake.standing(handle).get(Lake.standing(handle).size() - 1);
    assertThat(committed.applied()).isTrue();
    assertThat(bornLast()).containsExactly(true, true);
    assertThat(entry.applies()).isFalse();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(outside.loadTable(B).properties()).containsEntry("owner", "somebody");
    for (TableIdentifier table : List.of(A, B)) {
      assertThat(TableMark.applied(stored(table))).isEqualTo(entry.commitTs());
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(ids(atomic.catalog(() -> null).loadTable(A))).containsExactly(1L, 2L);
  }

  /** As Iceberg's own operations leave it: the file of before in the log, and in the row. */
  @Test
  void aTablesFilesFollowEachOther() throws SQLException {
    String before = stored(A).metadataFileLocation();
    appending(atomic, 2, A, B).commit();
    TableMetadata now = stored(A);
    assertThat(now.metadataFileLocation())
        .matches(".*/metadata/\\d{5}-[0-9a-f-]{36}\\.metadata\\.json");
    assertThat(now.previousFiles().get(now.previousFiles().size() - 1).file()).isEqualTo(before);
    assertThat(number(now.metadataFileLocation())).isEqualTo(number(before) + 1);
    try (Connection connection = DriverManager.getConnection(lake.options().get("uri"));
        Statement statement = connection.createStatement();
        var rows =
            statement.executeQuery(
                "SELECT previous_metadata_location FROM iceberg_tables WHERE table_name = 'a'")) {
      assertThat(rows.next()).isTrue();
      assertThat(rows.getString(1)).isEqualTo(before);
    }
  }

  private static int number(String location) {
    String name = location.substring(location.lastIndexOf('/') + 1);
    return Integer.parseInt(name.substring(0, name.indexOf('-')));
  }

  @Test
  void itCreatesAltersAndDrops() {
    Transaction txn = atomic.begin(BeginOptions.defaults());
    TxnCatalog tables = atomic.catalog(() -> txn);
    append(tables.createTable(id("shop.new"), Lake.SCHEMA), 7);
    tables.loadTable(A).updateSchema().addColumn("more", Types.LongType.get()).commit();
    txn.commit();
    assertThat(lake.plainIds("shop.new")).containsExactly(7L);
    assertThat(outside.loadTable(A).schema().findField("more")).isNotNull();
    assertThat(bornLast()).containsExactly(true, true);
    Transaction dropping = atomic.begin(BeginOptions.defaults());
    atomic.catalog(() -> dropping).dropTable(id("shop.new"));
    dropping.commit();
    assertThat(bornLast()).containsExactly(true);
    assertThat(lake.open().catalog(() -> null).tableExists(id("shop.new"))).isFalse();
  }

  @Test
  void aStatementMovesItsTableToo() {
    append(atomic.catalog(() -> null).loadTable(A), 2);
    assertThat(bornLast()).containsExactly(true);
    atomic
        .catalog(() -> null)
        .loadTableForWrite(A)
        .newDelete()
        .deleteFromRowFilter(Expressions.alwaysTrue())
        .commit();
    assertThat(bornLast()).containsExactly(true);
    assertThat(lake.plainIds("shop.a")).isEmpty();
  }

  /** The table of both is left to an applier, the other one moves. */
  @Test
  void whatIsToBeAppliedBeforeGoesFirst() {
    appending(lazy, 2, A).commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    TxnHandle leaving = lake.atomic();
    leaving.services().applier().close(); // it dies between its swap and its apply
    Committed committed = appending(leaving, 3, A, B).commit();
    assertThat(committed.applied()).isFalse();
    assertThat(bornLast()).containsExactly(false, true);
    assertThat(lake.plainIds("shop.b")).containsExactly(3L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    handle.apply();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  @Test
  void aTableThatIsNotCreatedYetIsLeftToAnApplier() {
    Transaction creating = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> creating).createTable(id("shop.new"), Lake.SCHEMA), 1);
    creating.commit();
    assertThat(outside.tableExists(id("shop.new"))).isFalse();
    appending(atomic, 2, id("shop.new"), B).commit();
    assertThat(bornLast()).containsExactly(false, true);
    assertThat(lake.plainIds("shop.new")).containsExactly(1L, 2L);
  }

  @Test
  void aStrangersAppendIsAdoptedFirst() {
    Transaction txn = appending(atomic, 2, A);
    append(outside.loadTable(A), 9);
    txn.commit();
    assertThat(bornLast()).containsExactly(true);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 9L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 9L);
    assertThat(stored(A).refs()).containsOnlyKeys("main");
  }

  @Test
  void aStrangersCompactionIsTolerated() {
    Transaction txn = appending(atomic, 2, A);
    Table table = outside.loadTable(A);
    var rewrite = table.newRewrite();
    table.currentSnapshot().addedDataFiles(table.io()).forEach(rewrite::deleteFile);
    rewrite.addFile(Lake.file(table, 1)).commit();
    txn.commit();
    assertThat(bornLast()).containsExactly(true);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void whatCannotBeAppliedIsToldBeforeItIsCommitted() {
    Transaction txn = appending(atomic, 2, A, B);
    append(outside.loadTable(B), 9);
    Lake.overwrite(outside.loadTable(B), 9);
    List<Entry> before = Lake.standing(handle);
    Set<Path> files = metadataFiles();
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED));
    assertThat(Lake.standing(handle)).isEqualTo(before);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(metadataFiles()).isEqualTo(files);
  }

  /** Under the lock it is known: an acknowledged change would be in quarantine at once. */
  @ParameterizedTest
  @EnumSource
  void whatNobodyCouldCarryOutIsToldBeforeItIsCommitted(Spoiled how) {
    Transaction txn = appending(atomic, 2, A, B);
    switch (how) {
      case DROPPED -> outside.dropTable(B);
      case REPLACED -> {
        outside.dropTable(B);
        outside.createTable(B, Lake.SCHEMA);
      }
      case UNMARKED -> {
        var update = outside.loadTable(B).updateProperties();
        outside.loadTable(B).properties().keySet().stream()
            .filter(key -> key.startsWith("txns."))
            .forEach(update::remove);
        update.commit();
      }
    }
    List<Entry> before = Lake.standing(handle);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("shop.b");
    assertThat(Lake.standing(handle)).isEqualTo(before);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  private enum Spoiled {
    DROPPED,
    REPLACED,
    UNMARKED
  }

  @Test
  void aNameThatSomebodyHasTakenIsTold() {
    Transaction txn = atomic.begin(BeginOptions.defaults());
    append(atomic.catalog(() -> txn).createTable(id("shop.new"), Lake.SCHEMA), 7);
    append(atomic.catalog(() -> txn).loadTable(A), 7);
    append(outside.createTable(id("shop.new"), Lake.SCHEMA), 8);
    List<Entry> before = Lake.standing(handle);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining("shop.new");
    assertThat(Lake.standing(handle)).isEqualTo(before);
    assertThat(lake.plainIds("shop.new")).containsExactly(8L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /**
   * Nothing lands before the COMMIT, so nobody has to be told that nothing is known.
   *
   * <ol>
   *   <li>The rows are locked and compared, and the name is free.
   *   <li>Somebody commits another table of that name, which no lock keeps out.
   *   <li>The index keeps the new row out; the next attempt finds the name taken.
   * </ol>
   */
  @Test
  void aNameThatIsTakenWhileTheRowsStandStillIsTold() {
    TxnHandle late = HookedDriver.atomic(lake);
    Transaction txn = late.begin(BeginOptions.defaults());
    append(late.catalog(() -> txn).createTable(id("shop.new"), Lake.SCHEMA), 7);
    append(late.catalog(() -> txn).loadTable(A), 7);
    List<Entry> before = Lake.standing(handle);
    HookedDriver.hookInsert(
        insert -> {
          HookedDriver.hookInsert(HookedDriver.Update::run);
          HookedDriver.hookBegin(
              begin -> { // a file of SQLite lets nobody else write before
                HookedDriver.hookBegin(HookedDriver.Update::run);
                append(outside.createTable(id("shop.new"), Lake.SCHEMA), 8);
                return begin.run();
              });
          throw new SQLException("UNIQUE constraint failed", "23505");
        });
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining("another table of that name");
    assertThat(Lake.standing(handle)).isEqualTo(before);
    assertThat(lake.plainIds("shop.new")).containsExactly(8L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  @Test
  void aConflictLeavesNothing() {
    Transaction txn = atomic.begin(BeginOptions.defaults());
    Lake.overwrite(atomic.catalog(() -> txn).loadTableForWrite(A), 2);
    appending(lake.atomic(), 3, A).commit();
    Set<Path> files = metadataFiles();
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(metadataFiles()).isEqualTo(files);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
  }

  @Test
  void anAppendIsPutOnWhatCameBefore() {
    Transaction txn = appending(atomic, 2, A);
    appending(lake.atomic(), 3, A).commit();
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(born()).endsWith(List.of(true), List.of(true));
  }

  /** Several entries of one swap are each a change of the table, in one file. */
  @Test
  void threadsShareASwap() throws Exception {
    int count = 6;
    CyclicBarrier started = new CyclicBarrier(count);
    List<Callable<Committed>> work = new ArrayList<>();
    for (long row = 10; row < 10 + count; row++) {
      Transaction txn = appending(atomic, row, A, B);
      work.add(
          () -> {
            started.await();
            return txn.commit();
          });
    }
    assertThat(all(work)).hasSize(count);
    assertThat(lake.plainIds("shop.b")).containsExactly(10L, 11L, 12L, 13L, 14L, 15L);
    assertThat(lake.plainIds("shop.a")).hasSize(1 + count);
    List<HistoryEntry> history = stored(A).snapshotLog();
    assertThat(history).extracting(HistoryEntry::timestampMillis).doesNotHaveDuplicates();
    assertThat(history).hasSizeGreaterThan(count);
    assertThat(bornLast()).containsExactly(true, true);
    assertThat(metadataFiles()).isEqualTo(named(A, B));
  }

  private static <T> List<T> all(List<Callable<T>> work) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(work.size());
    try {
      List<T> done = new ArrayList<>();
      for (Future<T> each : threads.invokeAll(work, 100, TimeUnit.SECONDS)) {
        done.add(each.get());
      }
      return done;
    } finally {
      threads.shutdownNow();
    }
  }

  /** Writers of all kinds, each a process of its own, lose nothing of each other. */
  @Test
  void writersOfAllKindsMeet() throws Exception {
    List<Callable<Integer>> work = new ArrayList<>();
    List<TxnHandle> writers = List.of(lake.atomic(), lake.atomic(), lake.open(), lake.open());
    int rows = 5;
    for (int writer = 0; writer < writers.size(); writer++) {
      TxnHandle own = writers.get(writer);
      long first = 100L * (writer + 1);
      work.add(
          () -> {
            for (int row = 0; row < rows; row++) {
              appending(own, first + row, A, B).commit();
            }
            return rows;
          });
    }
    all(work);
    lake.open().apply();
    List<Long> expected =
        LongStream.rangeClosed(1, writers.size())
            .flatMap(writer -> LongStream.range(100 * writer, 100 * writer + rows))
            .boxed()
            .toList();
    assertThat(lake.plainIds("shop.b")).isEqualTo(expected);
    assertThat(lake.txnIds("shop.a")).containsAll(expected).hasSize(1 + expected.size());
    Set<Boolean> kinds = new HashSet<>();
    Lake.standing(handle).forEach(entry -> kinds.add(entry.applies()));
    handle.tidy();
    assertThat(Lake.standing(handle)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLostAnswerIsSettled(boolean landed) {
    TxnHandle losing = HookedDriver.atomic(lake);
    BeginOptions nightly = BeginOptions.defaults().withId("nightly");
    Transaction txn = losing.begin(nightly);
    append(losing.catalog(() -> txn).loadTable(A), 2);
    append(losing.catalog(() -> txn).loadTable(B), 2);
    List<Integer> lost = new ArrayList<>();
    HookedDriver.hookCommit(
        commit -> {
          if (lost.isEmpty()) {
            lost.add(1);
            if (landed) {
              commit.run();
            }
            throw new SQLException("the connection is gone", "08006");
          }
          return commit.run();
        });
    txn.commit();
    assertThat(lost).isNotEmpty();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(Lake.standing(handle))
        .filteredOn(entry -> entry.txnId().equals("nightly"))
        .hasSize(1);
  }

  /**
   * Rows are those of one attempt.
   *
   * <ol>
   *   <li>A commit's answer is lost: the next attempt finds the entry in a head of locked rows.
   *   <li>The session is inline from then on, and commits on that head.
   * </ol>
   */
  @Test
  void aHeadThatIsKeptHasNoRows() {
    AtomicReference<String> mode = new AtomicReference<>("atomic");
    TxnHandle handle =
        HookedDriver.open(lake, () -> TxnConfig.from(Map.of("txns.apply", mode.get())));
    Transaction txn = appending(handle, 2, A, B);
    HookedDriver.hookCommit(
        commit -> {
          HookedDriver.hookCommit(HookedDriver.Update::run);
          commit.run();
          throw new SQLException("the connection is gone", "08006");
        });
    txn.commit();
    mode.set("inline");
    appending(handle, 3, A, B).commit();
    assertThat(bornLast()).containsExactly(false, false);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 3L);
  }

  /** Where no row can be locked any more, the log tells; nothing is deleted while it does not. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anAnswerThatStaysLost(boolean landed) {
    TxnHandle losing = HookedDriver.atomic(lake);
    Transaction txn = appending(losing, 2, A, B);
    Set<Path> before = metadataFiles();
    HookedDriver.hookCommit(
        commit -> {
          HookedDriver.hookBegin(
              begin -> {
                throw new SQLException("no connection", "08001");
              });
          if (landed) {
            commit.run();
          }
          throw new SQLException("the connection is gone", "08006");
        });
    if (landed) {
      txn.commit();
    } else {
      assertThatThrownBy(txn::commit)
          .isInstanceOfSatisfying(
              TxnException.class,
              e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    }
    assertThat(metadataFiles()).hasSize(before.size() + 2);
    assertThat(lake.plainIds("shop.b")).isEqualTo(landed ? List.of(2L) : List.of());
  }

  /** Who was overtaken takes no time that overtakes those behind him. */
  @ParameterizedTest
  @ValueSource(strings = {"atomic", "inline"})
  void aQueueGoesByWhatWasProposed(String apply) {
    MovedClock clock = new MovedClock(0);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", apply));
    TxnHandle waiting = HookedDriver.open(lake, () -> config, clock);
    Transaction txn = appending(waiting, 2, A);
    List<Committed> overtaking = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          if (overtaking.isEmpty()) {
            overtaking.add(appending(lake.atomic(), 3, B).commit());
            clock.aheadMs += 20_000; // so long it waits
          }
          return begin.run();
        });
    assertThat(txn.commit().commitTs() - overtaking.get(0).commitTs()).isBetween(1L, 10_000L);
  }

  /** On a head that was read before the lock one would lose to whoever was in the queue before. */
  @Test
  void whoMovesTheLogAloneWaitsInTheQueueToo() {
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "next"));
    TxnHandle waiting = HookedDriver.open(lake, () -> config, TxnClock.system());
    Transaction txn = appending(waiting, 2, A);
    List<Integer> begun = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          begun.add(1);
          if (begun.size() == 1) {
            appending(lake.atomic(), 3, B).commit();
          }
          return begin.run();
        });
    txn.commit();
    assertThat(begun).hasSize(1);
    assertThat(bornLast()).containsExactly(false);
  }

  /** A lock that is not to be had is a lost attempt, and no outcome; by whose time-out ever. */
  @Test
  void aLockThatOthersHoldIsWaitedFor() {
    TxnHandle waiting = HookedDriver.atomic(lake);
    Transaction txn = appending(waiting, 2, A, B);
    List<Integer> busy = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          busy.add(1);
          if (busy.size() < 4) {
            String told = busy.size() % 2 == 0 ? "57014" : "55P03"; // of statements, or of locks
            throw new SQLException("canceling statement due to a timeout", told);
          }
          return begin.run();
        });
    txn.commit();
    assertThat(busy).hasSize(4);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Who never gets it is told that others commit, which is definite. */
  @Test
  void aLockThatIsNeverToBeHad() {
    TxnHandle waiting = HookedDriver.atomic(lake);
    Transaction txn = appending(waiting, 2, A, B);
    HookedDriver.hookBegin(
        begin -> {
          throw new SQLException("canceling statement due to lock timeout", "55P03");
        });
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** A row that a stranger has moved between the load and the update rolls everything back. */
  @Test
  void aRowThatMovedUnderTheLockIsALostAttempt() {
    TxnHandle moved = HookedDriver.atomic(lake);
    Transaction txn = appending(moved, 2, A, B);
    List<Integer> updates = new ArrayList<>();
    HookedDriver.hook(
        update -> {
          updates.add(1);
          boolean isMoved = updates.size() == (Lake.isOnServer() ? 1 : 2); // one there moves all
          return isMoved ? 0 : update.run();
        });
    Set<Path> before = metadataFiles();
    txn.commit();
    assertThat(updates).hasSizeGreaterThan(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(metadataFiles()).hasSize(before.size() + 2);
    assertThat(metadataFiles()).isEqualTo(named(A, B));
  }

  /**
   * A newer head beside older rows says that they lack what the log has.
   *
   * <ol>
   *   <li>The lock is lost; others write the table, and what they did leaves the head.
   *   <li>Another thread of the process sees that head.
   *   <li>The attempt has the rows of before.
   * </ol>
   */
  @Test
  void rowsWhoseLockWasLostSetNoTableBack() {
    TxnHandle losing = HookedDriver.atomic(lake);
    Transaction txn = appending(losing, 2, A);
    List<Head> seen = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          HookedDriver.hookBegin(HookedDriver.Update::run);
          HookedDriver.hookAsked(
              () -> {
                HookedDriver.hookAsked(() -> {});
                append(ours.loadTable(A), 3);
                assertThat(handle.tidy()).isPositive();
                seen.add(losing.services().log().load());
              });
          return 0; // nothing is begun, and no row locked
        });
    txn.commit();
    assertThat(seen).hasSize(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** The next committer does it. */
  @Test
  void aTidyThatGetsNoLockIsALostOne() {
    TxnHandle busy = HookedDriver.atomic(lake);
    HookedDriver.hookBegin(
        begin -> {
          throw new SQLException("canceling statement due to lock timeout", "55P03");
        });
    assertThat(busy.tidy()).isZero();
    HookedDriver.hookBegin(HookedDriver.Update::run);
    assertThat(busy.tidy()).isPositive();
  }

  /** However often that happens: no COMMIT was sent. */
  @Test
  void aRowThatAlwaysMovesUnderTheLockIsAConflict() {
    TxnHandle moved = HookedDriver.atomic(lake);
    Transaction txn = appending(moved, 2, A, B);
    HookedDriver.hook(update -> 0);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** A connection goes back with nothing begun, whatever stops who has it. */
  @Test
  void whoIsStoppedUnderTheLockLeavesNothingBegun() {
    TxnHandle stopped = HookedDriver.atomic(lake);
    Transaction txn = appending(stopped, 2, A, B);
    HookedDriver.hook(
        update -> {
          throw new ThreadDeath();
        });
    Set<Path> before = metadataFiles();
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN))
        .hasRootCauseInstanceOf(ThreadDeath.class);
    assertThat(metadataFiles()).isEqualTo(before);
    HookedDriver.hook(HookedDriver.Update::run);
    appending(lake.atomic(), 3, A, B).commit(); // nobody holds the lock
    appending(stopped, 4, A, B).commit();
    assertThat(lake.plainIds("shop.b")).containsExactly(3L, 4L);
  }

  @Test
  void aTableThatWasSetBackKeepsItsEntries() {
    String before = stored(A).metadataFileLocation();
    appending(atomic, 2, A, B).commit();
    outside.dropTable(A, false);
    outside.registerTable(A, before);
    TxnHandle reader = lake.open();
    assertThatThrownBy(() -> reader.catalog(() -> null).loadTable(A))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("set back");
    assertThat(lake.txnIds("shop.b")).containsExactly(2L);
    reader.tidy();
    assertThat(born()).contains(List.of(true, true));
  }

  @Test
  void whatWasBornAppliedLeavesTheHead() {
    appending(atomic, 2, A, B).commit();
    atomic.tidy();
    assertThat(Lake.standing(handle)).isEmpty();
    appending(atomic, 3, A, B).commit();
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 3L);
  }

  /** As those of catalogs that were made before there were views. */
  @Test
  void rowsWithoutTypesMove(@TempDir Path other) {
    Map<String, String> options = new Lake(other).options();
    options.remove("jdbc.schema-version");
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("old", options);
    Lake.createNamespace(catalog, A.namespace());
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "atomic"));
    TxnHandle old =
        TxnHandle.openAlone("old", options, catalog, config, Lake.CLOCK, TxnMetrics.NONE);
    Transaction txn = old.begin(BeginOptions.defaults());
    append(old.catalog(() -> txn).createTable(A, Lake.SCHEMA), 1);
    txn.commit();
    appending(old, 2, A).commit();
    List<Entry> standing = Lake.standing(old);
    assertThat(standing.get(standing.size() - 1).carried()).isEmpty();
    assertThat(ids(catalog.loadTable(A))).containsExactly(1L, 2L);
  }

  @Test
  void aCatalogThatCannotIsRefused() {
    InMemoryCatalog memory = new InMemoryCatalog();
    memory.initialize("memory", Map.of());
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "atomic"));
    assertThatThrownBy(() -> TxnHandle.open("memory", memory, config, TxnClock.system()))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("atomic");
  }

  /** What stands in a file is what its writer goes on with, without reading it. */
  @Test
  void whatIsKeptOfAVersionIsWhatItsFileSays() {
    appending(atomic, 2, A, B).commit();
    appending(atomic, 3, A, B).commit();
    TableMetadata kept = atomic.services().log().newest().metadata();
    TableOperations real = ((BaseTable) outside.loadTable(id("txns.commits"))).operations();
    assertThat(kept.metadataFileLocation()).isEqualTo(real.current().metadataFileLocation());
    assertThat(TableMetadataParser.toJson(kept))
        .isEqualTo(TableMetadataParser.toJson(real.current()));
  }
}
