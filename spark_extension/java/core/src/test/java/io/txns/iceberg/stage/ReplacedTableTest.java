package io.txns.iceberg.stage;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.TableMark;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A stranger's CREATE OR REPLACE TABLE without rows: main is gone (docs/spec.md 9.1). */
class ReplacedTableTest extends TwoTables {
  private static final String REASON = "somebody replaced the table by an empty one";

  private void replace(String name) {
    outside.buildTable(id(name), Lake.SCHEMA).replaceTransaction().commitTransaction();
    assertThat(lake.plainIds(name)).isEmpty();
  }

  private static void isRefused(ErrorKind kind, ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(TxnException.class, e -> assertThat(e.kind()).isEqualTo(kind))
        .hasMessageContaining(REASON);
  }

  @Test
  void theLoggedRowsAreReadUntilItIsRejected() {
    append(ours.loadTable(id("shop.a")), 2);
    replace("shop.a");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    isRefused(ErrorKind.QUARANTINED, () -> append(ours.loadTable(id("shop.a")), 3));
    isRefused(ErrorKind.FOREIGN_WRITE, () -> handle.forget(id("shop.a")));
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    Map<String, SnapshotRef> refs = outside.loadTable(id("shop.a")).refs();
    assertThat(refs).containsOnlyKeys("main");
    assertThat(refs.get("main").minSnapshotsToKeep()).isEqualTo(10);
    append(ours.loadTable(id("shop.a")), 3);
    replace("shop.a"); // the same deed again is another entry
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** An ALTER is not taken back: rejected or not, the schema is theirs. */
  @Test
  void theSchemaStaysAsAfterAReplacementWithRows() {
    append(ours.loadTable(id("shop.b")), 1);
    Schema theirs = new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));
    DataFile file = Lake.file(outside.loadTable(id("shop.b")), 9);
    outside.buildTable(id("shop.a"), theirs).replaceTransaction().commitTransaction();
    var withRows = outside.buildTable(id("shop.b"), theirs).replaceTransaction();
    withRows.newAppend().appendFile(file).commit();
    withRows.commitTransaction();
    for (String name : new String[] {"shop.a", "shop.b"}) {
      handle.repairReject(id(name));
      assertThat(lake.plainIds(name)).containsExactly(1L);
      assertThat(outside.loadTable(id(name)).schema().findField("name")).isNull();
    }
  }

  @Test
  void itIsAdoptedAsAnEntryWithoutRows() {
    long before = handle.upper();
    replace("shop.a");
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).isEmpty();
    assertThat(lake.plainIds("shop.a")).isEmpty();
    Transaction earlier = handle.begin(BeginOptions.defaults().withAsOf(before));
    assertThat(ids(handle.catalog(() -> earlier).loadTable(id("shop.a")))).containsExactly(1L);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("nothing to");
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(3L);
  }

  /** Row ids of format 3 go on. */
  @Test
  void aTableOfFormatVersion3IsAdoptedAndRejected() {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "3").create();
    handle.register(id("shop.c"));
    append(ours.loadTable(id("shop.c")), 1);
    replace("shop.c");
    handle.repairReject(id("shop.c"));
    assertThat(lake.plainIds("shop.c")).containsExactly(1L);
    replace("shop.c");
    handle.repairAdopt(id("shop.c"));
    append(ours.loadTable(id("shop.c")), 2);
    assertThat(lake.plainIds("shop.c")).containsExactly(2L);
  }

  /** Its id is derived, though there is no snapshot to derive it from. */
  @Test
  void twoWhoRejectItWriteOneEntry() {
    replace("shop.a");
    long first = lazy.repairReject(id("shop.a"));
    TableMetadata raw = ((BaseTable) outside.loadTable(id("shop.a"))).operations().current();
    String txnId = Entry.derivedId("reject", raw.uuid(), "0:" + TableMark.applied(raw));
    assertThat(handle.transactions())
        .filteredOn(row -> row.commitTs() == first)
        .allMatch(row -> row.txnId().equals(txnId));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** What has committed is read as logged, and applied with the rejection. */
  @Test
  void betweenSwapAndApply() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> txn).loadTable(id("shop.b")), 2);
    txn.commit();
    replace("shop.a");
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("reject");
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Who clears the history of main with it leaves each snapshot of the transaction in question. */
  @Test
  void aBranchOfTheTransactionIsNotTakenForMain() {
    ours.loadTable(id("shop.a")).manageSnapshots().createBranch("side").commit();
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table table = handle.catalog(() -> txn).loadTable(id("shop.a"));
    append(table, 2);
    table.newAppend().appendFile(Lake.file(table, 4)).toBranch("side").commit();
    txn.commit();
    Snapshot main = outside.loadTable(id("shop.a")).currentSnapshot();
    replace("shop.a");
    TableMetadata replaced = ((BaseTable) outside.loadTable(id("shop.a"))).operations().current();
    String json = TableMetadataParser.toJson(replaced);
    String cleared = json.replaceAll("\"snapshot-log\":\\[[^]]*]", "\"snapshot-log\":[]");
    assertThat(cleared).isNotEqualTo(json);
    for (String each : new String[] {json, cleared}) {
      TableMetadata metadata = TableMetadataParser.fromJson(each);
      LoggedState logged = LoggedState.of(metadata, TableMark.of(metadata).orElseThrow());
      assertThat(logged.snapshot().snapshotId()).isEqualTo(main.snapshotId());
    }
  }

  @Test
  void aDroppedTableStaysDropped() {
    ours.dropTable(id("shop.a"));
    replace("shop.a");
    assertThat(ours.tableExists(id("shop.a"))).isFalse();
    isRefused(ErrorKind.QUARANTINED, () -> ours.buildTable(id("shop.a"), Lake.SCHEMA).create());
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("dropped");
    handle.repairReject(id("shop.a"));
    assertThat(ours.tableExists(id("shop.a"))).isFalse();
    append(ours.buildTable(id("shop.a"), Lake.SCHEMA).create(), 5);
    assertThat(lake.plainIds("shop.a")).containsExactly(5L);
  }

  /** A stranger's {@code replace} holds the rows of the marker: none, of no table. */
  @Test
  void aDroppedTableThatIsCompactedStaysDropped() {
    ours.dropTable(id("shop.a"));
    TableOperations real = ((BaseTable) outside.loadTable(id("shop.a"))).operations();
    Snapshot marker = real.current().currentSnapshot();
    Snapshot compaction =
        SnapshotEdit.create(77, DataOperations.REPLACE)
            .parent(marker.snapshotId())
            .sequenceNumber(marker.sequenceNumber() + 1)
            .timestampMs(marker.timestampMillis())
            .manifestList(marker.manifestListLocation())
            .build();
    real.commit(
        real.current(),
        TableMetadata.buildFrom(real.current())
            .setBranchSnapshot(compaction, SnapshotRef.MAIN_BRANCH)
            .build());
    assertThatThrownBy(() -> ours.loadTable(id("shop.a"))).isInstanceOf(NoSuchTableException.class);
    append(ours.buildTable(id("shop.a"), Lake.SCHEMA).create(), 5);
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    assertThat(lake.plainIds("shop.a")).containsExactly(5L);
  }

  /** Whoever replaces a table after it was forgotten is no stranger. */
  @Test
  void aForgetIsAppliedAllTheSame() {
    long before = handle.upper();
    lazy.forget(id("shop.a"));
    replace("shop.a");
    assertThat(handle.apply()).isZero();
    assertThat(lake.txnIds("shop.a")).isEmpty();
    Transaction earlier = handle.begin(BeginOptions.defaults().withAsOf(before));
    assertThat(ids(handle.catalog(() -> earlier).loadTable(id("shop.a")))).containsExactly(1L);
  }

  /** Entries that are not applied tell whose the table is. */
  @Test
  void withoutTheMarkTheLoggedRowsAreReadToo() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    replace("shop.a");
    outside.loadTable(id("shop.a")).updateProperties().remove(TableMark.COMMIT_TABLE).commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void onceTheRowsAreExpiredNobodyReadsAnEmptyTable() {
    replace("shop.a");
    Table table = outside.loadTable(id("shop.a"));
    table.expireSnapshots().expireOlderThan(Long.MAX_VALUE).retainLast(1).commit();
    assertThat(outside.loadTable(id("shop.a")).snapshots()).isEmpty();
    assertThatThrownBy(() -> ours.loadTable(id("shop.a")))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("expired")
        .hasMessageContaining("then register it");
    outside.loadTable(id("shop.a")).updateProperties().remove(TableMark.COMMIT_TABLE).commit();
    handle.register(id("shop.a"));
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(2L);
  }

  /** What an ALTER has committed stays, applied or not. */
  @Test
  void aReplacementOfOursKeepsPropertiesThatAreNotAppliedYet() {
    outside.loadTable(id("shop.a")).updateProperties().set("color", "red").commit();
    Table table = lazy.catalog(() -> null).loadTable(id("shop.a"));
    table.updateProperties().set("color", "blue").commit();
    lazy.catalog(() -> null)
        .buildTable(id("shop.a"), Lake.SCHEMA)
        .withProperty("asked", "for")
        .createOrReplaceTransaction()
        .commitTransaction();
    assertThat(handle.apply()).isZero();
    assertThat(outside.loadTable(id("shop.a")).properties())
        .containsEntry("color", "blue")
        .containsEntry("asked", "for");
  }

  /** What else the table had as it was planned is not what it asks for. */
  @Test
  void aReplacementOfOursKeepsPropertiesThatOthersHaveSetMeanwhile() {
    ours.loadTable(id("shop.a")).updateProperties().set("color", "red").set("gone", "1").commit();
    var replacing =
        ours.buildTable(id("shop.a"), Lake.SCHEMA)
            .withProperty("asked", "for")
            .createOrReplaceTransaction();
    ours.loadTable(id("shop.a")).updateProperties().set("color", "blue").remove("gone").commit();
    replacing.commitTransaction();
    assertThat(outside.loadTable(id("shop.a")).properties())
        .containsEntry("color", "blue")
        .containsEntry("asked", "for")
        .doesNotContainKey("gone");
  }

  /** The catalog's own options come last, also where the table has had what they say before. */
  @Test
  void aReplacementOfOursCannotSetWhatTheCatalogOverrides() {
    Map<String, String> options = lake.options();
    options.put("table-override.limit", "1");
    JdbcCatalog overriding = new JdbcCatalog();
    overriding.initialize("lake", options);
    TxnCatalog tables =
        TxnHandle.open("lake", overriding, Lake.INLINE, Lake.CLOCK).catalog(() -> null);
    outside.loadTable(id("shop.a")).updateProperties().set("limit", "1").commit();
    tables
        .buildTable(id("shop.a"), Lake.SCHEMA)
        .withProperty("limit", "2")
        .withProperty("asked", "for")
        .createOrReplaceTransaction()
        .commitTransaction();
    assertThat(outside.loadTable(id("shop.a")).properties())
        .containsEntry("limit", "1")
        .containsEntry("asked", "for");
  }

  private static final Schema PRICED =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "price", Types.StringType.get()));

  /**
   * 1. A replacement is planned: its column `price` is to have the next free id. 2. Somebody adds a
   * column, which takes that, and writes it. 3. Rows of before, which stay on a branch and in the
   * history, would show in `price` what they have in the other's column.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aReplacementOfOursTakesNoColumnIdThatIsTaken(boolean withRows) {
    var replacing = ours.buildTable(id("shop.a"), PRICED).createOrReplaceTransaction();
    if (withRows) {
      replacing.newAppend().appendFile(Lake.file(ours.loadTable(id("shop.a")), 5)).commit();
    }
    Table table = ours.loadTable(id("shop.a"));
    table.updateSchema().addColumn("note", Types.StringType.get()).commit();
    assertThatThrownBy(replacing::commitTransaction)
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("run it again");
    assertThat(outside.loadTable(id("shop.a")).schema().findField("note")).isNotNull();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** It needs no new id, or nobody took one. */
  @Test
  void aReplacementOfOursTakesWhatItPlanned() {
    var same = ours.buildTable(id("shop.a"), Lake.SCHEMA).createOrReplaceTransaction();
    ours.loadTable(id("shop.a")).updateSchema().addColumn("note", Types.StringType.get()).commit();
    same.commitTransaction();
    assertThat(outside.loadTable(id("shop.a")).schema().columns()).hasSize(2);
    var priced = ours.buildTable(id("shop.a"), PRICED).createOrReplaceTransaction();
    append(ours.loadTable(id("shop.a")), 2);
    priced.commitTransaction();
    assertThat(outside.loadTable(id("shop.a")).schema().findField("price").fieldId()).isEqualTo(4);
  }

  /** The same with a partition field. */
  @Test
  void aReplacementOfOursTakesNoPartitionFieldIdThatIsTaken() {
    PartitionSpec spec = PartitionSpec.builderFor(Lake.SCHEMA).identity("id").build();
    var replacing =
        ours.buildTable(id("shop.a"), Lake.SCHEMA)
            .withPartitionSpec(spec)
            .createOrReplaceTransaction();
    ours.loadTable(id("shop.a")).updateSpec().addField("name").commit();
    assertThatThrownBy(replacing::commitTransaction)
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("run it again");
    assertThat(outside.loadTable(id("shop.a")).spec().fields().get(0).name()).isEqualTo("name");
  }

  /** 1. T1 plans a table that is not there. 2. T2 creates it by other columns. */
  @Test
  void aReplacementOfOursThatWasPlannedAsACreation() {
    var replacing = ours.buildTable(id("shop.c"), PRICED).createOrReplaceTransaction();
    ours.createTable(id("shop.c"), Lake.SCHEMA);
    assertThatThrownBy(replacing::commitTransaction)
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("run it again");
    assertThat(outside.loadTable(id("shop.c")).schema().findField("name")).isNotNull();
  }

  /** What was asked for holds whether somebody wrote in between, or not. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aReplacementOfOursHasTheFormatVersionThatWasAskedFor(boolean moved) {
    var builder = ours.buildTable(id("shop.a"), Lake.SCHEMA).withProperty("format-version", "3");
    var replacing = builder.createOrReplaceTransaction();
    if (moved) {
      append(ours.loadTable(id("shop.a")), 2);
    }
    replacing.commitTransaction();
    assertThat(current("shop.a").formatVersion()).isEqualTo(3);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(3L);
  }

  /** Rows that were staged for one format are not put on another. */
  @Test
  void aReplacementOfOursWithRowsOfANewFormatIsRunAgain() {
    var builder = ours.buildTable(id("shop.a"), Lake.SCHEMA).withProperty("format-version", "3");
    var replacing = builder.createOrReplaceTransaction();
    replacing.newAppend().appendFile(Lake.file(ours.loadTable(id("shop.a")), 5)).commit();
    append(ours.loadTable(id("shop.a")), 2);
    assertThatThrownBy(replacing::commitTransaction)
        .isInstanceOf(CommitFailedException.class)
        .hasMessageContaining("run it again");
    assertThat(current("shop.a").formatVersion()).isEqualTo(2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Where nobody asked for a place, the table stays where an ALTER has put it since. */
  @Test
  void aReplacementOfOursHasTheLocationThatWasAskedFor() {
    String asked = current("shop.a").location() + "-asked";
    String altered = current("shop.a").location() + "-altered";
    String allowed = folder.toString();
    TxnCatalog ours = lake.open(Map.of("txns.create-locations", allowed)).catalog(() -> null);
    var asking = ours.buildTable(id("shop.a"), Lake.SCHEMA).withLocation(asked);
    var replacing = asking.createOrReplaceTransaction();
    append(ours.loadTable(id("shop.a")), 2);
    replacing.commitTransaction();
    assertThat(current("shop.a").location()).isEqualTo(asked);
    replacing = ours.buildTable(id("shop.a"), Lake.SCHEMA).createOrReplaceTransaction();
    ours.loadTable(id("shop.a")).updateLocation().setLocation(altered).commit();
    replacing.commitTransaction();
    assertThat(current("shop.a").location()).isEqualTo(altered);
  }

  private TableMetadata current(String name) {
    return ((BaseTable) outside.loadTable(id(name))).operations().current();
  }
}
