package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;

/** What a change calls its schemas, where strangers have taken an id (docs/spec.md 7). */
class SchemaIdsTest {
  private static Schema schema(int id, String second) {
    return new Schema(
        id,
        Types.NestedField.optional(1, "id", Types.LongType.get()),
        Types.NestedField.optional(2, second, Types.LongType.get()));
  }

  /** A table with a column of strangers, under the id of the first schema that is added to it. */
  private static TableMetadata altered() {
    Schema first = new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));
    TableMetadata made =
        TableMetadata.newTableMetadata(
            first, PartitionSpec.unpartitioned(), SortOrder.unsorted(), "memory://a", Map.of());
    return TableMetadata.buildFrom(made).setCurrentSchema(schema(1, "theirs"), 2).build();
  }

  /** A change that adds two schemas, the second one for good, and does something with them. */
  private static TableMetadata laidOver(TableMetadata base, MetadataUpdate last) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    List<MetadataUpdate> updates =
        List.of(
            new MetadataUpdate.AddSchema(schema(1, "ours")),
            new MetadataUpdate.SetCurrentSchema(-1),
            new MetadataUpdate.AddSchema(schema(2, "ours_too")),
            new MetadataUpdate.SetCurrentSchema(-1),
            last);
    FreeIds.in(base, updates).forEach(update -> update.applyTo(builder));
    return builder.build();
  }

  @Test
  void aWayBackToASchemaOfTheChange() {
    TableMetadata laid = laidOver(altered(), new MetadataUpdate.SetCurrentSchema(1));
    assertThat(laid.schema().columns()).extracting("name").containsExactly("id", "ours");
  }

  @Test
  void aSchemaOfTheChangeThatItRemoves() {
    TableMetadata laid = laidOver(altered(), new MetadataUpdate.RemoveSchemas(Set.of(1)));
    assertThat(laid.schemas())
        .extracting(schema -> schema.columns().get(schema.columns().size() - 1).name())
        .containsExactly("id", "theirs", "ours_too");
  }
}
