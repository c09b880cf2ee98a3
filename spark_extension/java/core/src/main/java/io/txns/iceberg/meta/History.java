package io.txns.iceberg.meta;

import java.util.HashSet;
import java.util.Set;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/** How the snapshots of a table stand on each other. */
public final class History {
  private History() {}

  /** Where main stands; null for nowhere. */
  public static Long mainId(TableMetadata metadata) {
    Snapshot main = metadata.currentSnapshot();
    return main == null ? null : main.snapshotId();
  }

  /** What a snapshot stands on; null for nothing, or where that has been expired. */
  public static Snapshot parent(TableMetadata metadata, Snapshot snapshot) {
    return snapshot.parentId() == null ? null : metadata.snapshot(snapshot.parentId());
  }

  /** The ids of a snapshot and of its ancestors; empty for null. */
  public static Set<Long> ancestors(TableMetadata metadata, Snapshot snapshot) {
    Set<Long> ids = new HashSet<>();
    for (Snapshot at = snapshot; at != null; at = parent(metadata, at)) {
      ids.add(at.snapshotId());
    }
    return ids;
  }
}
