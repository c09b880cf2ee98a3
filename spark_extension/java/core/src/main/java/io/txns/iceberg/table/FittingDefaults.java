package io.txns.iceberg.table;

import com.fasterxml.jackson.databind.JsonNode;
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
   * The same, of the columns that a change leaves.
   *
   * @param updates those of the change; what they set is not asked for here
   * @param sourceSchemaId the schema of what the change was staged on: it is taken where strangers
   *     have taken a column away that the change's own spec or order goes by
   */
  FittingDefaults fitting(
      TableMetadata base, List<MetadataUpdate> updates, Integer sourceSchemaId) {
    boolean known = sourceSchemaId != null && base.schemasById().containsKey(sourceSchemaId);
    FittingDefaults own =
        known && !hasColumns(base, updates)
            ? new FittingDefaults(sourceSchemaId, specId, orderId)
            : this;
    Schema schema = own.left(base, updates);
    boolean sorts = updates.stream().anyMatch(MetadataUpdate.SetDefaultSortOrder.class::isInstance);
    boolean partitions =
        updates.stream().anyMatch(MetadataUpdate.SetDefaultPartitionSpec.class::isInstance);
    return new FittingDefaults(
        own.schemaId,
        partitions ? specId : specOf(base.specs(), specId, schema, removed(updates)),
        sorts ? orderId : orderOf(base.sortOrders(), orderId, schema));
  }

  /** Whether the schema that a change leaves has the columns of what it sets to go by. */
  private boolean hasColumns(TableMetadata base, List<MetadataUpdate> updates) {
    Schema schema = left(base, updates);
    Map<Integer, JsonNode> specs = new HashMap<>();
    base.specs().forEach(spec -> add(specs, "spec-id", PartitionSpecParser.toJson(spec)));
    Map<Integer, JsonNode> orders = new HashMap<>();
    base.sortOrders().forEach(order -> add(orders, "order-id", SortOrderParser.toJson(order)));
    boolean has = true;
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddPartitionSpec added) {
        add(specs, "spec-id", PartitionSpecParser.toJson(added.spec()));
      } else if (update instanceof MetadataUpdate.AddSortOrder added) {
        add(orders, "order-id", SortOrderParser.toJson(added.sortOrder()));
      } else if (update instanceof MetadataUpdate.SetDefaultPartitionSpec set) {
        has &= hasColumns(schema, specs.get(set.specId()));
      } else if (update instanceof MetadataUpdate.SetDefaultSortOrder set) {
        has &= hasColumns(schema, orders.get(set.sortOrderId()));
      }
    }
    return has;
  }

  private static void add(Map<Integer, JsonNode> known, String id, String json) {
    JsonNode added = MetadataJson.read(json);
    known.put(added.get(id).asInt(), added);
    known.put(LAST_ADDED, added);
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
    FittingDefaults fits = own.fitting(base, updates, null);
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
   * The same metadata. Iceberg loads no table with a spec, be it an old one, whose transform is not
   * of its column's type: a stranger's, of a column whose id the log has given to another.
   *
   * @throws ValidationException where there is such a spec
   */
  static TableMetadata loadable(TableMetadata replayed) {
    for (PartitionSpec spec : replayed.specs()) {
      for (PartitionField field : spec.fields()) {
        Type type = replayed.schema().findType(field.sourceId());
        ValidationException.check(
            type == null || field.transform().isVoid() || field.transform().canTransform(type),
            "partition spec %s of the table has the field `%s` of a column that is %s `%s` in the"
                + " log: expire the spec outside the protocol",
            spec.specId(),
            field.name(),
            type,
            replayed.schema().findColumnName(field.sourceId()));
      }
    }
    return replayed;
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
