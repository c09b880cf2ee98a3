package io.txns.iceberg.table;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.meta.History;
import java.util.ArrayList;
import java.util.Collection;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.exceptions.CommitFailedException;

/**
 * The state that a logged change was staged on, where strangers have altered the table since; pure.
 *
 * <p>Readers lay such a change over that state (invariant I10), while apply leaves it until it is
 * repaired. Iceberg's builder only goes forward (ids never go back), the JSON of metadata does not.
 */
final class Rewound {
  private Rewound() {}

  static boolean isAboutMain(UpdateRequirement requirement) {
    return requirement instanceof UpdateRequirement.AssertRefSnapshotID ref
        && SnapshotRef.MAIN_BRANCH.equals(ref.refName());
  }

  /** What a table does not meet, but for main's place, each with the reason in words. */
  static Map<UpdateRequirement, String> unmet(
      TableMetadata base, List<UpdateRequirement> requirements) {
    Map<UpdateRequirement, String> failing = new IdentityHashMap<>();
    for (UpdateRequirement requirement : requirements) {
      if (isAboutMain(requirement)) {
        continue;
      }
      try {
        requirement.validate(base);
      } catch (CommitFailedException e) {
        failing.put(requirement, e.getMessage());
      }
    }
    return failing;
  }

  /**
   * A table as requirements say that it was; empty where that cannot be told any more.
   *
   * @param failing the requirements, by its ids
   * @param updates those of the change that asks it, by its ids: they have the schema that it asks
   *     for, where strangers have removed that
   */
  static Optional<TableMetadata> of(
      TableMetadata base, Collection<UpdateRequirement> failing, List<MetadataUpdate> updates) {
    ObjectNode node = MetadataJson.of(base);
    Map<Integer, Schema> known = FittingDefaults.known(base, updates);
    for (UpdateRequirement requirement : failing) {
      if (!rewind(node, base, known, requirement)) {
        return Optional.empty();
      }
    }
    EarlierSchema.fit(node, base, known.get(node.get("current-schema-id").asInt()));
    return Optional.of(MetadataJson.parsed(base, node));
  }

  /**
   * A table with {@code main} where it was before strangers, and the history of main as it was
   * then: the builder would add an entry of now, which changes laid over it cannot be older than.
   */
  static TableMetadata withMain(TableMetadata base, Snapshot snapshot) {
    Long main = History.mainId(base);
    if (snapshot == null || (main != null && main == snapshot.snapshotId())) {
      return base;
    }
    ObjectNode node = MetadataJson.of(base);
    node.put("current-snapshot-id", snapshot.snapshotId());
    ((ObjectNode) node.get("refs"))
        .withObjectProperty(SnapshotRef.MAIN_BRANCH)
        .put("type", "branch")
        .put("snapshot-id", snapshot.snapshotId());
    ArrayNode log = (ArrayNode) node.get("snapshot-log");
    List<JsonNode> kept = new ArrayList<>();
    log.forEach(
        entry -> {
          if (entry.get("timestamp-ms").asLong() <= snapshot.timestampMillis()) {
            kept.add(entry);
          }
        });
    log.removeAll();
    log.addAll(kept);
    return MetadataJson.parsed(base, node);
  }

  private static boolean rewind(
      ObjectNode node,
      TableMetadata base,
      Map<Integer, Schema> known,
      UpdateRequirement requirement) {
    if (requirement instanceof UpdateRequirement.AssertCurrentSchemaID current) {
      return rewindSchema(node, base, known.get(current.schemaId()));
    }
    if (requirement instanceof UpdateRequirement.AssertLastAssignedFieldId last) {
      node.put("last-column-id", last.lastAssignedFieldId());
      return true;
    }
    if (requirement instanceof UpdateRequirement.AssertDefaultSpecID spec) {
      // One that strangers have removed had no files: another one is as good.
      if (base.specsById().containsKey(spec.specId())) {
        node.put("default-spec-id", spec.specId());
      }
      return true;
    }
    if (requirement instanceof UpdateRequirement.AssertLastAssignedPartitionId last) {
      node.put("last-partition-id", last.lastAssignedPartitionId());
      dropSpecsAbove((ArrayNode) node.get("partition-specs"), last.lastAssignedPartitionId());
      return true;
    }
    if (requirement instanceof UpdateRequirement.AssertDefaultSortOrderID order) {
      node.put("default-sort-order-id", order.sortOrderId());
      return base.sortOrdersById().containsKey(order.sortOrderId());
    }
    return requirement instanceof UpdateRequirement.AssertRefSnapshotID ref
        && rewindRef((ObjectNode) node.get("refs"), base, ref);
  }

  private static boolean rewindSchema(ObjectNode node, TableMetadata base, Schema schema) {
    if (schema == null) {
      return false;
    }
    node.put("current-schema-id", schema.schemaId());
    if (!base.schemasById().containsKey(schema.schemaId())) {
      ((ArrayNode) node.get("schemas")).add(MetadataJson.read(SchemaParser.toJson(schema)));
    }
    return true;
  }

  private static void dropSpecsAbove(ArrayNode specs, int lastFieldId) {
    List<JsonNode> kept = new ArrayList<>();
    for (JsonNode spec : specs) {
      int greatest = 0;
      for (JsonNode field : spec.get("fields")) {
        greatest = Math.max(greatest, field.get("field-id").asInt());
      }
      if (greatest <= lastFieldId) {
        kept.add(spec);
      }
    }
    specs.removeAll();
    specs.addAll(kept);
  }

  private static boolean rewindRef(
      ObjectNode refs, TableMetadata base, UpdateRequirement.AssertRefSnapshotID required) {
    if (required.snapshotId() == null) {
      refs.remove(required.refName());
      return true;
    }
    JsonNode ref = refs.get(required.refName());
    if (ref == null || base.snapshot(required.snapshotId()) == null) {
      return false;
    }
    ((ObjectNode) ref).put("snapshot-id", required.snapshotId());
    return true;
  }
}
