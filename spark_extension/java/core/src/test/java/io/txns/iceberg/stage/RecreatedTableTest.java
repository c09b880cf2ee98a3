package io.txns.iceberg.stage;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import java.util.Map;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A dropped name that is created again, on its physical table (docs/spec.md 6.5). */
class RecreatedTableTest extends TwoTables {
  private static void isConflict(ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  private TxnCatalog other() {
    return lake.open().catalog(() -> null);
  }

  private org.apache.iceberg.Transaction planned(boolean orReplace) {
    var builder = ours.buildTable(id("shop.a"), Lake.SCHEMA).withProperty("asked", "for");
    var planned = orReplace ? builder.createOrReplaceTransaction() : builder.createTransaction();
    planned.newAppend().appendFile(Lake.file(planned.table(), 5)).commit();
    return planned;
  }

  /** 1. T1 plans to create a dropped name. 2. T2 creates it, and writes it. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void somebodyCreatesItMeanwhile(boolean orReplace) {
    ours.dropTable(id("shop.a"), false);
    var planned = planned(orReplace);
    append(other().createTable(id("shop.a"), Lake.SCHEMA), 7);
    if (orReplace) {
      isConflict(planned::commitTransaction);
    } else {
      assertThatThrownBy(planned::commitTransaction).isInstanceOf(AlreadyExistsException.class);
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(7L);
    assertThat(other().loadTable(id("shop.a")).properties()).doesNotContainKey("asked");
  }

  /** Nobody else sees it before it is committed. */
  @Test
  void itIsListedInItsTransaction() {
    ours.dropTable(id("shop.a"), false);
    Transaction txn = handle.begin(BeginOptions.defaults());
    TxnCatalog inside = handle.catalog(() -> txn);
    inside.createTable(id("shop.a"), Lake.SCHEMA);
    assertThat(inside.listTables(id("shop.a").namespace()))
        .containsExactlyInAnyOrder(id("shop.a"), id("shop.b"));
    assertThat(other().listTables(id("shop.a").namespace())).containsExactly(id("shop.b"));
  }

  /** Two CTAS, planned at once. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void twoCreateItAtOnce(boolean orReplace) {
    ours.dropTable(id("shop.a"), false);
    var one = planned(orReplace);
    var two = planned(orReplace);
    one.commitTransaction();
    assertThatThrownBy(two::commitTransaction).isInstanceOf(RuntimeException.class);
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    assertThat(other().loadTable(id("shop.a")).history()).hasSize(4);
  }

  /** Where it is free again, what was planned would leave half of the other one there. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void somebodyCreatesAndDropsItMeanwhile(boolean orReplace) {
    ours.dropTable(id("shop.a"), false);
    var planned = planned(orReplace);
    Table table =
        other().buildTable(id("shop.a"), Lake.SCHEMA).withProperty("theirs", "1").create();
    append(table, 7);
    table.manageSnapshots().createTag("theirs", table.currentSnapshot().snapshotId()).commit();
    other().dropTable(id("shop.a"), false);
    isConflict(planned::commitTransaction);
    assertThat(ours.tableExists(id("shop.a"))).isFalse();
    planned(orReplace).commitTransaction();
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    table = outside.loadTable(id("shop.a"));
    assertThat(table.properties()).containsEntry("asked", "for").doesNotContainKey("theirs");
    assertThat(table.refs()).doesNotContainKey("theirs");
  }

  /** The drop was logged alone, and somebody applies it meanwhile: it is the same state. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void somebodyAppliesTheDropMeanwhile(boolean orReplace) {
    outside.loadTable(id("shop.a")).updateProperties().set("old", "1").commit();
    lazy.catalog(() -> null).dropTable(id("shop.a"), false);
    var planned = planned(orReplace);
    assertThat(handle.apply()).isZero();
    planned.commitTransaction();
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    assertThat(outside.loadTable(id("shop.a")).properties())
        .containsEntry("asked", "for")
        .doesNotContainKey("old");
  }

  /** The same in a transaction; what it stands on may have left the head besides. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void somebodyAppliesTheDropOfATransactionMeanwhile(boolean tidied) {
    lazy.catalog(() -> null).dropTable(id("shop.a"), false);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).createTable(id("shop.a"), Lake.SCHEMA), 7);
    assertThat(handle.apply()).isZero();
    if (tidied) {
      handle.tidy();
    }
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(7L);
  }

  /** The same of a name that was free as the creation was planned. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aFreeNameThatIsCreatedAndDroppedMeanwhile(boolean orReplace) {
    var builder = ours.buildTable(id("shop.c"), Lake.SCHEMA);
    var planned = orReplace ? builder.createOrReplaceTransaction() : builder.createTransaction();
    append(other().createTable(id("shop.c"), Lake.SCHEMA), 7);
    other().dropTable(id("shop.c"), false);
    isConflict(planned::commitTransaction);
    assertThat(ours.tableExists(id("shop.c"))).isFalse();
  }

  private static Schema keyed(Type type) {
    return new Schema(
        optional(1, "id", Types.LongType.get()),
        optional(2, "k", type),
        optional(3, "name", Types.StringType.get()));
  }

  /** Create, drop and create again by another type of `k`; the id that it has then. */
  private int idOfChanged(Type before, PartitionSpec spec, SortOrder order, Type after) {
    Schema old = keyed(before);
    ours.buildTable(id("shop.c"), old).withPartitionSpec(spec).withSortOrder(order).create();
    ours.dropTable(id("shop.c"), false);
    append(ours.createTable(id("shop.c"), keyed(after)), 7);
    assertThat(lake.txnIds("shop.c")).containsExactly(7L);
    assertThat(lake.plainIds("shop.c")).containsExactly(7L);
    Table table = outside.loadTable(id("shop.c"));
    assertThat(table.schemas()).hasSize(2); // none that nobody asked for
    assertThat(table.schema().findField("id").fieldId()).isEqualTo(1);
    assertThat(table.schema().findField("name").fieldId()).isEqualTo(3);
    assertThat(table.schema().findType("k")).isEqualTo(after);
    return table.schema().findField("k").fieldId();
  }

  /** An old spec is bound to the newest schema at each load: one cannot bucket by a double. */
  @Test
  void aPartitionedColumnOfAnotherType() {
    Type before = Types.LongType.get();
    PartitionSpec spec = PartitionSpec.builderFor(keyed(before)).bucket("k", 4).build();
    assertThat(idOfChanged(before, spec, null, Types.DoubleType.get())).isEqualTo(4);
  }

  @Test
  void aColumnOfAnotherTypeThatThePartitionFieldIsNamedAs() {
    Type before = Types.LongType.get();
    PartitionSpec spec = PartitionSpec.builderFor(keyed(before)).identity("k").build();
    assertThat(idOfChanged(before, spec, null, Types.StringType.get())).isEqualTo(4);
  }

  @Test
  void aSortedColumnOfAnotherType() {
    Type before = Types.TimestampType.withZone();
    SortOrder order = SortOrder.builderFor(keyed(before)).asc("k").build();
    PartitionSpec spec = PartitionSpec.unpartitioned();
    assertThat(idOfChanged(before, spec, order, Types.BooleanType.get())).isEqualTo(4);
  }

  /** What can be read as the new type keeps its id. */
  @Test
  void aColumnOfAWiderType() {
    Type before = Types.IntegerType.get();
    PartitionSpec spec = PartitionSpec.builderFor(keyed(before)).bucket("k", 4).build();
    assertThat(idOfChanged(before, spec, null, Types.LongType.get())).isEqualTo(2);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aColumnOfANarrowerType(boolean scale) {
    Type after = scale ? Types.DecimalType.of(12, 3) : Types.DecimalType.of(8, 2);
    Type before = Types.DecimalType.of(10, 2);
    PartitionSpec spec = PartitionSpec.unpartitioned();
    assertThat(idOfChanged(before, spec, null, after)).isEqualTo(4);
  }

  private static Types.StructType nested(Type type, Type element) {
    return Types.StructType.of(
        optional(4, "x", type),
        optional(5, "y", Types.LongType.get()),
        optional(6, "l", Types.ListType.ofOptional(7, element)));
  }

  /** The columns in a column are looked at each by itself. */
  @Test
  void aNestedColumnOfAnotherType() {
    Schema old = keyed(nested(Types.LongType.get(), Types.IntegerType.get()));
    PartitionSpec spec = PartitionSpec.builderFor(old).bucket("k.x", 4).build();
    ours.createTable(id("shop.c"), old, spec);
    Map<String, Integer> were = idsByName(outside.loadTable(id("shop.c")).schema());
    ours.dropTable(id("shop.c"), false);
    Schema wanted = keyed(nested(Types.DoubleType.get(), Types.StringType.get()));
    ours.buildTable(id("shop.c"), wanted)
        .withPartitionSpec(PartitionSpec.builderFor(wanted).truncate("name", 2).build())
        .withSortOrder(SortOrder.builderFor(wanted).asc("k.x").build())
        .create();
    Table table = outside.loadTable(id("shop.c"));
    Map<String, Integer> now = idsByName(table.schema());
    for (String kept : new String[] {"id", "k", "name", "k.y", "k.l"}) {
      assertThat(now.get(kept)).as(kept).isEqualTo(were.get(kept));
    }
    assertThat(now.get("k.x")).isGreaterThan(7);
    assertThat(now.get("k.l.element")).isGreaterThan(7).isNotEqualTo(now.get("k.x"));
    assertThat(table.sortOrder().fields().get(0).sourceId()).isEqualTo(now.get("k.x"));
    assertThat(table.spec().fields().get(0).sourceId()).isEqualTo(now.get("name"));
    assertThat(ours.loadTable(id("shop.c")).schema().sameSchema(table.schema())).isTrue();
  }

  /** A column of another kind has none of the old one's columns. */
  @Test
  void aColumnOfAnotherKind() {
    ours.createTable(id("shop.c"), keyed(Types.ListType.ofOptional(4, Types.LongType.get())));
    ours.dropTable(id("shop.c"), false);
    Type struct = Types.StructType.of(optional(4, "element", Types.LongType.get()));
    ours.createTable(id("shop.c"), keyed(struct));
    Map<String, Integer> now = idsByName(outside.loadTable(id("shop.c")).schema());
    assertThat(now.get("k")).isGreaterThan(4);
    assertThat(now.get("k.element")).isGreaterThan(4);
  }

  private static Map<String, Integer> idsByName(Schema schema) {
    return org.apache.iceberg.types.TypeUtil.indexByName(schema.asStruct());
  }

  /** Under whom new tables do not come under care there is no table that would have its rows. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whoLeavesTablesOutOfCareDoesNotCreateIt(boolean orReplace) {
    TxnCatalog none = lake.open(Map.of("txns.register", "none")).catalog(() -> null);
    ours.dropTable(id("shop.a"), false);
    var builder = none.buildTable(id("shop.a"), Lake.SCHEMA);
    assertThatThrownBy(orReplace ? builder::createOrReplaceTransaction : builder::createTransaction)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("txns.register=created")
        .hasMessageContaining("system.purge('shop.a')");
    append(ours.createTable(id("shop.a"), Lake.SCHEMA), 5);
    assertThat(ids(none.loadTable(id("shop.a")))).containsExactly(5L);
    none.buildTable(id("shop.c"), Lake.SCHEMA).createOrReplaceTransaction().commitTransaction();
    assertThat(outside.tableExists(id("shop.c"))).isTrue();
  }
}
