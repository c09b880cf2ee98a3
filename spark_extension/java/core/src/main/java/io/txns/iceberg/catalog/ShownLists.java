package io.txns.iceberg.catalog;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * The manifest lists of what a table object has shown before it was applied, and may be renumbered.
 *
 * <p>An engine that rewrites rows writes their ids into its files, and who rewrites manifests, be
 * it an operation of Iceberg's that keeps them between its tries, the sequence numbers: so it is
 * what was shown that must stand, not the state that is committed on.
 */
final class ShownLists {
  private final Map<Long, String> lists = new ConcurrentHashMap<>();

  /**
   * A state is shown; what was applied as it was shown before has its numbers for good.
   *
   * @param applied the table as the catalog had it then; null where it had none
   * @param unapplied snapshots that it lacked
   */
  void note(TableMetadata applied, List<Snapshot> unapplied) {
    lists.entrySet().removeIf(one -> applied != null && isIn(applied, one));
    unapplied.forEach(one -> lists.putIfAbsent(one.snapshotId(), one.manifestListLocation()));
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
