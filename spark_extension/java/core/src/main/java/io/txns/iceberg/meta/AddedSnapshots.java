package io.txns.iceberg.meta;

import java.util.Collection;
import java.util.List;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;

/** The snapshots among the updates of a table's metadata. */
public final class AddedSnapshots {
  private AddedSnapshots() {}

  /** The snapshots that updates add, in order. */
  public static List<Snapshot> of(Collection<? extends MetadataUpdate> updates) {
    return updates.stream()
        .filter(MetadataUpdate.AddSnapshot.class::isInstance)
        .map(update -> ((MetadataUpdate.AddSnapshot) update).snapshot())
        .toList();
  }
}
