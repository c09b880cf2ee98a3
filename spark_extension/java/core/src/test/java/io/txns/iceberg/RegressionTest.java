package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTable;
import io.txns.iceberg.log.Archive;
import io.txns.iceberg.log.Entry;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Defects that reviews have found: each test states what holds since. */
@Timeout(120)
class RegressionTest {
  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lake.create(handle, "shop.a", "shop.b");
  }

  private Table auto(String name) {
    return handle.catalog(() -> null).loadTable(id(name));
  }

  private Table in(Transaction txn, String name) {
    return handle.catalog(() -> txn).loadTable(id(name));
  }

  @Test
  void rollbackToSnapshotThroughOurCatalog() {
    append(auto("shop.a"), 1);
    long first = auto("shop.a").currentSnapshot().snapshotId();
    append(auto("shop.a"), 2);
    auto("shop.a").manageSnapshots().rollbackTo(first).commit();
    lake.open().services().log().load().state().validate();
    assertThat(lake.txnIds("shop.b")).isEmpty(); // an innocent table
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
  }

  @Test
  void rollbackToOldSnapshotWhenLogIsTidied() {
    append(auto("shop.a"), 1);
    long first = auto("shop.a").currentSnapshot().snapshotId();
    append(auto("shop.a"), 2);
    handle.tidy();
    auto("shop.a").manageSnapshots().rollbackTo(first).commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
  }

  /**
   * What is known of the archive is known of one version of it.
   *
   * <ol>
   *   <li>E1 drops b and writes a, to which it is not applied: it stays in the head.
   *   <li>E2 is tidied; somebody lists the tables.
   *   <li>E1 is applied to a, and tidied below E2.
   * </ol>
   */
  @Test
  void dropThatIsArchivedLate() {
    TxnHandle later = lake.open(Map.of("txns.apply", "next", "txns.tidy-after", "1000"));
    lake.create(later, "shop.c");
    Transaction first = later.begin(BeginOptions.defaults());
    append(later.catalog(() -> first).loadTable(id("shop.a")), 1);
    later.catalog(() -> first).dropTable(id("shop.b"), false);
    first.commit();
    append(later.catalog(() -> null).loadTable(id("shop.c")), 1);
    later.apply(id("shop.b"));
    later.apply(id("shop.c"));
    later.tidy();
    List<TableIdentifier> left = List.of(id("shop.a"), id("shop.c"));
    assertThat(later.catalog(() -> null).listTables(Namespace.of("shop"))).hasSameElementsAs(left);
    later.apply();
    later.tidy();
    assertThat(Lake.standing(later)).isEmpty();
    assertThat(later.catalog(() -> null).listTables(Namespace.of("shop"))).hasSameElementsAs(left);
  }

  /** An id that is used again after its retention: each of its entries is one of its own. */
  @Test
  void idUsedAgainAfterItsRetention() throws Exception {
    Lake aged = new Lake(Files.createDirectory(folder.resolve("aged")));
    aged.create(openDaysAgo(aged, 3), "shop.a");
    openDaysAgo(aged, 3).changeSettings(null, 86_400_000L, null);
    List<Long> times = new ArrayList<>();
    for (long days : new long[] {2, 0}) {
      TxnHandle open = openDaysAgo(aged, days);
      append(open.catalog(() -> null).loadTable(id("shop.a")), 10 + days); // the log moves on
      Transaction txn = open.begin(BeginOptions.defaults().withId("nightly"));
      append(open.catalog(() -> txn).loadTable(id("shop.a")), days);
      times.add(txn.commit().commitTs());
      open.tidy();
    }
    Archive archive = new Archive(aged.open().services().log());
    assertThat(archive.between(times.get(0) - 1, times.get(1)))
        .filteredOn(entry -> entry.txnId().equals("nightly"))
        .extracting(Entry::commitTs)
        .containsExactlyElementsOf(times);
    assertThat(Entry.committed(archive.under("nightly", 0)).map(Entry::commitTs))
        .contains(times.get(1));
  }

  private static TxnHandle openDaysAgo(Lake lake, long days) {
    TxnClock system = Lake.CLOCK;
    TxnClock earlier =
        new TxnClock() {
          @Override
          public long nowMs() {
            return system.nowMs() - days * 86_400_000;
          }

          @Override
          public String newTxnId() {
            return system.newTxnId();
          }

          @Override
          public void backOff(long maxMs) {
            system.backOff(maxMs);
          }
        };
    return TxnHandle.open("lake", lake.catalog(), Lake.INLINE, earlier);
  }

  @Test
  void renameWhileATransactionIsOpen() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    append(in(txn, "shop.a"), 1);
    handle.catalog(() -> null).renameTable(id("shop.a"), id("shop.c"));
    append(auto("shop.c"), 2);
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    lake.open().services().log().load().state().validate(); // the whole log
    assertThat(lake.txnIds("shop.b")).isEmpty();
    assertThat(lake.txnIds("shop.c")).contains(2L);
  }

  @Test
  void renameWhileATransactionIsOpenTidied() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    overwrite(in(txn, "shop.a"), 1);
    handle.catalog(() -> null).renameTable(id("shop.a"), id("shop.c"));
    append(auto("shop.c"), 2);
    handle.tidy();
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    assertThat(lake.txnIds("shop.c")).contains(2L);
  }

  @Test
  void dottedNamespaceLostUpdate() {
    TableIdentifier dotted = TableIdentifier.of(Namespace.of("a.b"), "t");
    var plain = lake.catalog();
    Lake.createNamespace(plain, dotted.namespace());
    plain.buildTable(dotted, Lake.SCHEMA).withProperty("format-version", "2").create();
    handle.register(dotted);
    append(handle.catalog(() -> null).loadTable(dotted), 1);
    Transaction txn = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> txn).loadTable(dotted), 10);
    append(handle.catalog(() -> null).loadTable(dotted), 2);
    handle.tidy();
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    assertThat(Lake.ids(lake.open().catalog(() -> null).loadTable(dotted))).contains(2L);
  }

  @Test
  void dropOfACreatedTableIsUndoneByRollbackTo() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    var catalog = handle.catalog(() -> txn);
    catalog.buildTable(id("shop.n"), Lake.SCHEMA).create();
    append(catalog.loadTable(id("shop.n")), 1);
    txn.savepoint("s");
    catalog.dropTable(id("shop.n"), false);
    txn.rollbackTo("s");
    txn.commit();
    assertThat(lake.txnIds("shop.n")).containsExactly(1L);
  }

  @Test
  void dropAndCreateAgainIsUndoneByRollbackTo() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    var catalog = handle.catalog(() -> txn);
    catalog.buildTable(id("shop.n"), Lake.SCHEMA).create();
    append(catalog.loadTable(id("shop.n")), 1);
    txn.savepoint("s");
    catalog.dropTable(id("shop.n"), false);
    catalog.buildTable(id("shop.n"), Lake.SCHEMA).create();
    append(catalog.loadTable(id("shop.n")), 2);
    txn.rollbackTo("s");
    txn.commit();
    assertThat(lake.txnIds("shop.n")).containsExactly(1L);
  }

  /** A catalog whose token expires right after the swap. */
  private TxnHandle expiring(AtomicBoolean expired, String apply) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            if (expired.get()) {
              throw new NotAuthorizedException("token expired");
            }
            TableOperations real = super.newTableOps(identifier);
            return identifier.equals(id("txns.commits"))
                ? new HookedOperations(
                    real,
                    (ops, base, next) -> {
                      ops.commit(base, next);
                      expired.set(true);
                    })
                : real;
          }
        };
    catalog.initialize("lake", lake.options());
    return TxnHandle.open("lake", catalog, TxnConfig.from(Map.of("txns.apply", apply)), Lake.CLOCK);
  }

  private void committedDataSurvives(String apply) {
    Lake.leaveApplies(handle);
    append(auto("shop.a"), 1);
    AtomicBoolean expired = new AtomicBoolean();
    TxnHandle other = expiring(expired, apply);
    Table table = other.catalog(() -> null).loadTable(id("shop.a"));
    append(table, 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void refreshAfterTheSwapFails() {
    committedDataSurvives("next");
  }

  @Test
  void refreshAfterTheSwapFailsInline() {
    committedDataSurvives("inline");
  }

  @Test
  void stagedOnlySnapshotStaysUnpublishedWhenRestaged() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table a = in(txn, "shop.a");
    a.newAppend().appendFile(Lake.file(a, 7)).set("wap.id", "w1").stageOnly().commit();
    append(in(txn, "shop.b"), 1);
    append(auto("shop.a"), 1);
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  @Test
  void stagedOnlySnapshotWithoutRace() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table a = in(txn, "shop.a");
    a.newAppend().appendFile(Lake.file(a, 7)).set("wap.id", "w1").stageOnly().commit();
    txn.commit();
    assertThat(lake.txnIds("shop.a")).isEmpty();
  }

  @Test
  void rollbackKeepsFilesThatTheTransactionDidNotWrite() {
    DataFile users = Lake.file(auto("shop.b"), 1); // written long ago by somebody
    Transaction txn = handle.begin(BeginOptions.defaults());
    in(txn, "shop.a").newAppend().appendFile(users).commit();
    txn.rollback();
    assertThat(Files.exists(Path.of(users.location().replace("file:", "")))).isTrue();
  }

  @Test
  void cherryPickThenRollback() {
    Table a = auto("shop.a");
    append(a, 1);
    a.newAppend().appendFile(Lake.file(a, 7)).set("wap.id", "w1").stageOnly().commit();
    Table fresh = auto("shop.a");
    long staged = 0;
    for (var s : fresh.snapshots()) {
      if ("w1".equals(s.summary().get("wap.id"))) {
        staged = s.snapshotId();
      }
    }
    append(fresh, 2);
    Transaction txn = handle.begin(BeginOptions.defaults());
    in(txn, "shop.a").manageSnapshots().cherrypick(staged).commit();
    txn.rollback();
    auto("shop.a").manageSnapshots().cherrypick(staged).commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 7L);
  }

  @Test
  void registerAfterAForgetThatIsNotApplied() {
    TxnHandle next = lake.open(Map.of("txns.apply", "next"));
    next.forget(id("shop.a"));
    next.register(id("shop.a"));
    lake.open().apply();
    assertThat(lake.open().services().newest().load(id("shop.a")).registered()).isTrue();
  }

  @Test
  void strictAutocommitAppendsDoNotConflict() {
    TxnHandle strict = lake.open(Map.of("txns.autocommit-isolation", "serializable"));
    Transaction statement = strict.beginStatement();
    Table table = strict.catalog(() -> statement).loadTable(id("shop.a"));
    append(auto("shop.a"), 1);
    append(table, 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  /** A statement as Spark's MERGE WITH SCHEMA EVOLUTION is one: it alters its target first. */
  private Transaction altering(TxnHandle strict) {
    append(auto("shop.a"), 1);
    Transaction statement = strict.beginStatement();
    statement.recordRead(id("shop.a"));
    statement.recordRead(id("shop.b"));
    return statement;
  }

  @Test
  void aStatementGoesOnFromItsOwnEntry() {
    TxnHandle strict = lake.open(Map.of("txns.autocommit-isolation", "serializable"));
    Transaction statement = altering(strict);
    TxnCatalog inside = strict.catalog(() -> statement);
    inside.loadTable(id("shop.a")).updateSchema().addColumn("n", Types.LongType.get()).commit();
    Table altered = inside.loadTable(id("shop.a"));
    assertThat(altered.schema().findField("n")).isNotNull();
    overwrite(altered, 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }

  @Test
  void whatAStatementHasReadIsValidatedAfterItsOwnEntryToo() {
    TxnHandle strict = lake.open(Map.of("txns.autocommit-isolation", "serializable"));
    Transaction statement = altering(strict);
    TxnCatalog inside = strict.catalog(() -> statement);
    inside.loadTable(id("shop.a")).updateSchema().addColumn("n", Types.LongType.get()).commit();
    append(auto("shop.b"), 9);
    assertThatThrownBy(() -> overwrite(inside.loadTable(id("shop.a")), 2))
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("shop.b");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  @Test
  void aStatementThatHasReadSomethingOldAltersNothing() {
    TxnHandle strict = lake.open(Map.of("txns.autocommit-isolation", "serializable"));
    Transaction statement = altering(strict);
    append(auto("shop.b"), 9);
    Table table = strict.catalog(() -> statement).loadTable(id("shop.a"));
    assertThatThrownBy(() -> table.updateSchema().addColumn("n", Types.LongType.get()).commit())
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("shop.b");
    assertThat(auto("shop.a").schema().findField("n")).isNull();
  }

  @Test
  void twoThreadsOfOneSession() throws Exception {
    // Iceberg runs an append again that met another one; a tenth of a second each time, by default.
    auto("shop.a").updateProperties().set("commit.retry.min-wait-ms", "1").commit();
    List<String> lost = new ArrayList<>();
    for (int round = 0; round < 10; round++) {
      Transaction txn = handle.begin(BeginOptions.defaults());
      int threads = 4;
      CyclicBarrier barrier = new CyclicBarrier(threads);
      List<Thread> all = new ArrayList<>();
      List<Long> ok = Collections.synchronizedList(new ArrayList<>());
      for (int i = 0; i < threads; i++) {
        long row = round * 100L + i;
        Thread t =
            new Thread(
                () -> {
                  try {
                    Table table = in(txn, "shop.a");
                    DataFile file = Lake.file(table, row);
                    barrier.await();
                    table.newFastAppend().appendFile(file).commit();
                    ok.add(row);
                  } catch (Exception e) {
                    throw new IllegalStateException(e);
                  }
                });
        t.start();
        all.add(t);
      }
      for (Thread t : all) {
        t.join();
      }
      assertThat(ok).hasSize(threads);
      txn.commit();
      List<Long> there = lake.txnIds("shop.a");
      for (Long row : ok) {
        if (!there.contains(row)) {
          lost.add("round " + round + " row " + row);
        }
      }
    }
    assertThat(lost).isEmpty();
  }

  /** A stream's batch that comes again when its entry has left the head. */
  @Test
  void aBatchThatIsDeliveredAgainAfterTidy() {
    for (int delivery = 0; delivery < 2; delivery++) {
      Table table = auto("shop.a");
      table
          .newAppend()
          .appendFile(Lake.file(table, 1))
          .set("spark.sql.streaming.queryId", "q")
          .set("spark.sql.streaming.epochId", "0")
          .commit();
      handle.tidy();
      assertThat(Lake.standing(handle)).isEmpty();
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  /** {@code register=all}: the entry of its own registration is above its {@code read_ts}. */
  @Test
  void aTransactionRegistersWhatItWrites() {
    append(lake.catalog().createTable(id("shop.new"), Lake.SCHEMA), 5);
    TxnHandle all = lake.open(Map.of("txns.register", "all"));
    Transaction txn = all.begin(BeginOptions.defaults());
    TxnCatalog inside = all.catalog(() -> txn);
    overwrite(inside.loadTableForWrite(id("shop.new")), 1);
    append(inside.loadTableForWrite(id("shop.new")), 2);
    assertThat(txn.commit().applied()).isTrue();
    assertThat(lake.txnIds("shop.new")).containsExactly(1L, 2L);
  }

  /** The registration of one moves the log past what the next one can be read at. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void tablesThatComeUnderCareWhileATransactionIsOpen(boolean byItself) {
    List<TableIdentifier> tables = List.of(id("shop.new"), id("shop.newer"));
    tables.forEach(each -> append(lake.catalog().createTable(each, Lake.SCHEMA), 5));
    TxnHandle all = lake.open(Map.of("txns.register", "all"));
    Transaction txn = all.begin(BeginOptions.defaults().withIsolation(Isolation.SERIALIZABLE));
    append(auto("shop.a"), 7);
    for (TableIdentifier each : tables) {
      if (!byItself) {
        lake.open().register(each);
      }
      append(all.catalog(() -> txn).loadTableForWrite(each), 6);
    }
    txn.commit();
    tables.forEach(each -> assertThat(lake.plainIds(each.toString())).containsExactly(5L, 6L));
  }

  /** It has read it as it came under care. */
  @Test
  void whatWasWrittenSinceATableCameUnderCareClashes() {
    append(lake.catalog().createTable(id("shop.new"), Lake.SCHEMA), 5);
    Transaction txn = handle.begin(BeginOptions.defaults());
    append(auto("shop.a"), 7);
    handle.register(id("shop.new"));
    append(auto("shop.new"), 8);
    Table table = handle.catalog(() -> txn).loadTableForWrite(id("shop.new"));
    assertThat(Lake.ids(table)).containsExactly(5L);
    overwrite(table, 1);
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    assertThat(lake.txnIds("shop.new")).containsExactly(5L, 8L);
  }

  /** Others' writes to what it has registered are conflicts all the same. */
  @Test
  void whatATransactionHasRegisteredIsValidated() {
    append(lake.catalog().createTable(id("shop.new"), Lake.SCHEMA), 5);
    TxnHandle all = lake.open(Map.of("txns.register", "all"));
    Transaction txn = all.begin(BeginOptions.defaults());
    overwrite(all.catalog(() -> txn).loadTableForWrite(id("shop.new")), 1);
    append(auto("shop.new"), 7);
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    assertThat(lake.txnIds("shop.new")).containsExactly(5L, 7L);
  }

  @Test
  void aReadOnlyTransactionRegistersNothing() {
    lake.catalog().createTable(id("shop.new"), Lake.SCHEMA);
    TxnHandle all = lake.open(Map.of("txns.register", "all"));
    Transaction txn = all.begin(BeginOptions.defaults().withReadOnly(true));
    assertThatThrownBy(() -> all.catalog(() -> txn).loadTableForWrite(id("shop.new")))
        .isInstanceOf(TxnException.class);
    assertThat(lake.open().catalog(() -> null).loadTable(id("shop.new")))
        .isNotInstanceOf(TxnTable.class);
  }
}
