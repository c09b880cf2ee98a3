package io.txns.iceberg.table;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.meta.History;
import java.util.Comparator;
import java.util.HashSet;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/** Which snapshots of a table the protocol has made, and what for. */
public final class OurSnapshots {
  private OurSnapshots() {}

  /** Whether the protocol has made a snapshot. */
  public static boolean isOurs(Snapshot snapshot) {
    return snapshot.summary() != null
        && snapshot.summary().containsKey(TableMark.SNAPSHOT_COMMIT_TS);
  }

  /**
   * Whether a table shows that it was under care, if without a mark: by snapshots of ours, or by a
   * footing: who adopts a table that was set back to before its registration puts one there.
   */
  public static boolean haveBeenIn(TableMetadata metadata) {
    return metadata.snapshots().stream()
        .anyMatch(
            at ->
                isOurs(at)
                    || at.summary() != null
                        && at.summary().containsKey(TableMark.SNAPSHOT_RESTORED));
  }

  /** Whether one of ours is inside a change, or of another branch: no state of main. */
  public static boolean isPassing(Snapshot snapshot) {
    return snapshot.summary().containsKey(TableMark.SNAPSHOT_PASSING);
  }

  /** The {@code commit_ts} of one of ours, in ms. */
  public static long commitTs(Snapshot snapshot) {
    String stored = isOurs(snapshot) ? snapshot.summary().get(TableMark.SNAPSHOT_COMMIT_TS) : "";
    return EntryParser.number(stored, TableMark.SNAPSHOT_COMMIT_TS);
  }

  /** The {@code commit_ts} in ms of those at the top of main that lie above one in ms. */
  public static Set<Long> above(TableMetadata metadata, long ts) {
    Set<Long> found = new HashSet<>();
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.currentSnapshot();
    while (at != null && isOurs(at) && commitTs(at) > ts) {
      found.add(commitTs(at));
      at = walk.parent(at);
    }
    return found;
  }

  /** Whether a registration has marked a table above a timestamp in ms. */
  static boolean markedAbove(TableMetadata metadata, long ts) {
    return metadata.snapshots().stream()
        .anyMatch(at -> isOurs(at) && commitTs(at) > ts && marks(metadata, at));
  }

  /**
   * The {@code commit_ts} at which a table came under care for the first time.
   *
   * @return empty where its oldest snapshot of ours is not a registration's: the protocol created
   *     it, or has expired that one
   */
  static OptionalLong careTs(TableMetadata metadata) {
    return metadata.snapshots().stream()
        .filter(OurSnapshots::isOurs)
        .min(Comparator.comparingLong(OurSnapshots::commitTs))
        .filter(first -> marks(metadata, first))
        .map(first -> OptionalLong.of(commitTs(first)))
        .orElse(OptionalLong.empty());
  }

  /** Whether a snapshot is that of a registration's swap. */
  public static boolean marks(TableMetadata metadata, Snapshot snapshot) {
    return isOurs(snapshot) && registrationId(metadata, snapshot).equals(txnId(snapshot));
  }

  /** The transaction id of the registration whose swap put a snapshot there. */
  public static String registrationId(TableMetadata metadata, Snapshot snapshot) {
    return Entry.derivedId(
        "register", TableNames.uuid(metadata), Long.toString(snapshot.snapshotId()));
  }

  public static String txnId(Snapshot snapshot) {
    return snapshot.summary().get(TableMark.SNAPSHOT_TXN_ID);
  }

  /**
   * Whether a snapshot of the logged ancestry stands for a {@code commit_ts} at or below a {@code
   * readTs}, both in ms: by its own mark, a compaction's parent's, or the wall clock for one from
   * before the registration. Such a one is not older than that of ours which it stands on, from an
   * earlier registration: the clock of its writer may be late.
   */
  static boolean standsAtOrBelow(
      TableMetadata metadata, TableMark mark, Snapshot snapshot, long readTs) {
    History.Walk walk = History.walk(metadata);
    Snapshot at = snapshot;
    while (!isOurs(at) && DataOperations.REPLACE.equals(at.operation())) {
      Snapshot parent = walk.parent(at);
      if (parent == null) {
        // Expired: pyiceberg's expiry leaves no trace of a parent (schedule 19).
        return mark.applied() <= readTs;
      }
      at = parent;
    }
    if (!isOurs(at) && at.timestampMillis() > readTs) {
      return false;
    }
    while (at != null && !isOurs(at)) {
      at = walk.parent(at);
    }
    return at == null || commitTs(at) <= readTs;
  }

  /**
   * The snapshot since which what came on main has changed the rows that a state has: the state's
   * own. Or, where others' commits have left that off main, the one below, as far as only
   * strangers' compactions lie between, which hold its rows (docs/spec.md 9.2).
   *
   * @param base the state, as it was read
   * @param now the table as it is now
   * @return the state's own as well where main stands on neither: nobody knows what came since;
   *     null where the state has none
   */
  public static Snapshot lastOnMain(TableMetadata base, TableMetadata now) {
    Snapshot newest = base.currentSnapshot();
    if (newest == null || !isStrangersCompaction(newest)) {
      return newest;
    }
    Set<Long> onMain = History.ancestors(now, now.currentSnapshot());
    History.Walk walk = History.walk(base);
    Snapshot at = newest;
    while (at != null && !onMain.contains(at.snapshotId())) {
      at = isStrangersCompaction(at) ? walk.parent(at) : null;
    }
    return at == null ? newest : at;
  }

  private static boolean isStrangersCompaction(Snapshot snapshot) {
    return DataOperations.REPLACE.equals(snapshot.operation()) && !isOurs(snapshot);
  }
}
