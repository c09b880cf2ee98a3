package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Head;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A transaction over real tables in a real catalog: all or nothing, isolated, exactly once. */
class TransactionTest {
  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lake.create(handle, "shop.a", "shop.b");
  }

  private static TxnCatalog in(TxnHandle handle, Transaction transaction) {
    return handle.catalog(() -> transaction);
  }

  private Transaction begin(Isolation isolation) {
    return handle.begin(BeginOptions.defaults().withIsolation(isolation));
  }

  private Transaction begin() {
    return handle.begin(BeginOptions.defaults());
  }

  private Table table(Transaction transaction, String name) {
    return in(handle, transaction).loadTable(id(name));
  }

  @Test
  void allTablesChangeTogetherAndNobodySeesThemBefore() {
    Transaction txn = begin();
    append(table(txn, "shop.a"), 1, 2);
    append(table(txn, "shop.b"), 3);
    assertThat(ids(table(txn, "shop.a"))).containsExactly(1L, 2L);
    assertThat(lake.txnIds("shop.a")).isEmpty();
    assertThat(lake.plainIds("shop.b")).isEmpty();

    Committed committed = txn.commit();

    assertThat(committed.applied()).isTrue();
    assertThat(committed.tables()).containsExactly("shop.a", "shop.b");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(3L);
  }

  @Test
  void aTransactionReadsItsOwnWritesThroughAChainOfStatements() {
    Transaction txn = begin();
    append(table(txn, "shop.a"), 1);
    append(table(txn, "shop.a"), 2);
    overwrite(table(txn, "shop.a"), 7, 8);
    assertThat(ids(table(txn, "shop.a"))).containsExactly(7L, 8L);
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(7L, 8L);
    assertThat(lake.catalog().loadTable(id("shop.a")).history()).hasSize(2);
  }

  @Test
  void rollbackLeavesNothingBehind() throws Exception {
    long before = files();
    Transaction txn = begin();
    Lake.written(txn, () -> append(table(txn, "shop.a"), 1));
    Lake.written(txn, () -> overwrite(table(txn, "shop.a"), 2));
    assertThat(files()).isGreaterThan(before);
    txn.rollback();
    assertThat(files()).isEqualTo(before);
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
    assertThat(lake.txnIds("shop.a")).isEmpty();
  }

  @Test
  void savepointsUndoWhatCameAfterThem() {
    Transaction txn = begin();
    append(table(txn, "shop.a"), 1);
    txn.savepoint("s");
    append(table(txn, "shop.a"), 2);
    append(table(txn, "shop.b"), 3);
    txn.abort();
    txn.rollbackTo("s");
    assertThat(ids(table(txn, "shop.a"))).containsExactly(1L);
    append(table(txn, "shop.b"), 4);
    txn.release("s");
    assertThatThrownBy(() -> txn.rollbackTo("s"))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("3B001"));
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(4L);
  }

  @Test
  void twoAppendsToOneTableBothCommit() {
    Transaction one = begin();
    Transaction two = begin();
    append(in(handle, one).loadTable(id("shop.a")), 1);
    append(in(handle, two).loadTable(id("shop.a")), 2);
    one.commit();
    two.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void aLostUpdateIsRefusedAtEveryLevel() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    for (Isolation isolation : Isolation.values()) {
      Transaction one = begin(isolation);
      Transaction two = begin(isolation);
      overwrite(table(one, "shop.a"), 10);
      overwrite(table(two, "shop.a"), 20);
      one.commit();
      assertThatThrownBy(two::commit)
          .isInstanceOfSatisfying(
              TxnException.class,
              e -> {
                assertThat(e.sqlState()).isEqualTo("40001");
                assertThat(e.parameters())
                    .containsEntry("table", "shop.a")
                    .containsEntry("otherTxnId", one.id())
                    .containsKey("leastTs");
              });
      assertThat(lake.txnIds("shop.a")).containsExactly(10L);
    }
  }

  /** A row made from what was there: the second maximum plus one would be the first's again. */
  @Test
  void whatIsReadAndAppendedToIsValidatedAtEveryLevel() {
    for (Isolation isolation : Isolation.values()) {
      Transaction one = begin(isolation);
      Transaction two = begin(isolation);
      long next = ids(table(one, "shop.a")).size();
      assertThat(ids(table(two, "shop.a"))).hasSize((int) next);
      append(table(one, "shop.a"), next);
      append(table(two, "shop.a"), next);
      one.commit();
      assertThatThrownBy(two::commit).hasMessageContaining("read and appended to was written");
    }
  }

  /** Each reads both tables and writes one: serializable in neither order. */
  @Test
  void writeSkewIsAllowedAtSnapshotOnly() {
    for (Isolation isolation : Isolation.values()) {
      Transaction one = begin(isolation);
      Transaction two = begin(isolation);
      ids(table(one, "shop.a"));
      ids(table(one, "shop.b"));
      ids(table(two, "shop.a"));
      ids(table(two, "shop.b"));
      overwrite(table(one, "shop.a"), 1);
      overwrite(table(two, "shop.b"), 1);
      one.commit();
      if (isolation == Isolation.SNAPSHOT) {
        two.commit();
      } else {
        assertThatThrownBy(two::commit).isInstanceOf(TxnException.class);
      }
    }
  }

  /**
   * The read-only anomaly of Fekete et al.: T2 reads a and b, T1 writes b, T3 reads both and sees
   * T1 without T2, T2 writes a. Refused at T2's commit.
   */
  @Test
  void theReadOnlyAnomalyIsRefused() {
    Transaction two = begin(Isolation.SERIALIZABLE);
    ids(table(two, "shop.a"));
    ids(table(two, "shop.b"));
    Transaction one = begin(Isolation.SERIALIZABLE);
    overwrite(table(one, "shop.b"), 20);
    one.commit();
    Transaction three = begin(Isolation.SERIALIZABLE);
    assertThat(ids(table(three, "shop.b"))).containsExactly(20L);
    assertThat(ids(table(three, "shop.a"))).isEmpty();
    three.commit();
    overwrite(table(two, "shop.a"), -11);
    assertThatThrownBy(two::commit).hasMessageContaining("shop.b");
  }

  @Test
  void readOnlyTransactionsNeverConflictAndNeverWrite() {
    Transaction reader = handle.begin(BeginOptions.defaults().withReadOnly(true));
    ids(table(reader, "shop.a"));
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    assertThat(ids(table(reader, "shop.a"))).isEmpty();
    assertThatThrownBy(() -> append(table(reader, "shop.a"), 2))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("25006"));
    assertThat(reader.commit().tables()).isEmpty();
  }

  @Test
  void anIdCommitsOnce() {
    for (int run = 0; run < 3; run++) {
      Transaction txn = handle.begin(BeginOptions.defaults().withId("load 2013-01-05"));
      if (txn.state() == Transaction.State.ACTIVE) {
        append(table(txn, "shop.a"), 1);
        append(table(txn, "shop.b"), 1);
      }
      assertThat(txn.commit().tables()).containsExactly("shop.a", "shop.b");
    }
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  @Test
  void anIdCommitsOnceAlsoWhenItsEntryHasBeenTidied() {
    Transaction first = handle.begin(BeginOptions.defaults().withId("job"));
    append(table(first, "shop.a"), 1);
    first.commit();
    assertThat(handle.tidy()).isPositive();
    Transaction again = handle.begin(BeginOptions.defaults().withId("job"));
    assertThat(again.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(again.commit().tables()).containsExactly("shop.a");
  }

  @Test
  void tablesAreCreatedWithTheTransaction() {
    Transaction txn = begin();
    TxnCatalog catalog = in(handle, txn);
    catalog.createTable(id("shop.c"), Lake.SCHEMA);
    append(catalog.loadTable(id("shop.c")), 5);
    assertThat(ids(catalog.loadTable(id("shop.c")))).containsExactly(5L);
    assertThat(catalog.listTables(id("shop.c").namespace())).contains(id("shop.c"));
    assertThat(lake.catalog().tableExists(id("shop.c"))).isFalse();
    txn.commit();
    assertThat(lake.plainIds("shop.c")).containsExactly(5L);
    assertThat(lake.txnIds("shop.c")).containsExactly(5L);
  }

  @Test
  void twoCreatorsOfOneNameConflict() {
    Transaction one = begin(Isolation.SNAPSHOT);
    Transaction two = begin(Isolation.SNAPSHOT);
    in(handle, one).createTable(id("shop.c"), Lake.SCHEMA);
    in(handle, two).createTable(id("shop.c"), Lake.SCHEMA);
    one.commit();
    assertThatThrownBy(two::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThatThrownBy(() -> handle.catalog(() -> null).createTable(id("shop.c"), Lake.SCHEMA))
        .isInstanceOf(AlreadyExistsException.class);
  }

  @Test
  void createAndDropInOneTransactionLeaveNothing() throws Exception {
    long before = files();
    Transaction txn = begin();
    TxnCatalog catalog = in(handle, txn);
    catalog.createTable(id("shop.c"), Lake.SCHEMA);
    Lake.written(txn, () -> append(catalog.loadTable(id("shop.c")), 5));
    assertThat(catalog.dropTable(id("shop.c"), false)).isTrue();
    assertThat(catalog.tableExists(id("shop.c"))).isFalse();
    assertThat(txn.commit().tables()).isEmpty();
    assertThat(files()).isEqualTo(before);
  }

  @Test
  void aDroppedTableIsHiddenAndCanBeCreatedAgain() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    Transaction txn = begin();
    assertThat(in(handle, txn).dropTable(id("shop.a"), false)).isTrue();
    assertThatThrownBy(() -> table(txn, "shop.a")).isInstanceOf(NoSuchTableException.class);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    txn.commit();
    assertThatThrownBy(() -> lake.txnIds("shop.a")).isInstanceOf(NoSuchTableException.class);
    assertThat(plain.listTables(id("shop.a").namespace())).doesNotContain(id("shop.a"));
    plain.createTable(id("shop.a"), Lake.SCHEMA);
    assertThat(lake.txnIds("shop.a")).isEmpty();
    append(plain.loadTable(id("shop.a")), 9);
    assertThat(lake.txnIds("shop.a")).containsExactly(9L);
    assertThat(lake.plainIds("shop.a")).containsExactly(9L);
  }

  @Test
  void dropAndCreateInOneTransactionIsAReplacement() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    Transaction txn = begin();
    TxnCatalog catalog = in(handle, txn);
    catalog.dropTable(id("shop.a"), false);
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    append(catalog.loadTable(id("shop.a")), 2);
    assertThat(ids(catalog.loadTable(id("shop.a")))).containsExactly(2L);
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(2L);
  }

  @Test
  void aDroppedTableIsCreatedAgainInATransaction() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    plain.dropTable(id("shop.a"), false);
    Transaction txn = begin();
    TxnCatalog catalog = in(handle, txn);
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    append(catalog.loadTable(id("shop.a")), 2);
    assertThatThrownBy(() -> lake.txnIds("shop.a")).isInstanceOf(NoSuchTableException.class);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }

  @Test
  void replaceKeepsTheHistory() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    long before = plain.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    Transaction txn = begin();
    org.apache.iceberg.Transaction replace =
        in(handle, txn).newReplaceTableTransaction(id("shop.a"), Lake.SCHEMA, true);
    replace.newAppend().appendFile(Lake.file(replace.table(), 4)).commit();
    replace.commitTransaction();
    assertThat(ids(table(txn, "shop.a"))).containsExactly(4L);
    txn.commit();
    Table after = lake.catalog().loadTable(id("shop.a"));
    assertThat(ids(after)).containsExactly(4L);
    assertThat(after.snapshot(after.currentSnapshot().parentId()).snapshotId()).isEqualTo(before);
  }

  @Test
  void alterIsPartOfTheTransaction() {
    Transaction txn = begin();
    table(txn, "shop.a").updateSchema().addColumn("more", Types.IntegerType.get()).commit();
    table(txn, "shop.b").updateProperties().set("owner", "me").commit();
    assertThat(lake.catalog().loadTable(id("shop.a")).schema().findField("more")).isNull();
    txn.commit();
    Table altered = lake.catalog().loadTable(id("shop.a"));
    assertThat(altered.schema().findField("more")).isNotNull();
    assertThat(lake.catalog().loadTable(id("shop.b")).properties()).containsEntry("owner", "me");
  }

  @Test
  void anAppendConflictsWithAnIncompatibleAlter() {
    Transaction txn = begin();
    append(table(txn, "shop.a"), 1);
    handle
        .catalog(() -> null)
        .loadTable(id("shop.a"))
        .updateSchema()
        .addColumn("more", Types.IntegerType.get())
        .commit();
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  @Test
  void autocommitIsATransactionOfItsOwn() {
    TxnCatalog plain = handle.catalog(() -> null);
    append(plain.loadTable(id("shop.a")), 1);
    Table stale = plain.loadTable(id("shop.a"));
    append(plain.loadTable(id("shop.a")), 2);
    append(stale, 3); // Iceberg's own retry finds the new base
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(handle.transactions()).hasSize(2 + 3);
  }

  @Test
  void anEntryThatIsNotAppliedIsSeenByTheProtocolAndAppliedByTheNextWriter() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(in(lazy, txn).loadTable(id("shop.a")), 1);
    append(in(lazy, txn).loadTable(id("shop.b")), 2);
    assertThat(txn.commit().applied()).isFalse();
    assertThat(lake.plainIds("shop.a")).isEmpty();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    assertThat(lake.txnIds("shop.b")).containsExactly(2L);
    overwrite(handle.catalog(() -> null).loadTable(id("shop.a")), 9);
    assertThat(lake.plainIds("shop.a")).containsExactly(9L);
    assertThat(lake.plainIds("shop.b")).isEmpty();
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
  }

  @Test
  void readersAreOnOneTimestampWhileWritersGoOn() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    Transaction reader = begin();
    Transaction writer = begin();
    overwrite(table(writer, "shop.a"), 2);
    append(table(writer, "shop.b"), 2);
    writer.commit();
    assertThat(ids(table(reader, "shop.a"))).containsExactly(1L);
    assertThat(ids(table(reader, "shop.b"))).isEmpty();
    reader.rollback();
  }

  @Test
  void tidyMovesAppliedEntriesIntoRows() {
    TxnCatalog plain = handle.catalog(() -> null);
    LongStream.range(0, 40).forEach(i -> append(plain.loadTable(id("shop.a")), i));
    Head head = handle.services().log().load();
    assertThat(head.state().entries()).hasSizeLessThanOrEqualTo(32);
    assertThat(head.state().tidiedUpto()).isPositive();
    List<TransactionRow> rows = handle.transactions();
    assertThat(rows).hasSize(42);
    assertThat(rows).allMatch(TransactionRow::applied);
    assertThat(rows).extracting(TransactionRow::commitTs).isSorted().doesNotHaveDuplicates();
    assertThat(lake.plainIds("shop.a")).hasSize(40);
    Table commits = lake.catalog().loadTable(id("txns.commits"));
    assertThat(commits.currentSnapshot().summary().get("total-data-files")).isNotEqualTo("0");
  }

  @Test
  void transactionsAreThoseAboveATimeOrTheNewest() {
    TxnCatalog plain = handle.catalog(() -> null);
    LongStream.range(0, 40).forEach(i -> append(plain.loadTable(id("shop.a")), i));
    List<TransactionRow> rows = handle.transactions();
    for (int count : new int[] {0, 1, 10, 30, 42, 50}) {
      List<TransactionRow> newest = rows.subList(Math.max(0, 42 - count), 42);
      assertThat(handle.transactions(0, count)).isEqualTo(newest);
      long after = count >= 42 ? 0 : rows.get(41 - count).commitTs();
      assertThat(handle.transactions(after, Integer.MAX_VALUE)).isEqualTo(newest);
      assertThat(handle.transactions(after, 3))
          .isEqualTo(newest.subList(Math.max(0, newest.size() - 3), newest.size()));
    }
  }

  @Test
  void aTransactionOlderThanTheHeadStillSeesItsConflicts() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    Transaction txn = begin();
    ids(table(txn, "shop.a"));
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    handle.tidy();
    overwrite(table(txn, "shop.b"), 5);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  @Test
  void anAppendOlderThanTheHeadIsRestaged() {
    Transaction txn = begin();
    append(in(handle, txn).loadTable(id("shop.a")), 1);
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    handle.tidy();
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void forgetMakesItAPlainTableAgain() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    handle.forget(id("shop.a"));
    handle.forget(id("shop.a"));
    append(lake.catalog().loadTable(id("shop.a")), 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThatThrownBy(() -> append(table(begin(), "shop.a"), 3))
        .hasMessageContaining("system.register('shop.a')");
    handle.register(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    append(table(begin(), "shop.a"), 3);
  }

  /** Who reads the past goes by the schema of its snapshot. */
  @Test
  void columnsThatChangeAfterAWriteAreThereAtItsTimestamp() {
    Transaction txn = begin();
    append(table(txn, "shop.a"), 1);
    table(txn, "shop.a").updateSchema().addColumn("more", Types.StringType.get()).commit();
    in(handle, txn).buildTable(id("shop.c"), Lake.SCHEMA).create();
    append(table(txn, "shop.c"), 2);
    table(txn, "shop.c").updateSchema().deleteColumn("name").commit();
    txn.commit();
    long then = handle.upper();
    for (String name : List.of("shop.a", "shop.c")) {
      Table newest = handle.catalog(() -> null).loadTable(id(name));
      newest.updateSchema().addColumn("later", Types.StringType.get()).commit();
    }
    Table past = handle.catalog(() -> null).loadTableAt(id("shop.a"), then);
    assertThat(past.schema().columns()).extracting("name").containsExactly("id", "name", "more");
    assertThat(ids(past)).containsExactly(1L);
    Table created = handle.catalog(() -> null).loadTableAt(id("shop.c"), then);
    assertThat(created.schema().columns()).extracting("name").containsExactly("id");
    assertThat(ids(created)).containsExactly(2L);
  }

  /** A rollback leaves the columns as they are: its snapshot is read with them. */
  @Test
  void columnsAtTheTimestampOfARollback() {
    TxnCatalog auto = handle.catalog(() -> null);
    append(auto.loadTable(id("shop.a")), 1);
    long first = auto.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    auto.loadTable(id("shop.a")).updateSchema().addColumn("more", Types.StringType.get()).commit();
    append(auto.loadTable(id("shop.a")), 2);
    auto.loadTable(id("shop.a")).manageSnapshots().rollbackTo(first).commit();
    long then = handle.upper();
    append(auto.loadTable(id("shop.a")), 3);
    Table past = auto.loadTableAt(id("shop.a"), then);
    assertThat(past.schema().columns()).extracting("name").containsExactly("id", "name", "more");
    assertThat(ids(past)).containsExactly(1L);
  }

  /** Before a table got the columns that it is partitioned and sorted by, it was neither. */
  @Test
  void theTimeBeforeTheColumnsOfAPartitionSpec() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    long then = handle.upper();
    Transaction early = begin();
    append(table(early, "shop.b"), 1);
    Table altered = handle.catalog(() -> null).loadTable(id("shop.a"));
    altered.updateSchema().addColumn("more", Types.StringType.get()).commit();
    altered.updateSpec().addField("more").commit();
    altered.replaceSortOrder().asc("more").commit();
    Table past = handle.catalog(() -> null).loadTableAt(id("shop.a"), then);
    assertThat(ids(past)).containsExactly(1L);
    assertThat(past.spec().isUnpartitioned()).isTrue();
    assertThat(past.sortOrder().isUnsorted()).isTrue();
    append(table(early, "shop.a"), 2);
    assertThatThrownBy(early::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining("another schema or partitioning");
  }

  /** Files are read with the partition spec that they were written with, on a server as well. */
  @Test
  void partitionsThatChangeInTheTransactionThatCreatesTheTable() throws Exception {
    Transaction txn = begin();
    PartitionSpec byName = PartitionSpec.builderFor(Lake.SCHEMA).identity("name").build();
    in(handle, txn).buildTable(id("shop.c"), Lake.SCHEMA).withPartitionSpec(byName).create();
    appendToPartition(table(txn, "shop.c"), 1, "name=n1");
    table(txn, "shop.c").updateSpec().removeField("name").commit();
    appendToPartition(table(txn, "shop.c"), 2, "");
    txn.commit();
    Table plain = lake.catalog().loadTable(id("shop.c"));
    assertThat(plain.spec().isUnpartitioned()).isTrue();
    assertThat(ids(plain)).containsExactly(1L, 2L);
    try (var tasks = plain.newScan().planFiles()) {
      List<String> partitions = new ArrayList<>();
      tasks.forEach(task -> partitions.add(task.spec().partitionToPath(task.partition())));
      assertThat(partitions).containsExactlyInAnyOrder("name=n1", "");
    }
  }

  private static void appendToPartition(Table table, long id, String path) {
    DataFile written = Lake.file(table, id);
    DataFiles.Builder file =
        DataFiles.builder(table.spec())
            .withPath(written.location())
            .withFormat(written.format())
            .withFileSizeInBytes(written.fileSizeInBytes())
            .withRecordCount(written.recordCount());
    table.newAppend().appendFile(file.withPartitionPath(path).build()).commit();
  }

  /** A partition field may have the name of a column that was there before its own. */
  @Test
  void theTimeBeforeAColumnWhoseNameWasUsedAgain() {
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    long then = handle.upper();
    Table altered = handle.catalog(() -> null).loadTable(id("shop.a"));
    altered.updateSchema().deleteColumn("name").commit();
    altered.updateSchema().addColumn("name", Types.StringType.get()).commit();
    altered.updateSpec().addField("name").commit();
    Table past = handle.catalog(() -> null).loadTableAt(id("shop.a"), then);
    assertThat(ids(past)).containsExactly(1L);
    assertThat(past.spec().isUnpartitioned()).isTrue();
  }

  private long files() {
    return lake.filesBelow("shop").stream()
        .filter(path -> !path.getFileName().toString().endsWith(".crc"))
        .count();
  }
}
