package io.txns.iceberg.meta;

import java.util.HashSet;
import java.util.Set;
import org.apache.iceberg.MetadataUpdate;

/**
 * What a change removes of schemas, specs and snapshots, but for what the table goes by then:
 * strangers may have made it that since, and no library removes it; nor what somebody is to adopt.
 */
public final class Removals {
  private static final int LAST_ADDED = -1;

  private int schemaId;
  private int specId;
  private final Set<Long> held;
  private int lastSpecId = LAST_ADDED;

  /**
   * Start from a table, by its current schema and its default spec.
   *
   * @param held snapshots that stay
   */
  public Removals(int schemaId, int specId, Set<Long> held) {
    this.schemaId = schemaId;
    this.specId = specId;
    this.held = held;
  }

  /** The same update, of what can be removed; null where that is nothing. */
  public MetadataUpdate possible(MetadataUpdate update) {
    if (update instanceof MetadataUpdate.SetCurrentSchema set) {
      schemaId = set.schemaId();
    } else if (update instanceof MetadataUpdate.AddPartitionSpec add) {
      lastSpecId = add.spec().specId();
    } else if (update instanceof MetadataUpdate.SetDefaultPartitionSpec set) {
      specId = set.specId() == LAST_ADDED ? lastSpecId : set.specId();
    } else if (update instanceof MetadataUpdate.RemoveSchemas gone) {
      Set<Integer> ids = without(gone.schemaIds(), schemaId);
      return ids.isEmpty() ? null : new MetadataUpdate.RemoveSchemas(ids);
    } else if (update instanceof MetadataUpdate.RemovePartitionSpecs gone) {
      Set<Integer> ids = without(gone.specIds(), specId);
      return ids.isEmpty() ? null : new MetadataUpdate.RemovePartitionSpecs(ids);
    } else if (update instanceof MetadataUpdate.RemoveSnapshots gone) {
      Set<Long> ids = new HashSet<>(gone.snapshotIds());
      ids.removeAll(held);
      return ids.isEmpty() ? null : new MetadataUpdate.RemoveSnapshots(ids);
    }
    return update;
  }

  private static Set<Integer> without(Set<Integer> ids, int kept) {
    Set<Integer> left = new HashSet<>(ids);
    left.remove(kept);
    return left;
  }
}
