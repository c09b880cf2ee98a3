package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.apache.iceberg.types.Types.NestedField.required;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.History;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Strangers who alter a table between commit and apply (docs/spec.md 6.3, 8.1, 9.4). */
class AlteredTableTest extends TwoTables {
  private void alter(Table table, String column) {
    table.updateSchema().addColumn(column, Types.StringType.get()).commit();
  }

  private Table view() {
    return lake.open().catalog(() -> null).loadTable(id("shop.a"));
  }

  /** A column and a row of both tables are logged; a stranger's column takes the id first. */
  private void alterBoth() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    alter(lazy.catalog(() -> txn).loadTable(id("shop.a")), "ours");
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> txn).loadTable(id("shop.b")), 2);
    txn.commit();
    alter(outside.loadTable(id("shop.a")), "theirs");
    assertThat(handle.apply()).isEqualTo(1);
  }

  /** Neither their spec nor their order fits the logged columns, which have that id (I10). */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void readersOfATableThatGoesByAColumnOfStrangers(boolean partitioned) {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    alter(lazy.catalog(() -> txn).loadTable(id("shop.a")), "ours");
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
    Table theirs = outside.loadTable(id("shop.a"));
    theirs.updateSchema().addColumn("theirs", Types.DateType.get()).commit();
    if (partitioned) {
      theirs.updateSpec().addField(Expressions.year("theirs")).commit();
    } else {
      theirs.replaceSortOrder().asc(Expressions.year("theirs")).commit();
    }
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(view().schema().findField("ours")).isNotNull();
    assertThat(view().spec().isUnpartitioned()).isTrue();
    assertThat(view().sortOrder().isUnsorted()).isTrue();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThatThrownBy(() -> append(view(), 3))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED));
    handle.repairReject(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    // Iceberg would not load a table with such a spec.
    assertThat(handle.apply()).isEqualTo(partitioned ? 1 : 0);
    assertThat(lake.plainIds("shop.a")).hasSize(partitioned ? 1 : 2);
  }

  /** Invariant I10: whoever sees one table of an entry sees all of them. */
  @Test
  void readersStayOnTheLoggedState() {
    alterBoth();
    assertThat(view().schema().findField("ours")).isNotNull();
    assertThat(view().schema().findField("theirs")).isNull();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.txnIds("shop.b")).containsExactly(2L);
    assertThatThrownBy(() -> append(view(), 3))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED));
  }

  @Test
  void rejectPutsTheLoggedColumnsOnTheTable() {
    alterBoth();
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("reject");
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    Table table = outside.loadTable(id("shop.a"));
    assertThat(table.schema().columns().stream().map(Types.NestedField::name))
        .containsExactly("id", "name", "ours");
    assertThat(table.schemas()).hasSize(3);
    assertThat(table.currentSnapshot().schemaId()).isEqualTo(table.schema().schemaId());
    assertThat(ids(table)).containsExactly(1L, 2L);
    append(view(), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** What a stranger wrote into a column of that id would show in the logged column. */
  @Test
  void rowsOfAColumnWhoseIdIsTakenAreNotAdopted() {
    alterBoth();
    append(outside.loadTable(id("shop.a")), 9);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a")))
        .hasMessageContaining("`ours` of the log is `theirs`");
  }

  private Table nested() {
    Types.StructType struct = Types.StructType.of(optional(3, "a", Types.StringType.get()));
    Schema schema = new Schema(required(1, "id", Types.LongType.get()), optional(2, "s", struct));
    Table table = outside.createTable(id("shop.c"), schema);
    lazy.register(id("shop.c"));
    return table;
  }

  /** A file of that schema; nobody reads it here. */
  private static void appendUnread(Table table) {
    DataFiles.Builder file = DataFiles.builder(table.spec()).withFormat(FileFormat.PARQUET);
    file.withPath(table.location() + "/data/" + UUID.randomUUID() + ".parquet");
    table.newAppend().appendFile(file.withRecordCount(1).withFileSizeInBytes(1).build()).commit();
  }

  static Stream<Arguments> columnsOfOneId() {
    Type text = Types.StringType.get();
    Type struct = Types.StructType.of(optional(9, "b", text));
    return Stream.of(
        arguments(text, "theirs", text, "`s.ours` of the log is `s.theirs`"),
        arguments(
            Types.LongType.get(), "ours", text, "`s.ours long` of the log is `s.ours string`"),
        arguments(
            Types.DecimalType.of(9, 3), "ours", Types.DecimalType.of(8, 2), "`s.ours decimal"),
        arguments(struct, "ours", text, "is `s.ours string`"));
  }

  /** They would show in another column, or as a type that nobody can read them as. */
  @ParameterizedTest
  @MethodSource("columnsOfOneId")
  void rowsOfANestedColumnWhoseIdIsTakenAreNotAdopted(
      Type logged, String name, Type theirs, String told) {
    nested();
    lazy.catalog(() -> null)
        .loadTable(id("shop.c"))
        .updateSchema()
        .addColumn("s", "ours", logged)
        .commit();
    Table table = outside.loadTable(id("shop.c"));
    table.updateSchema().addColumn("s", name, theirs).commit();
    appendUnread(table);
    handle.repairReject(id("shop.c"));
    assertThat(handle.apply()).isZero();
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.c"))).hasMessageContaining(told);
    assertThat(lake.txnIds("shop.c")).isEmpty();
  }

  /** They are read as any file that is older than the change of the type. */
  @Test
  void rowsOfATypeThatTheLogHasWidenedAreAdopted() {
    nested().updateSchema().addColumn("s", "n", Types.IntegerType.get()).commit();
    lazy.catalog(() -> null)
        .loadTable(id("shop.c"))
        .updateSchema()
        .updateColumn("s.n", Types.LongType.get())
        .commit();
    appendUnread(outside.loadTable(id("shop.c")));
    assertThat(handle.apply()).isZero();
    handle.repairAdopt(id("shop.c"));
    assertThat(outside.loadTable(id("shop.c")).currentSnapshot().summary())
        .containsEntry("total-records", "1");
  }

  @Test
  void readersOfATableWhosePartitionsWereAltered() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    Table table = lazy.catalog(() -> txn).loadTable(id("shop.a"));
    table.updateSpec().addField("ours", Expressions.bucket("id", 4)).commit();
    txn.commit();
    outside
        .loadTable(id("shop.a"))
        .updateSpec()
        .addField("theirs", Expressions.bucket("id", 8))
        .commit();
    assertThat(view().spec().fields()).hasSize(1);
    assertThat(view().spec().fields().get(0).name()).isEqualTo("ours");
    assertThat(ids(view())).containsExactly(1L);
  }

  /**
   * Manifests carry the id of their spec, so a logged one cannot take another, with a repair
   * neither: a row of it would be looked for in the partitions of the stranger's.
   */
  @Test
  void aSpecWhoseIdIsTakenIsNotApplied() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    lazy.catalog(() -> txn).loadTable(id("shop.a")).updateSpec().addField("id").commit();
    appendPartitioned(lazy.catalog(() -> txn).loadTable(id("shop.a")), 7);
    txn.commit();
    outside.loadTable(id("shop.a")).updateSpec().addField(Expressions.bucket("id", 4)).commit();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(ids(view())).containsExactly(1L, 7L);
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(ids(view())).containsExactly(1L, 7L);
    assertThat(rowsWhereId(view(), 7)).containsExactly(7L);
    assertThat(outside.loadTable(id("shop.a")).specs()).hasSize(2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** No requirement tells: a field that was removed and added again leaves the default spec. */
  @Test
  void aSpecWhoseIdIsTakenByAnOldOneIsNotApplied() {
    ours.loadTable(id("shop.a")).updateSpec().addField("id").addField("name").commit();
    Table staged = lazy.catalog(() -> null).loadTable(id("shop.a"));
    staged.updateSpec().addField(Expressions.bucket("id", 4)).commit();
    outside.loadTable(id("shop.a")).updateSpec().removeField("name").commit();
    outside.loadTable(id("shop.a")).updateSpec().addField("name").commit();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(outside.loadTable(id("shop.a")).specs()).hasSize(3);
    assertThatThrownBy(this::view)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("partition spec 2");
  }

  private static void appendPartitioned(Table table, long row) {
    DataFile file = Lake.file(table, row);
    DataFile partitioned =
        DataFiles.builder(table.spec())
            .withPath(file.location())
            .withFormat(file.format())
            .withFileSizeInBytes(file.fileSizeInBytes())
            .withRecordCount(file.recordCount())
            .withPartitionPath("id=" + row)
            .build();
    table.newAppend().appendFile(partitioned).commit();
  }

  private static List<Long> rowsWhereId(Table table, long row) {
    List<Long> found = new ArrayList<>();
    IcebergGenerics.read(table)
        .where(Expressions.equal("id", row))
        .build()
        .forEach(record -> found.add((Long) record.getField("id")));
    return found;
  }

  @Test
  void aBranchThatAStrangerMovedIsKept() {
    Table table = outside.loadTable(id("shop.a"));
    table.manageSnapshots().createBranch("side").commit();
    Table staged = lazy.catalog(() -> null).loadTable(id("shop.a"));
    staged.newAppend().appendFile(Lake.file(staged, 2)).toBranch("side").commit();
    table.newAppend().appendFile(Lake.file(table, 9)).toBranch("side").commit();
    long foreign = outside.loadTable(id("shop.a")).refs().get("side").snapshotId();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(view().refs().get("side").snapshotId()).isNotEqualTo(foreign);
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(outside.loadTable(id("shop.a")).refs().get("txns-foreign-" + foreign).snapshotId())
        .isEqualTo(foreign);
  }

  /** A stranger's overwrite between a drop and its apply: the drop stands, nothing is lost. */
  @Test
  void aChangeOfADroppedTableIsRejected() {
    lazy.catalog(() -> null).dropTable(id("shop.a"), false);
    overwrite(outside.loadTable(id("shop.a")), 9);
    long foreign = outside.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    assertThat(handle.apply()).isEqualTo(1);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("dropped");
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(handle.catalog(() -> null).tableExists(id("shop.a"))).isFalse();
    assertThat(outside.loadTable(id("shop.a")).refs()).containsKey("txns-foreign-" + foreign);
  }

  /** Whoever writes a table after it was forgotten is no stranger. */
  @Test
  void aForgetThatIsAppliedLateLeavesMainToOthers() {
    long readTs = handle.services().log().load().upper();
    lazy.forget(id("shop.a"));
    overwrite(outside.loadTable(id("shop.a")), 9);
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(9L);
    assertThat(outside.loadTable(id("shop.a")).properties())
        .doesNotContainKey(TableMark.COMMIT_TABLE);
    Head head = handle.services().log().load();
    var before = handle.services().tables().load(id("shop.a"), head, readTs);
    assertThat(before.registered()).isTrue();
    handle.tidy();
    head = handle.services().log().load();
    before = handle.services().tables().load(id("shop.a"), head, readTs);
    assertThat(before.metadata().currentSnapshot().summary()).containsEntry("total-records", "1");
    assertThat(handle.services().tables().load(id("shop.a"), head, head.upper()).registered())
        .isFalse();
  }

  /** Do to `shop.a` what its owner may; but for a mark taken, with all older snapshots expired. */
  private void doAsAnOwner(String deed) {
    Table table = outside.loadTable(id("shop.a"));
    if (deed.equals("unmark")) {
      table.updateProperties().remove(TableMark.COMMIT_TABLE).commit();
      return;
    }
    if (deed.equals("append")) {
      append(table, 9);
    } else {
      compact(table);
    }
    expireAllButMain(table);
    assertThat(table.snapshots()).hasSize(1);
  }

  /**
   * From its entry on a forgotten table is its owner's, whoever applies it, and whenever.
   *
   * <p>1. A forget is logged, and not applied. 2. The owner writes the table, or lets it be
   * compacted, and expires what the forget stands on; or takes the mark away. 3. Somebody reads it,
   * and asks for a repair, before anybody applies. 4. It is registered.
   */
  @ParameterizedTest
  @ValueSource(strings = {"append", "compact", "unmark"})
  void aForgetAsksNothingOfTheTable(String deed) {
    long readTs = handle.services().log().load().upper();
    lazy.forget(id("shop.a"));
    doAsAnOwner(deed);
    List<Long> written = lake.plainIds("shop.a");
    Head head = handle.services().log().load();
    Loaded loaded = handle.services().tables().load(id("shop.a"), head, head.upper());
    assertThat(loaded instanceof Loaded.Forgotten).isTrue();
    assertThat(loaded.stranger()).isEmpty();
    assertThat(History.mainId(loaded.metadata()))
        .isEqualTo(outside.loadTable(id("shop.a")).currentSnapshot().snapshotId());
    TxnHandle refused =
        TxnHandle.open(
            "lake", BeforeCommit.forbidding(lake.catalog(), id("shop.a")), Lake.INLINE, Lake.CLOCK);
    assertThatThrownBy(() -> refused.repairAdopt(id("shop.a"))).hasMessageContaining("nothing to");
    assertThatThrownBy(() -> refused.repairReject(id("shop.a"))).hasMessageContaining("nothing to");
    if (deed.equals("unmark")) {
      assertThat(handle.services().tables().load(id("shop.a"), head, readTs).registered()).isTrue();
    } else {
      assertThatThrownBy(() -> handle.services().tables().load(id("shop.a"), head, readTs))
          .hasMessageContaining("too old");
    }
    handle.register(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).isEqualTo(written);
    append(view(), 4);
    assertThat(lake.plainIds("shop.a")).contains(4L).containsAll(written);
  }

  /** Registered again, a table is read below its forget as it was under care. */
  @Test
  void whatWasNeverAdoptedIsNotReadBeforeTheForget() {
    TxnConfig later = TxnConfig.from(Map.of("txns.apply", "next"));
    TxnHandle ahead = TxnHandle.open("lake", lake.catalog(), later, new MovedClock(30_000));
    long before = ahead.forget(id("shop.a")) - 1;
    append(outside.loadTable(id("shop.a")), 9);
    handle.register(id("shop.a"));
    TxnCatalog catalog = handle.catalog(() -> null);
    assertThat(Lake.ids(catalog.loadTableAt(id("shop.a"), before))).containsExactly(1L);
    assertThat(Lake.ids(catalog.loadTable(id("shop.a")))).containsExactly(1L, 9L);
  }

  private static void compact(Table table) {
    var rewrite = table.newRewrite();
    table.newScan().planFiles().forEach(task -> rewrite.deleteFile(task.file()));
    rewrite.addFile(Lake.file(table, 1)).commit();
  }

  private static void expireAllButMain(Table table) {
    table
        .manageSnapshots()
        .setMinSnapshotsToKeep("main", 1)
        .setMaxSnapshotAgeMs("main", 1)
        .commit();
    table.expireSnapshots().expireOlderThan(Long.MAX_VALUE).commit();
  }

  /** When only a compaction is left of ours, what stands above it is a stranger's. */
  @Test
  void aWriteAboveACompactionThatLostItsParents() {
    Table table = outside.loadTable(id("shop.a"));
    compact(table);
    expireAllButMain(table);
    append(table, 9);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 9L);
  }

  /** Expiry keeps what an overwrite stands on also where a stranger drops main's retention. */
  @Test
  void theRetentionIsAPropertyAsWell() {
    Table registered = outside.loadTable(id("shop.a"));
    assertThat(registered.properties()).containsEntry("history.expire.min-snapshots-to-keep", "10");
    Schema schema = Lake.SCHEMA;
    handle
        .catalog(() -> null)
        .buildTable(id("shop.c"), schema)
        .withProperty("history.expire.min-snapshots-to-keep", "20")
        .withProperty("history.expire.max-snapshot-age-ms", "1")
        .create();
    assertThat(outside.loadTable(id("shop.c")).properties())
        .containsEntry("history.expire.min-snapshots-to-keep", "20")
        .containsEntry("history.expire.max-snapshot-age-ms", "86400000");
  }

  /** An applier that does not know of an adoption from main puts the stranger on a branch. */
  @Test
  void whatWasAdoptedFromMainIsNotAdoptedFromABranchAgain() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Head before = handle.services().log().load();
    append(outside.loadTable(id("shop.a")), 50);
    TxnHandle forbidden =
        TxnHandle.open(
            "lake", BeforeCommit.forbidding(lake.catalog(), id("shop.a")), Lake.INLINE, Lake.CLOCK);
    forbidden.repairAdopt(id("shop.a"));
    assertThatThrownBy(() -> forbidden.repairAdopt(id("shop.a")))
        .hasMessageContaining("nothing to repair");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 50L);
    Applier unaware =
        new Applier(
            outside,
            handle.services().log(),
            handle.services().tables(),
            handle.services().places(),
            Lake.CLOCK);
    assertThat(unaware.applyRun(before, id("shop.a"))).isTrue();
    assertThat(outside.loadTable(id("shop.a")).refs()).hasSize(2);
    assertThatThrownBy(() -> forbidden.repairAdopt(id("shop.a")))
        .hasMessageContaining("nothing to repair");
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 50L);
    assertThat(outside.loadTable(id("shop.a")).refs()).containsOnlyKeys("main");
  }
}
