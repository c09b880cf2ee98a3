package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * The ids under which the schemas of one logged change stand in a table: a stranger may have taken
 * those that they were staged with.
 */
final class SchemaIds {
  private static final int LAST_ADDED = -1;
  private final TableMetadata base;
  private final List<Schema> known = new ArrayList<>();
  private final Map<Integer, Integer> ids = new HashMap<>();
  private Integer last;

  SchemaIds(TableMetadata base) {
    this.base = base;
    if (base != null) {
      known.addAll(base.schemas());
    }
  }

  MetadataUpdate here(MetadataUpdate update) {
    if (base != null && update instanceof MetadataUpdate.AddSchema add) {
      last = idOf(add.schema());
      ids.put(add.schema().schemaId(), last);
      known.add(new Schema(last, add.schema().columns(), add.schema().identifierFieldIds()));
    }
    if (update instanceof MetadataUpdate.SetCurrentSchema current) {
      // Of a schema that the table has already Iceberg does not say that it was added last.
      boolean isLast = current.schemaId() == LAST_ADDED && last != null;
      return new MetadataUpdate.SetCurrentSchema(isLast ? last : here(current.schemaId()));
    }
    if (update instanceof MetadataUpdate.RemoveSchemas gone) {
      Set<Integer> here = gone.schemaIds().stream().map(this::here).collect(Collectors.toSet());
      return new MetadataUpdate.RemoveSchemas(here);
    }
    return update;
  }

  private int here(int schemaId) {
    return ids.getOrDefault(schemaId, schemaId);
  }

  /** A staged snapshot that names its schema by the table's id. */
  Snapshot renamed(Snapshot staged) {
    Integer here = ids.get(staged.schemaId());
    return here == null || here.equals(staged.schemaId())
        ? staged
        : SnapshotEdit.of(staged).schemaId(here).build();
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
