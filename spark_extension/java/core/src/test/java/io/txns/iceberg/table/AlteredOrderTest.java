package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Strangers who sort or partition a table anew between commit and apply (docs/spec.md 7, 8.1). */
class AlteredOrderTest extends TwoTables {
  /** What a table goes by, of a column that the log drops. */
  enum By {
    ORDER,
    SPEC
  }

  private Table view() {
    return lake.open().catalog(() -> null).loadTable(id("shop.a"));
  }

  private Table plain() {
    return outside.loadTable(id("shop.a"));
  }

  /** Log a change of `shop.a` and a row of it, 2; nobody applies it. */
  private void log(Consumer<Table> change) {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    change.accept(lazy.catalog(() -> txn).loadTable(id("shop.a")));
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
  }

  private static void sortBy(Table table, String column) {
    table.replaceSortOrder().asc(column).commit();
  }

  private static void unsorted(Table table) {
    table.replaceSortOrder().commit();
  }

  private static String sortedBy(Table table) {
    SortOrder order = table.sortOrder();
    return order.isUnsorted()
        ? ""
        : table.schema().findColumnName(order.fields().get(0).sourceId());
  }

  /** It does once it is under care: Iceberg builds nothing on one that does not. */
  @Test
  void aTableOfOthersThatDoesNotListThatItHasNoOrder() {
    Table made =
        outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    sortBy(made, "id");
    unsorted(made);
    TableMetadata metadata = ((BaseTable) made).operations().current();
    String others = metadata.location() + "/metadata/00009-others.metadata.json";
    ObjectNode node = node(TableMetadataParser.toJson(metadata));
    ArrayNode orders = node.putArray("sort-orders");
    metadata.sortOrders().stream()
        .filter(SortOrder::isSorted)
        .forEach(order -> orders.add(node(SortOrderParser.toJson(order))));
    write(made.io().newOutputFile(others), node.toString());
    outside.dropTable(id("shop.c"), false);
    outside.registerTable(id("shop.c"), others);
    handle.register(id("shop.c"));
    append(lazy.catalog(() -> null).loadTable(id("shop.c")), 2);
    assertThat(handle.apply()).isZero();
    assertThat(outside.loadTable(id("shop.c")).sortOrder().isUnsorted()).isTrue();
    assertThat(ids(outside.loadTable(id("shop.c")))).containsExactly(2L);
  }

