package io.txns.iceberg.table;

import java.util.Comparator;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;

/**
 * An earlier schema of a table with a partition spec and a sort order of its columns.
 *
 * <p>Which ones were the table's then Iceberg does not keep, and its builder refuses those of
 * columns that the schema has not.
 */
final class EarlierSchema {
  private EarlierSchema() {}

  /** Has a table the schema, and the newest spec and order that it has all columns of. */
  static void set(TableMetadata.Builder builder, TableMetadata metadata, Schema schema) {
    builder.setCurrentSchema(schema.schemaId());
    if (!isOf(metadata.spec(), schema)) {
      PartitionSpec newest =
          metadata.specs().stream()
              .filter(spec -> isOf(spec, schema))
              .max(Comparator.comparingInt(PartitionSpec::specId))
              .orElse(PartitionSpec.unpartitioned());
      builder.setDefaultPartitionSpec(newest);
    }
    if (!isOf(metadata.sortOrder(), schema)) {
      SortOrder newest =
          metadata.sortOrders().stream()
              .filter(order -> isOf(order, schema))
              .max(Comparator.comparingInt(SortOrder::orderId))
              .orElse(SortOrder.unsorted());
      builder.setDefaultSortOrder(newest);
    }
  }

  private static boolean isOf(PartitionSpec spec, Schema schema) {
    return spec.fields().stream().allMatch(field -> schema.findField(field.sourceId()) != null);
  }

  private static boolean isOf(SortOrder order, Schema schema) {
    return order.fields().stream().allMatch(field -> schema.findField(field.sourceId()) != null);
  }
}
