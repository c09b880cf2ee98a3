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
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Entry;
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
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
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

/** One swap moves the log and its tables together (docs/spec.md 11.3). */
@Timeout(120)
class AtomicTest extends AtomicTables {
  private TxnHandle atomic;

  @BeforeEach
  void openAtomic() {
    atomic = lake.atomic();
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
