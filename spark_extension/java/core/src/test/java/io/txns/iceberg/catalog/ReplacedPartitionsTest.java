package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.id;
import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** INSERT OVERWRITE has replaced the partitions of its files, and no others, by any transform. */
@Timeout(60)
class ReplacedPartitionsTest {
  private static final String TABLE = "shop.events";
  private static final long DAY = 86_400_000_000L;
  private static final long YEAR = 366 * DAY;

  private static final Schema SCHEMA =
      new Schema(
          optional(1, "id", Types.LongType.get()),
          optional(2, "at", Types.TimestampType.withZone()),
          optional(3, "seen", Types.TimestampNanoType.withoutZone()),
          optional(4, "name", Types.StringType.get()));

  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
  }

  /** With the values of a row, and of one in another partition. */
  static Stream<Arguments> transforms() {
    return Stream.of(
        of("year", spec -> spec.year("at"), "at", 0L, YEAR),
        of("month", spec -> spec.month("at"), "at", 0L, 40 * DAY),
        of("day", spec -> spec.day("at"), "at", 0L, DAY),
        of("day before 1970", spec -> spec.day("at"), "at", -1L, 0L),
        of("hour", spec -> spec.hour("at"), "at", 0L, DAY),
        of("day of nanoseconds", spec -> spec.day("seen"), "seen", 0L, 1000 * DAY),
        of("bucket", spec -> spec.bucket("id", 16), "id", 1L, 3L),
        of("bucket of text", spec -> spec.bucket("name", 16), "name", "a", "b"),
        of("truncated number", spec -> spec.truncate("id", 10), "id", 10L, 20L),
        of("truncated text", spec -> spec.truncate("name", 2), "name", "abc", "ad"),
        of("itself", spec -> spec.identity("name"), "name", "a", "b"),
        of("none", spec -> spec.day("at"), "at", null, 0L),
        of("any", spec -> spec.day("at"), "at", 0L, null),
        of("two", spec -> spec.identity("name").day("at"), "at", 0L, DAY));
  }

  private static Arguments of(
      String name,
      UnaryOperator<PartitionSpec.Builder> spec,
      String column,
      Object value,
      Object other) {
    PartitionSpec made = spec.apply(PartitionSpec.builderFor(SCHEMA)).build();
    return arguments(name, made, row(column, value), row(column, other));
  }

  private static Map<String, Object> row(String column, Object value) {
    Map<String, Object> row = new TreeMap<>();
    row.put(column, value);
    return row;
  }

  private void create(PartitionSpec spec) {
    Catalog plain = lake.catalog();
    Lake.createNamespace(plain, id(TABLE).namespace());
    plain
        .buildTable(id(TABLE), SCHEMA)
        .withPartitionSpec(spec)
        .withProperty("format-version", "3")
        .create();
    handle.register(id(TABLE));
  }

  /** A file of a row's partition; nobody reads it here. */
  private static DataFile file(Table table, Map<String, Object> row) {
    PartitionSpec spec = table.spec();
    PartitionData partition = new PartitionData(spec.partitionType());
    for (int at = 0; at < spec.fields().size(); at++) {
      partition.set(at, value(spec, spec.fields().get(at), row));
    }
    return DataFiles.builder(spec)
        .withPath(table.location() + "/data/" + UUID.randomUUID() + ".parquet")
        .withFormat(FileFormat.PARQUET)
        .withPartition(partition)
        .withRecordCount(1)
        .withFileSizeInBytes(1)
        .build();
  }

  @SuppressWarnings("unchecked")
  private static Object value(PartitionSpec spec, PartitionField field, Map<String, Object> row) {
    Object value = row.get(spec.schema().findColumnName(field.sourceId()));
    Transform<Object, Object> transform = (Transform<Object, Object>) field.transform();
    return transform.bind(spec.schema().findType(field.sourceId())).apply(value);
  }

  private Table in(Transaction txn) {
    return handle.catalog(() -> txn).loadTable(id(TABLE));
  }

  private static void replace(Table table, Map<String, Object> row) {
    table.newReplacePartitions().addFile(file(table, row)).commit();
  }

  private static void append(Table table, Map<String, Object> row) {
    table.newAppend().appendFile(file(table, row)).commit();
  }

  private List<String> partitions() {
    Table table = lake.catalog().loadTable(id(TABLE));
    return Days.files(table, Expressions.alwaysTrue()).stream()
        .map(file -> table.spec().partitionToPath(file.partition()))
        .sorted()
        .toList();
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("transforms")
  void otherPartitionsAreOthers(
      String name, PartitionSpec spec, Map<String, Object> row, Map<String, Object> other) {
    create(spec);
    append(in(null), row);
    append(in(null), other);
    List<String> before = partitions();
    assertThat(before).doesNotHaveDuplicates();
    Transaction txn = handle.begin(BeginOptions.defaults());
    Transaction beside = handle.begin(BeginOptions.defaults());
    replace(in(txn), row);
    replace(in(beside), other);
    beside.commit();
    append(in(null), other);
    txn.commit();
    assertThat(partitions()).hasSize(3).containsAll(before);
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("transforms")
  void theSamePartitionIsMet(
      String name, PartitionSpec spec, Map<String, Object> row, Map<String, Object> other) {
    create(spec);
    append(in(null), row);
    Transaction txn = handle.begin(BeginOptions.defaults());
    replace(in(txn), row);
    append(in(null), row);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
        .hasMessageContaining("a table that it wrote over was written")
        .hasMessageNotContaining("(filter true");
    assertThat(partitions()).hasSize(2);
  }
}