  private static ObjectNode node(String json) {
    try {
      return (ObjectNode) new ObjectMapper().readTree(json);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void write(OutputFile file, String text) {
    try (PositionOutputStream stream = file.create()) {
      stream.write(text.getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void assertQuarantined() {
    assertThatThrownBy(() -> append(view(), 3))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED));
  }

  /** No requirement tells of an order that was taken back; it has the id of the logged one. */
  @ParameterizedTest
  @CsvSource({"id, 2", "name, 3"})
  void anOrderOfStrangersThatTheyTookBack(String column, int orders) {
    log(table -> sortBy(table, "id"));
    sortBy(plain(), column);
    unsorted(plain());
    assertThat(sortedBy(view())).isEqualTo("id");
    assertThat(handle.apply()).isZero();
    assertThat(sortedBy(plain())).isEqualTo("id");
    assertThat(plain().sortOrders()).hasSize(orders);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @ParameterizedTest
  @CsvSource({"id, 2", "name, 3"})
  void anOrderOfStrangersThatARejectTakesBack(String column, int orders) {
    log(table -> sortBy(table, "id"));
    sortBy(plain(), column);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(sortedBy(view())).isEqualTo("id");
    assertQuarantined();
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(sortedBy(plain())).isEqualTo("id");
    assertThat(plain().sortOrders()).hasSize(orders);
  }

  /** The change names its order by the id that it had, which is another's in the table. */
  @ParameterizedTest
  @ValueSource(strings = {"id", "name"})
  void anOrderOfTheChangeThatItComesBackTo(String column) {
    log(
        table -> {
          sortBy(table, "id");
          unsorted(table);
          sortBy(table, "id");
        });
    sortBy(plain(), column);
    unsorted(plain());
    assertThat(sortedBy(view())).isEqualTo("id");
    assertThat(handle.apply()).isZero();
    assertThat(sortedBy(plain())).isEqualTo("id");
  }

  /** Strangers do what is logged, and take it back or leave it; its fields are older ones. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anEqualSpecIsTheLoggedOne(boolean back) {
    ours.loadTable(id("shop.a"))
        .updateSpec()
        .addField("i", Expressions.bucket("id", 4))
        .addField("n", Expressions.bucket("name", 4))
        .commit();
    Transaction txn = lazy.begin(BeginOptions.defaults());
    lazy.catalog(() -> txn).loadTable(id("shop.a")).updateSpec().removeField("i").commit();
    txn.commit();
    plain().updateSpec().removeField("i").commit();
    if (back) {
      TableOperations operations = ((BaseTable) plain()).operations();
      TableMetadata altered = operations.current();
      operations.commit(
          altered, TableMetadata.buildFrom(altered).setDefaultPartitionSpec(1).build());
    }
    assertThat(view().spec().fields()).extracting("name").containsExactly("n");
    if (!back) {
      assertThat(handle.apply()).isEqualTo(1);
      handle.repairReject(id("shop.a"));
    }
    assertThat(handle.apply()).isZero();
    assertThat(plain().spec().fields()).extracting("name").containsExactly("n");
    assertThat(plain().specs()).hasSize(3);
  }

  /** It would be loaded by nobody with the logged column, also when nothing goes by it any more. */
  @Test
  void anOldSpecOfStrangersThatIsOfNoLoggedColumn() {
    log(table -> table.updateSchema().addColumn("ours", Types.StringType.get()).commit());
    plain().updateSchema().addColumn("theirs", Types.DateType.get()).commit();
    plain().updateSpec().addField("year", Expressions.year("theirs")).commit();
    plain().updateSpec().removeField("year").commit();
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    plain().expireSnapshots().cleanExpiredMetadata(true).commit();
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** A dropped table that is created again has the orders of before. */
  @ParameterizedTest
  @ValueSource(strings = {"id", "name"})
  void anOrderOfATableThatIsCreatedAgain(String column) {
    TxnCatalog later = lazy.catalog(() -> null);
    later.dropTable(id("shop.a"), false);
    SortOrder order = SortOrder.builderFor(Lake.SCHEMA).asc("id").build();
    later.buildTable(id("shop.a"), Lake.SCHEMA).withSortOrder(order).create();
    sortBy(plain(), column);
    unsorted(plain());
    assertThat(sortedBy(view())).isEqualTo("id");
    assertThat(handle.apply()).isZero();
    assertThat(sortedBy(plain())).isEqualTo("id");
  }

  /** A column `note`, which the log drops, while strangers go by it. */
  private void goByADroppedColumn(By by) {
    ours.loadTable(id("shop.a")).updateSchema().addColumn("note", Types.StringType.get()).commit();
    log(table -> table.updateSchema().deleteColumn("note").commit());
    if (by == By.ORDER) {
      sortBy(plain(), "note");
    } else {
      plain().updateSpec().addField("note").commit();
    }
  }

  private static void assertGoesByNothing(Table table) {
    assertThat(table.schema().findField("note")).isNull();
    assertThat(table.spec().isUnpartitioned()).isTrue();
    assertThat(table.sortOrder().isUnsorted()).isTrue();
  }

  /** No requirement tells of it, and Iceberg lets no table go by a column that it has not. */
  @ParameterizedTest
  @EnumSource
  void readersOfATableThatGoesByADroppedColumn(By by) {
    goByADroppedColumn(by);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(plain().refs()).containsKey(OutstandingBranch.NAME);
    assertGoesByNothing(view());
    assertThat(ids(view())).containsExactly(1L, 2L);
    assertQuarantined();
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("'reject'");
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertGoesByNothing(plain());
    append(view(), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** A row of strangers, in a partition of the dropped column where the table has those. */
  private void appendAsStranger(long row) {
    Table table = plain();
    DataFile file = Lake.file(table, row);
    DataFiles.Builder partitioned =
        DataFiles.builder(table.spec()).withPath(file.location()).withFormat(file.format());
    if (table.spec().isPartitioned()) {
      partitioned.withPartitionPath("note=x");
    }
    partitioned.withFileSizeInBytes(file.fileSizeInBytes()).withRecordCount(file.recordCount());
    table.newAppend().appendFile(partitioned.build()).commit();
  }

  /** An adoption alone would leave the change where it is, with nobody to tell of it. */
  @ParameterizedTest
  @EnumSource
  void rowsOfATableThatGoesByADroppedColumn(By by) {
    goByADroppedColumn(by);
    appendAsStranger(9);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(ids(view())).containsExactly(1L, 2L);
    assertQuarantined();
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("'reject'");
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    handle.repairAdopt(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 9L);
    assertGoesByNothing(plain());
  }

  /** 1. A column is logged. 2. Strangers take its id, and write. 3. Somebody adopts the rows. */
  @Test
  void rowsOfATableWhoseColumnsWereAlteredAsWell() {
    log(table -> table.updateSchema().addColumn("ours", Types.StringType.get()).commit());
    plain().updateSchema().addColumn("theirs", Types.StringType.get()).commit();
    append(plain(), 9);
    assertThat(handle.apply()).isEqualTo(1);
    assertQuarantined();
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("'reject'");
    handle.repairReject(id("shop.a"));
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }
}
