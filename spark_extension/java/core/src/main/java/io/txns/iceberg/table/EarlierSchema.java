package io.txns.iceberg.table;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.types.Type;

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
    fit(node, metadata);
    return MetadataJson.parsed(metadata, node);
  }

  /**
   * Has the JSON of a table the newest spec and order that its schema has all columns of.
   *
   * @param base whose JSON it was: schemas, specs and orders may have gone since, none has come
   */
  static void fit(ObjectNode node, TableMetadata base) {
    Schema schema = base.schemasById().get(node.get("current-schema-id").asInt());
    ArrayNode specs = (ArrayNode) node.get("partition-specs");
    if (!isOf(base.spec(node.get("default-spec-id").asInt()), schema)) {
      node.put("default-spec-id", newestSpec(specs, base, schema));
    }
    ArrayNode orders = (ArrayNode) node.get("sort-orders");
    if (!isOf(base.sortOrdersById().get(node.get("default-sort-order-id").asInt()), schema)) {
      node.put("default-sort-order-id", newestOrder(orders, base, schema));
    }
  }

  private static int newestSpec(ArrayNode specs, TableMetadata base, Schema schema) {
    int newest = -1;
    int next = 0;
    for (JsonNode spec : specs) {
      int id = spec.get("spec-id").asInt();
      next = Math.max(next, id + 1);
      newest = isOf(base.specsById().get(id), schema) ? Math.max(newest, id) : newest;
    }
    if (newest >= 0) {
      return newest;
    }
    specs.addObject().put("spec-id", next).putArray("fields");
    return next;
  }

  private static int newestOrder(ArrayNode orders, TableMetadata base, Schema schema) {
    int unsorted = SortOrder.unsorted().orderId();
    int newest = -1;
    for (JsonNode order : orders) {
      int id = order.get("order-id").asInt();
      newest = isOf(base.sortOrdersById().get(id), schema) ? Math.max(newest, id) : newest;
    }
    if (newest >= 0) {
      return newest;
    }
    orders.addObject().put("order-id", unsorted).putArray("fields");
    return unsorted;
  }

  static boolean isOf(PartitionSpec spec, Schema schema) {
    return spec.fields().stream()
        .allMatch(
            field -> {
              Type type = schema.findType(field.sourceId());
              return field.transform().isVoid()
                  || (type != null && field.transform().canTransform(type));
            });
  }

  static boolean isOf(SortOrder order, Schema schema) {
    try {
      SortOrder.checkCompatibility(order, schema);
    } catch (ValidationException e) {
      return false;
    }
    return true;
  }
}
