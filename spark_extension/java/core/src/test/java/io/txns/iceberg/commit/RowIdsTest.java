package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.io.CloseableIterable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Rows of format 3 keep the ids that apply has given them (docs/spec.md, 8.2). */
class RowIdsTest extends TwoTables {
  private static final String TABLE = "shop.c";

  private void table(String formatVersion) {
    outside
        .buildTable(id(TABLE), Lake.SCHEMA)
        .withProperty("format-version", formatVersion)
        .create();
    handle.register(id(TABLE));
  }

  private Table logged() {
    return lazy.catalog(() -> null).loadTable(id(TABLE));
  }

  private Table plain() {
    return outside.loadTable(id(TABLE));
  }

  /** Somebody takes the ids that the next rows of the table would get. */
  private void takeIds() {
    Table table = plain();
    DataFile file = Lake.file(table, 100, 101);
    table.manageSnapshots().createBranch("audit").commit();
    table.newAppend().appendFile(file).toBranch("audit").commit();
  }

  /** The first row id of each file, by the file's location. */
  private static Map<String, Long> firstIds(Table table, Snapshot snapshot) {
    Map<String, Long> ids = new HashMap<>();
    try (CloseableIterable<FileScanTask> tasks =
        table.newScan().useSnapshot(snapshot.snapshotId()).planFiles()) {
      tasks.forEach(task -> ids.put(task.file().location(), task.file().firstRowId()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return ids;
  }

  /** Each file has ids of its own, and the same ones in all snapshots of main and beside it. */
  private void assertIdsAreForLife(int rows) {
    Table table = plain();
    Map<String, Long> known = new HashMap<>();
    for (Snapshot snapshot : table.snapshots()) {
      firstIds(table, snapshot)
          .forEach(
              (location, first) -> {
                assertThat(first).as("%s in %s", location, snapshot).isNotNull();
                Long before = known.putIfAbsent(location, first);
                assertThat(first).isEqualTo(before == null ? first : before);
              });
    }
    assertThat(known.values()).doesNotHaveDuplicates();
    assertThat(lake.plainIds(TABLE)).hasSize(rows);
  }

  @Test
  void whatWasStagedOnARenumberedChangeHasItsIds() {
    table("3");
    append(logged(), 1);
    append(logged(), 2);
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /** What is shown of a change that is to be renumbered has its staged list, and other numbers. */
  @Test
  void whatIsStagedOnAChangeThatIsToBeRenumberedHasItsIds() {
    table("3");
    append(logged(), 1);
    takeIds();
    append(logged(), 2);
    append(logged(), 3);
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(3);
  }

  @Test
  void snapshotsOfOneChangeHaveTheSameIds() {
    table("3");
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id(TABLE)), 1);
    append(lazy.catalog(() -> txn).loadTable(id(TABLE)), 2);
    txn.commit();
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /** What was staged before an upgrade has no ids: it gets some when it is applied. */
  @Test
  void whatWasStagedBeforeAnUpgradeGetsIds() {
    table("2");
    append(logged(), 1);
    assertThat(handle.apply()).isZero();
    append(logged(), 2);
    plain().updateProperties().set("format-version", "3").commit();
    append(logged(), 3);
    assertThat(lake.txnIds(TABLE)).containsExactly(1L, 2L, 3L);
    assertThat(handle.apply()).isZero();
    append(logged(), 4);
    assertThat(handle.apply()).isZero();
    Table table = plain();
    assertThat(firstIds(table, table.currentSnapshot()).values())
        .doesNotContainNull()
        .doesNotHaveDuplicates();
    assertThat(lake.plainIds(TABLE)).containsExactly(1L, 2L, 3L, 4L);
  }

  /** A list that a repair writes gives ids to rows from before an upgrade as well. */
  @Test
  void aRejectedTableHasIdsForAllItsRows() {
    table("2");
    append(logged(), 1);
    assertThat(handle.apply()).isZero();
    plain().updateProperties().set("format-version", "3").commit();
    overwrite(plain(), 9);
    handle.repairReject(id(TABLE));
    Table table = plain();
    assertThat(firstIds(table, table.currentSnapshot()).values()).doesNotContainNull();
    assertThat(lake.plainIds(TABLE)).containsExactly(1L);
  }

  /** An overwrite writes the ids of the rows that it keeps into its files. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anOverwriteKeepsIdsThatApplyHasGiven(boolean taken) {
    table("3");
    append(logged(), 1);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    overwrite(lazy.catalog(() -> txn).loadTable(id(TABLE)), 1, 2);
    if (taken) {
      takeIds();
      assertThatThrownBy(txn::commit)
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
          .hasMessageContaining("row ids");
    } else {
      txn.commit();
      assertThat(handle.apply()).isZero();
      assertThat(lake.plainIds(TABLE)).containsExactly(1L, 2L);
    }
  }

  /** What an upgrade gave to rows of before it, in its own list, was not the table's to give. */
  @Test
  void anUpgradeThatIsRenumberedGivesIdsOnce() {
    table("2");
    append(logged(), 1, 2);
    assertThat(handle.apply()).isZero();
    logged().updateProperties().set("format-version", "3").commit();
    takeIds();
    append(logged(), 3);
    assertThat(handle.apply()).isZero();
    append(logged(), 4);
    assertThat(handle.apply()).isZero();
    Table table = plain();
    List<Long> ids = new ArrayList<>();
    firstIds(table, table.currentSnapshot()).values().forEach(ids::add);
    assertThat(ids).doesNotContainNull().doesNotHaveDuplicates().hasSize(3);
    assertThat(((BaseTable) table).operations().current().nextRowId())
        .isGreaterThan(ids.stream().mapToLong(id -> id).max().orElseThrow());
    assertThat(lake.plainIds(TABLE)).containsExactly(1L, 2L, 3L, 4L);
  }

  /** An append that merges manifests would write the ids of rows that it did not add. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anAppendOnWhatIsNotAppliedMergesNothing(boolean inTransaction) {
    table("3");
    plain().updateProperties().set(TableProperties.MANIFEST_MIN_MERGE_COUNT, "1").commit();
    append(logged(), 1);
    Table table = logged();
    if (inTransaction) {
      org.apache.iceberg.Transaction steps = table.newTransaction();
      steps.newAppend().appendFile(Lake.file(table, 2)).commit();
      steps.commitTransaction();
    } else {
      append(table, 2);
    }
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /**
   * What an append merges is decided on what it is committed on.
   *
   * <p>1. A job loads the table, all of which is applied. 2. Another writer's append is logged and
   * not applied. 3. The job appends: its loaded state shows nothing outstanding. 4. A stranger
   * takes the ids of the other writer's rows, which apply then numbers anew.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anAppendOfATableThatWasLoadedBeforeMergesNothing(boolean inTransaction) {
    mergingTable();
    Table early = logged();
    append(logged(), 1);
    if (inTransaction) {
      org.apache.iceberg.Transaction steps = early.newTransaction();
      steps.newAppend().appendFile(Lake.file(early, 2)).commit();
      steps.commitTransaction();
    } else {
      append(early, 2);
    }
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /** The same, where the other append is logged before an operation, or before the commit. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTransactionThatBeganBeforeMergesNothing(boolean before) {
    mergingTable();
    Table early = logged();
    org.apache.iceberg.Transaction steps = early.newTransaction();
    if (before) {
      append(logged(), 1);
    }
    steps.newAppend().appendFile(Lake.file(early, 2)).commit();
    if (!before) {
      append(logged(), 1);
    }
    steps.commitTransaction();
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void appendsOfOneTransactionMergeNothingOfEachOther(boolean alters) {
    mergingTable();
    Table table = logged();
    org.apache.iceberg.Transaction steps = table.newTransaction();
    if (alters) {
      steps.updateProperties().set("k", "v").commit();
    }
    steps.newAppend().appendFile(Lake.file(table, 1)).commit();
    steps.newAppend().appendFile(Lake.file(table, 2)).commit();
    steps.commitTransaction();
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /** Inserts of statements that depend on what the table held are no appends, and merge. */
  @Test
  void insertsMergeNothingOfEachOther() {
    mergingTable();
    insertTwice(false);
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /** What is not inserts alone is not made anew: its merged manifests take no other ids. */
  @Test
  void insertsThatHaveMergedAreQuarantined() {
    mergingTable();
    insertTwice(true);
    append(plain(), 100);
    assertThat(handle.apply()).isEqualTo(1);
    handle.repairReject(id(TABLE));
    assertThat(lake.plainIds(TABLE)).containsExactly(1L, 2L);
  }

  /** What goes back first is not inserts alone: it is not made anew where main stands. */
  @Test
  void insertsOnAnEarlierStateStayThere() {
    mergingTable();
    append(logged(), 1);
    final long first = logged().currentSnapshot().snapshotId();
    append(logged(), 2);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    Table table = lazy.catalog(() -> txn).loadTable(id(TABLE));
    table.manageSnapshots().rollbackTo(first).commit();
    table.newOverwrite().addFile(Lake.file(table, 3)).commit();
    txn.commit();
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds(TABLE)).containsExactly(1L, 3L);
  }

  private void insertTwice(boolean alters) {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    Table table = lazy.catalog(() -> txn).loadTable(id(TABLE));
    if (alters) {
      table.updateProperties().set("k", "v").commit();
    }
    table.newOverwrite().addFile(Lake.file(table, 1)).commit();
    table.newOverwrite().addFile(Lake.file(table, 2)).commit();
    txn.commit();
  }

  /**
   * An operation that rewrites rows keeps the manifests of its first try, and an engine its files:
   * it is refused, and not repeated by Iceberg, where they have ids that the rows no longer have.
   */
  @ParameterizedTest
  @CsvSource({"true, true", "true, false", "false, true", "false, false"})
  void anOverwriteIsNotRepeatedWithOtherIds(boolean inTransaction, boolean appliedBefore) {
    table("3");
    Table first = logged();
    DataFile gone = Lake.file(first, 1);
    first.newAppend().appendFile(gone).appendFile(Lake.file(first, 2)).commit();
    Table table = logged();
    org.apache.iceberg.Transaction steps = table.newTransaction();
    OverwriteFiles overwrite = inTransaction ? steps.newOverwrite() : table.newOverwrite();
    overwrite.deleteFile(gone).addFile(Lake.file(table, 3));
    if (inTransaction) {
      overwrite.commit();
    }
    takeIds();
    if (appliedBefore) {
      assertThat(handle.apply()).isZero();
    }
    assertThatThrownBy(inTransaction ? steps::commitTransaction : overwrite::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
        .hasMessageContaining("row ids");
    table.refresh();
    table.newOverwrite().deleteFile(gone).addFile(Lake.file(table, 3)).commit();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
  }

  /**
   * An append that was made before an upgrade is committed on what has ids by then. The one before
   * it gave ids to the rows of before the upgrade, which were not the table's to give.
   */
  @Test
  void anAppendOfBeforeAnUpgradeMergesNothing() {
    table("2");
    plain().updateProperties().set(TableProperties.MANIFEST_MIN_MERGE_COUNT, "1").commit();
    append(logged(), 1);
    assertThat(handle.apply()).isZero();
    Table early = logged();
    AppendFiles append = early.newAppend().appendFile(Lake.file(early, 3));
    logged().updateProperties().set("format-version", "3").commit();
    append(logged(), 2);
    append.commit();
    Table table = logged();
    assertThat(table.currentSnapshot().dataManifests(table.io()))
        .noneMatch(ManifestFile::hasExistingFiles);
    takeIds();
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds(TABLE)).containsExactly(1L, 2L, 3L);
  }

  /** What is applied has its ids for good: an append merges it as ever. */
  @Test
  void anAppendOnWhatIsAppliedMerges() {
    mergingTable();
    append(logged(), 1);
    assertThat(handle.apply()).isZero();
    append(logged(), 2);
    takeIds();
    assertThat(handle.apply()).isZero();
    assertIdsAreForLife(2);
    Table table = plain();
    assertThat(table.currentSnapshot().dataManifests(table.io())).hasSize(1);
  }

  private void mergingTable() {
    table("3");
    plain().updateProperties().set(TableProperties.MANIFEST_MIN_MERGE_COUNT, "1").commit();
  }

  /** Rows count more than their ids, where a person says so; wherever somebody took them. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aRejectAppliesWhatHasIdsThatSomebodyTook(boolean onABranch) {
    table("3");
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id(TABLE)), 1);
    overwrite(lazy.catalog(() -> txn).loadTable(id(TABLE)), 1, 2);
    txn.commit();
    if (onABranch) {
      takeIds();
    } else {
      append(plain(), 100);
    }
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(lake.txnIds(TABLE)).containsExactly(1L, 2L);
    handle.repairReject(id(TABLE));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds(TABLE)).containsExactly(1L, 2L);
  }
}
