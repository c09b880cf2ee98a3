package io.txns.iceberg.table;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.TableMetadata;

/**
 * An earlier schema of a table with a partition spec and a sort order of its columns; in memory
 * alone, and pure.
 *
 * <p>Which ones were the table's then Iceberg does not keep, and it refuses to load those of
 * columns that the schema has not.
 */
final class EarlierSchema {
  private EarlierSchema() {}

  /** A table with one of its schemas, and a spec and an order of that. */
  static TableMetadata of(TableMetadata metadata, Schema schema) {
    if (schema.schemaId() == metadata.currentSchemaId()) {
      return metadata;
    }
    ObjectNode node = MetadataJson.of(metadata);
    node.put("current-schema-id", schema.schemaId());
    fit(node, metadata, schema);
    return MetadataJson.parsed(metadata, node);
  }

  /**
   * Has the JSON of a table a spec and an order that its schema has all columns of.
   *
   * @param base whose JSON it was: specs and orders may have gone since, none has come
   * @param schema its current one
   */
  static void fit(ObjectNode node, TableMetadata base, Schema schema) {
    ArrayNode specs = (ArrayNode) node.get("partition-specs");
    List<PartitionSpec> left = new ArrayList<>();
    specs.forEach(spec -> left.add(base.specsById().get(spec.get("spec-id").asInt())));
    int specId = node.get("default-spec-id").asInt();
    int fittingSpecId = FittingDefaults.specOf(left, specId, schema, Set.of());
    node.put("default-spec-id", fittingSpecId);
    if (left.stream().noneMatch(spec -> spec.specId() == fittingSpecId)) {
      specs.addObject().put("spec-id", fittingSpecId).putArray("fields");
    }
    ArrayNode orders = (ArrayNode) node.get("sort-orders");
    int orderId = node.get("default-sort-order-id").asInt();
    int fittingOrderId = FittingDefaults.orderOf(base.sortOrders(), orderId, schema);
    node.put("default-sort-order-id", fittingOrderId);
    if (!base.sortOrdersById().containsKey(fittingOrderId)) {
      orders.addObject().put("order-id", fittingOrderId).putArray("fields");
    }
  }
}
