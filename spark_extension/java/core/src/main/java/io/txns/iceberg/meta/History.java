package io.txns.iceberg.meta;

import io.txns.iceberg.TxnException;
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
  private static Snapshot parent(TableMetadata metadata, Snapshot snapshot) {
    return snapshot.parentId() == null ? null : metadata.snapshot(snapshot.parentId());
  }

  /** A way down a history, from one snapshot to those that it stands on. */
  public static final class Walk {
    private final TableMetadata metadata;
    private final Set<Long> seen = new HashSet<>();

    private Walk(TableMetadata metadata) {
      this.metadata = metadata;
    }

    /**
     * What a snapshot stands on; null for nothing, or where that has been expired.
     *
     * @throws TxnException CorruptLog where a snapshot is its own ancestor: nobody would come to an
     *     end
     */
    public Snapshot parent(Snapshot at) {
      if (!seen.add(at.snapshotId())) {
        throw TxnException.corruptLog(
            String.format(
                "a snapshot stands on itself: the history of its table goes in a circle;"
                    + " snapshot=`%d`",
                at.snapshotId()));
      }
      return History.parent(metadata, at);
    }
  }

  /** A way down the history of a table, which is to be walked once. */
  public static Walk walk(TableMetadata metadata) {
    return new Walk(metadata);
  }

  /** The ids of a snapshot and of its ancestors; empty for null. */
  public static Set<Long> ancestors(TableMetadata metadata, Snapshot snapshot) {
    Set<Long> ids = new HashSet<>();
    Walk walk = walk(metadata);
    for (Snapshot at = snapshot; at != null; at = walk.parent(at)) {
      ids.add(at.snapshotId());
    }
    return ids;
  }
}
