package io.txns.iceberg.table;

import com.fasterxml.jackson.databind.JsonNode;
import io.txns.iceberg.meta.AddedSnapshots;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.types.Type;

/**
 * The schema, spec and order that a table goes by, by their ids; pure.
 *
 * <p>Strangers may have had it go by columns that a logged change takes away, of which no
 * requirement tells; and which ones were an earlier schema's Iceberg does not keep. It takes no
 * such table, so that goes by others: the order of no columns, and the newest spec whose columns
 * are there.
 */
record FittingDefaults(int schemaId, int specId, int orderId) {
  private static final int LAST_ADDED = -1;

  /** A table's own. */
  static FittingDefaults of(TableMetadata base) {
    return new FittingDefaults(
        base.currentSchemaId(), base.defaultSpecId(), base.defaultSortOrderId());
  }

  /**
   * Those that requirements say were the table's own, as far as it has them still.
   *
   * @param updates those of the change that asks it: they have the schema that it asks for, where
   *     strangers have removed that
   */
  FittingDefaults required(
      TableMetadata base, Collection<UpdateRequirement> failing, List<MetadataUpdate> updates) {
    FittingDefaults found = this;
    Map<Integer, Schema> known = known(base, updates);
    for (UpdateRequirement one : failing) {
      if (one instanceof UpdateRequirement.AssertCurrentSchemaID current
          && known.containsKey(current.schemaId())) {
        found = new FittingDefaults(current.schemaId(), found.specId, found.orderId);
      } else if (one instanceof UpdateRequirement.AssertDefaultSpecID spec
          && base.specsById().containsKey(spec.specId())) {
        found = new FittingDefaults(found.schemaId, spec.specId(), found.orderId);
      } else if (one instanceof UpdateRequirement.AssertDefaultSortOrderID order
          && base.sortOrdersById().containsKey(order.sortOrderId())) {
        found = new FittingDefaults(found.schemaId, found.specId, order.sortOrderId());
      }
    }
    return found;
  }

  /**
   * The same, such that a change can be laid over them.
   *
   * <p>Where strangers have taken a column away that the change itself goes by, the schema is that
   * which its last snapshot names: by it the change leaves the table.
   *
   * @param updates those of the change; what they set is not asked for here
   */
  FittingDefaults fitting(TableMetadata base, List<MetadataUpdate> updates) {
    FittingDefaults own =
        hasColumns(base, updates)
            ? this
            : new FittingDefaults(lastSchemaId(base, updates), specId, orderId);
    Schema schema = own.left(base, updates);
    boolean sorts = updates.stream().anyMatch(MetadataUpdate.SetDefaultSortOrder.class::isInstance);
    boolean partitions =
        updates.stream().anyMatch(MetadataUpdate.SetDefaultPartitionSpec.class::isInstance);
    return new FittingDefaults(
        own.schemaId,
        partitions ? specId : specOf(base.specs(), specId, schema, removed(updates)),
        sorts ? orderId : orderOf(base.sortOrders(), orderId, schema));
  }

  private int lastSchemaId(TableMetadata base, List<MetadataUpdate> updates) {
    Map<Integer, Schema> known = known(base, updates);
    return AddedSnapshots.of(updates).stream()
        .map(Snapshot::schemaId)
        .filter(known::containsKey)
        .reduce(schemaId, (before, last) -> last);
  }

  /**
   * Whether the columns are there of what a change names, and of what it leaves a table to go by.
   *
   * <p>What it names of before comes first in it (docs/spec.md 7), and is added while the schema is
   * the table's own; of several that it sets the last one counts.
   */
  private boolean hasColumns(TableMetadata base, List<MetadataUpdate> updates) {
    Map<Integer, JsonNode> specs = new HashMap<>();
    base.specs().forEach(spec -> add(specs, "spec-id", PartitionSpecParser.toJson(spec)));
    Map<Integer, JsonNode> orders = new HashMap<>();
    base.sortOrders().forEach(order -> add(orders, "order-id", SortOrderParser.toJson(order)));
    Schema own = known(base, updates).get(schemaId);
    boolean hasNamed = true;
    boolean leading = true;
    JsonNode spec = null;
    JsonNode order = null;
    for (MetadataUpdate update : updates) {
      JsonNode added = null;
      if (update instanceof MetadataUpdate.AddPartitionSpec add) {
        added = add(specs, "spec-id", PartitionSpecParser.toJson(add.spec()));
      } else if (update instanceof MetadataUpdate.AddSortOrder add) {
        added = add(orders, "order-id", SortOrderParser.toJson(add.sortOrder()));
      } else if (update instanceof MetadataUpdate.SetDefaultPartitionSpec set) {
        spec = specs.get(set.specId());
      } else if (update instanceof MetadataUpdate.SetDefaultSortOrder set) {
        order = orders.get(set.sortOrderId());
      }
      leading = leading && (added != null || update instanceof MetadataUpdate.AddSchema);
      hasNamed &= !leading || hasColumns(own, added);
    }
    Schema left = left(base, updates);
    return hasNamed && hasColumns(left, spec) && hasColumns(left, order);
  }

  private static JsonNode add(Map<Integer, JsonNode> known, String id, String json) {
    JsonNode added = MetadataJson.read(json);
    known.put(added.get(id).asInt(), added);
    known.put(LAST_ADDED, added);
    return added;
  }

