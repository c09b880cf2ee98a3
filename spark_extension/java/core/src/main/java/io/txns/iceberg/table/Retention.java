package io.txns.iceberg.table;

import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableProperties;

/** How long expiry must leave the snapshots of a table under care. */
public final class Retention {
  private static final long DAY_MS = 24 * 3600 * 1000L;
  private static final int MIN_SNAPSHOTS_TO_KEEP = 10;

  private Retention() {}

  /** At least ten snapshots and a day: what an overwrite that is not applied yet may need. */
  public static SnapshotRef of(SnapshotRef main) {
    int keep = main.minSnapshotsToKeep() == null ? 0 : main.minSnapshotsToKeep();
    long ageMs = main.maxSnapshotAgeMs() == null ? 0 : main.maxSnapshotAgeMs();
    return SnapshotRef.builderFrom(main)
        .minSnapshotsToKeep(Math.max(keep, MIN_SNAPSHOTS_TO_KEEP))
        .maxSnapshotAgeMs(Math.max(ageMs, DAY_MS))
        .build();
  }

  /**
   * Table properties that must change for expiry to leave the same: they count where a stranger has
   * set main without its retention, as pyiceberg does.
   */
  public static Map<String, String> properties(Map<String, String> properties) {
    Map<String, String> raised = new HashMap<>();
    if (number(properties, TableProperties.MIN_SNAPSHOTS_TO_KEEP, 0) < MIN_SNAPSHOTS_TO_KEEP) {
      raised.put(TableProperties.MIN_SNAPSHOTS_TO_KEEP, Integer.toString(MIN_SNAPSHOTS_TO_KEEP));
    }
    if (number(properties, TableProperties.MAX_SNAPSHOT_AGE_MS, DAY_MS) < DAY_MS) {
      raised.put(TableProperties.MAX_SNAPSHOT_AGE_MS, Long.toString(DAY_MS));
    }
    return raised;
  }

  private static long number(Map<String, String> properties, String key, long otherwise) {
    try {
      return Long.parseLong(properties.getOrDefault(key, Long.toString(otherwise)));
    } catch (NumberFormatException e) {
      return 0; // somebody's slip: no expiry can read it either
    }
  }
}
