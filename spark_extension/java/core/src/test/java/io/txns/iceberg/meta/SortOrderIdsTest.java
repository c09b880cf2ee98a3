package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Term;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What a change calls its sort orders, where strangers have one (docs/spec.md 7). */
class SortOrderIdsTest {
  private static final Schema SCHEMA =
      new Schema(
          Types.NestedField.optional(1, "id", Types.LongType.get()),
          Types.NestedField.optional(2, "day", Types.DateType.get()));

  private static SortOrder by(Term term) {
    return SortOrder.builderFor(SCHEMA).desc(term).build();
  }

  /** A table that is sorted by something, as it is loaded. */
  private static TableMetadata sortedBy(Term term) {
    TableMetadata made =
        TableMetadata.newTableMetadata(
            SCHEMA, PartitionSpec.unpartitioned(), by(term), "memory://a", Map.of());
    return TableMetadataParser.fromJson("memory://a/1.json", TableMetadataParser.toJson(made));
  }

  private static TableMetadata laidOver(TableMetadata base, List<MetadataUpdate> updates) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    FreeIds.in(base, updates).forEach(update -> update.applyTo(builder));
    return builder.build();
  }

  /** An order as a payload has it. */
  private static MetadataUpdate added(SortOrder order) {
    return new MetadataUpdate.AddSortOrder(SortOrderParser.fromJson(SortOrderParser.toJson(order)));
  }

  static List<Term> terms() {
    return List.of(
        Expressions.ref("id"),
        Expressions.bucket("id", 4),
        Expressions.truncate("id", 4),
        Expressions.year("day"));
  }

  @ParameterizedTest
  @MethodSource("terms")
  void anEqualOrderIsThatOne(Term term) {
    TableMetadata base = sortedBy(term);
    TableMetadata laid =
        laidOver(base, List.of(added(by(term)), new MetadataUpdate.SetDefaultSortOrder(-1)));
    assertThat(laid.changes()).isEmpty();
    assertThat(laid.defaultSortOrderId()).isEqualTo(1);
  }

  @ParameterizedTest
  @MethodSource("terms")
  void anotherOrderGetsTheNextFreeId(Term term) {
    TableMetadata base = sortedBy(Expressions.bucket("id", 8));
    TableMetadata laid =
        laidOver(base, List.of(added(by(term)), new MetadataUpdate.SetDefaultSortOrder(1)));
    assertThat(laid.defaultSortOrderId()).isEqualTo(2);
    assertThat(laid.sortOrder().sameOrder(by(term))).isTrue();
  }

  /** It is 0 in every table. */
  @Test
  void theOrderOfNoColumnsKeepsItsId() {
    TableMetadata laid =
        laidOver(
            sortedBy(Expressions.ref("id")),
            List.of(
                added(by(Expressions.ref("day"))),
                added(SortOrder.unsorted()),
                new MetadataUpdate.SetDefaultSortOrder(-1)));
    assertThat(laid.defaultSortOrderId()).isZero();
    assertThat(laid.sortOrdersById()).containsOnlyKeys(0, 1, 2);
  }
}