  private static boolean hasColumns(Schema schema, JsonNode specOrOrder) {
    boolean has = true;
    for (JsonNode field : specOrOrder == null ? List.<JsonNode>of() : specOrOrder.get("fields")) {
      has &=
          field.get("transform").asText().equals("void")
              || schema.findField(field.get("source-id").asInt()) != null;
    }
    return has;
  }

  /** Why a table's own do not fit a change, in words; empty where they do. */
  static Optional<String> misfit(TableMetadata base, List<MetadataUpdate> updates) {
    FittingDefaults own = of(base);
    if (!own.hasColumns(base, updates)) {
      return Optional.of("somebody has taken a column away that the change sorts or partitions by");
    }
    FittingDefaults fits = own.fitting(base, updates);
    if (fits.orderId != own.orderId) {
      return Optional.of("the table is sorted by a column that the change takes away");
    }
    return fits.specId == own.specId
        ? Optional.empty()
        : Optional.of("the table is partitioned by a column that the change takes away");
  }

  /**
   * Have a table go by these.
   *
   * @param updates those of the change
   */
  void set(TableMetadata.Builder builder, TableMetadata base, List<MetadataUpdate> updates) {
    if (schemaId != base.currentSchemaId()) {
      Schema schema = known(base, updates).get(schemaId);
      builder.setCurrentSchema(schema, Math.max(base.lastColumnId(), schema.highestFieldId()));
    }
    if (orderId != base.defaultSortOrderId()) {
      if (base.sortOrdersById().containsKey(orderId)) {
        builder.setDefaultSortOrder(orderId);
      } else {
        builder.setDefaultSortOrder(SortOrder.unsorted());
      }
    }
    if (specId != base.defaultSpecId()) {
      if (base.specsById().containsKey(specId)) {
        builder.setDefaultPartitionSpec(specId);
      } else {
        builder.setDefaultPartitionSpec(PartitionSpec.unpartitioned());
      }
    }
  }

  /** The order itself, or the one of no columns where a schema lacks some of its. */
  static int orderOf(Collection<SortOrder> orders, int own, Schema schema) {
    return orders.stream().anyMatch(order -> order.orderId() == own && isOf(order, schema))
        ? own
        : SortOrder.unsorted().orderId();
  }

  /**
   * The spec itself, or the newest whose columns a schema has, where it lacks some of its.
   *
   * @param removed which are not to be taken
   * @return the next free id for that of no fields, where there is none
   */
  static int specOf(Collection<PartitionSpec> specs, int own, Schema schema, Set<Integer> removed) {
    if (specs.stream().anyMatch(spec -> spec.specId() == own && isOf(spec, schema))) {
      return own;
    }
    return specs.stream()
        .filter(spec -> isOf(spec, schema) && !removed.contains(spec.specId()))
        .mapToInt(PartitionSpec::specId)
        .max()
        .orElseGet(
            () ->
                specs.stream()
                    .filter(PartitionSpec::isUnpartitioned)
                    .mapToInt(PartitionSpec::specId)
                    .max()
                    .orElse(1 + specs.stream().mapToInt(PartitionSpec::specId).max().orElse(-1)));
  }

  /**
   * Why a table can be loaded by nobody, in words; empty where it can. Iceberg loads none with a
   * spec, be it an old one, whose transform is not of its column's type: a stranger's, of a column
   * whose id the log has given to another.
   */
  static Optional<String> unloadable(TableMetadata replayed) {
    for (PartitionSpec spec : replayed.specs()) {
      for (PartitionField field : spec.fields()) {
        Type type = replayed.schema().findType(field.sourceId());
        if (type != null && !field.transform().isVoid() && !field.transform().canTransform(type)) {
          return Optional.of(
              String.format(
                  "partition spec %s of the table has the field `%s` of a column that is %s `%s` in"
                      + " the log: expire the spec outside the protocol",
                  spec.specId(),
                  field.name(),
                  type,
                  replayed.schema().findColumnName(field.sourceId())));
        }
      }
    }
    return Optional.empty();
  }

  private static boolean isOf(PartitionSpec spec, Schema schema) {
    return spec.fields().stream()
        .allMatch(
            field -> {
              Type type = schema.findType(field.sourceId());
              return field.transform().isVoid()
                  || (type != null && field.transform().canTransform(type));
            });
  }

  private static boolean isOf(SortOrder order, Schema schema) {
    try {
      SortOrder.checkCompatibility(order, schema);
    } catch (ValidationException e) {
      return false;
    }
    return true;
  }

  private static Set<Integer> removed(List<MetadataUpdate> updates) {
    return updates.stream()
        .filter(MetadataUpdate.RemovePartitionSpecs.class::isInstance)
        .flatMap(update -> ((MetadataUpdate.RemovePartitionSpecs) update).specIds().stream())
        .collect(Collectors.toSet());
  }

  /** The schema that a change leaves current. */
  private Schema left(TableMetadata base, List<MetadataUpdate> updates) {
    Map<Integer, Schema> known = new HashMap<>(known(base, updates));
    Schema left = known.get(schemaId);
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddSchema add) {
        known.put(LAST_ADDED, add.schema());
      } else if (update instanceof MetadataUpdate.SetCurrentSchema set) {
        left = known.getOrDefault(set.schemaId(), left);
      }
    }
    return left;
  }

  /** The schemas of a table, with those that a change adds, by the table's ids. */
  static Map<Integer, Schema> known(TableMetadata base, List<MetadataUpdate> updates) {
    Map<Integer, Schema> known = new HashMap<>(base.schemasById());
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddSchema add) {
        known.put(add.schema().schemaId(), add.schema());
      }
    }
    return known;
  }
}
