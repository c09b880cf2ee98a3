package io.txns.iceberg.catalog;

import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.Overlay;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * What a table object has shown of rows whose ids may change yet: of format 3, and not applied.
 *
 * <p>An engine that rewrites such rows writes the ids into its files, and what an operation of
 * Iceberg's keeps between its tries has them, too: so it is the ids that were shown that must
 * stand, not those of the state that it commits on.
 */
final class ShownRowIds {
  /** The manifest lists that were shown, by the ids of their snapshots. */
  private final Map<Long, String> lists = new ConcurrentHashMap<>();

  /** A state is shown; what was applied as it was shown before has its ids for good. */
  void of(Loaded shown) {
    if (shown.metadata() == null || shown.metadata().formatVersion() < 3) {
      return;
    }
    TableMetadata applied = shown.real() == null ? null : shown.real().current();
    lists.entrySet().removeIf(one -> applied != null && isIn(applied, one));
    Overlay.unappliedWithRowIds(applied, shown.metadata())
        .forEach(one -> lists.putIfAbsent(one.snapshotId(), one.manifestListLocation()));
  }

  /** Somebody begins with the table anew. */
  void forget() {
    lists.clear();
  }

  /** Whether a state has all that was shown as it was shown: a renumbered one has another list. */
  boolean standIn(TableMetadata base) {
    return lists.entrySet().stream().allMatch(one -> isIn(base, one));
  }

  private static boolean isIn(TableMetadata state, Map.Entry<Long, String> shown) {
    Snapshot there = state.snapshot(shown.getKey());
    return there != null && there.manifestListLocation().equals(shown.getValue());
  }
}
