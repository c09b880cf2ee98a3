package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Schema;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;

/**
 * The ids under which the schemas of one logged change stand in a table: a stranger may have taken
 * those that they were staged with.
 */
final class SchemaIds {
  private static final int LAST_ADDED = -1;
  private final TableMetadata base;
  private final Integer ofSource;
  private final List<Schema> known = new ArrayList<>();
  private final Map<Integer, Integer> ids = new HashMap<>();
  private final Set<Integer> gone = new TreeSet<>();
  private Integer last;

  /**
   * @param base null for a table that is created: whose ids are the builder's
   * @param ofSource the schema of what the change was staged on, by the table's id; null where that
   *     is not known, and all ids are the table's
   */
  SchemaIds(TableMetadata base, Integer ofSource) {
    this.base = base;
    this.ofSource = ofSource;
    if (base != null) {
      known.addAll(base.schemas());
    }
  }

  /** An update by the table's ids; null where the table has what it adds, and of a removal. */
  MetadataUpdate here(MetadataUpdate update) {
    if (base == null) {
      return update;
    }
    if (update instanceof MetadataUpdate.AddSchema add) {
      return added(add);
    }
    if (update instanceof MetadataUpdate.SetCurrentSchema current) {
      // Of a schema that the table has already Iceberg does not say that it was added last.
      boolean isLast = current.schemaId() == LAST_ADDED && last != null;
      return new MetadataUpdate.SetCurrentSchema(isLast ? last : here(current.schemaId()));
    }
    if (update instanceof MetadataUpdate.RemoveSchemas removal) {
      removal.schemaIds().stream().map(this::here).forEach(gone::add);
      return null;
    }
    return update instanceof MetadataUpdate.AddSnapshot add ? renamed(add) : update;
  }

  /** They come last: Iceberg's builder does not give an id again that it has taken away. */
  Stream<MetadataUpdate> removals() {
    return gone.isEmpty() ? Stream.of() : Stream.of(new MetadataUpdate.RemoveSchemas(gone));
  }

  UpdateRequirement here(UpdateRequirement requirement) {
    return requirement instanceof UpdateRequirement.AssertCurrentSchemaID current
        ? new UpdateRequirement.AssertCurrentSchemaID(here(current.schemaId()))
        : requirement;
  }

  private MetadataUpdate added(MetadataUpdate.AddSchema add) {
    last = idOf(add.schema());
    ids.put(add.schema().schemaId(), last);
    gone.remove(last);
    if (known.stream().anyMatch(schema -> schema.schemaId() == last)) {
      return null;
    }
    Schema here = new Schema(last, add.schema().columns(), add.schema().identifierFieldIds());
    known.add(here);
    return new MetadataUpdate.AddSchema(here);
  }

  private int here(int schemaId) {
    return ids.getOrDefault(schemaId, ofSource == null ? (Integer) schemaId : ofSource);
  }

  /** A staged snapshot that names its schema by the table's id. */
  private MetadataUpdate renamed(MetadataUpdate.AddSnapshot add) {
    Integer staged = add.snapshot().schemaId();
    return staged == null || here(staged) == staged
        ? add
        : new MetadataUpdate.AddSnapshot(
            SnapshotEdit.of(add.snapshot()).schemaId(here(staged)).build());
  }

  /** As {@code TableMetadata.Builder} gives it: an equal schema's, or the next free one. */
  private int idOf(Schema schema) {
    int next = base.currentSchemaId();
    for (Schema other : known) {
      if (other.sameSchema(schema)) {
        return other.schemaId();
      }
      next = Math.max(next, other.schemaId() + 1);
    }
    return next;
  }
}
