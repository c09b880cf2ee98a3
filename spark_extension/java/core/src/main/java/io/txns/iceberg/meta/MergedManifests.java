package io.txns.iceberg.meta;

import java.util.Objects;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.io.FileIO;

/** Manifests in which a snapshot has written rows that it did not add. */
public final class MergedManifests {
  private MergedManifests() {}

  /** Whether a snapshot has such data manifests: on format 3 the row ids stand in them for good. */
  public static boolean areIn(Snapshot snapshot, FileIO io) {
    return snapshot.dataManifests(io).stream()
        .anyMatch(
            manifest ->
                Objects.equals(manifest.snapshotId(), snapshot.snapshotId())
                    && manifest.hasExistingFiles());
  }
}
