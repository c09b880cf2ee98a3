package io.txns.iceberg.table;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.History;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/** A purger's claim on a dropped table, as the table's metadata shows it (docs/spec.md 6.8). */
public final class Claim {
  /** For so long nobody takes over another purger's claim, in ms. */
  public static final long DURATION_MS = 10 * 60 * 1000L;

  /** By so much Iceberg lets a snapshot be older than its table's last update, in ms. */
  private static final long LATE_MS = 60 * 1000L;

  private Claim() {}

  /** The {@code commit_ts} of a table's drop: of the oldest marker that main ends in. */
  public static long droppedTs(TableMetadata metadata) {
    long found = 0;
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.currentSnapshot();
    while (TableMark.isDropped(at)) {
      found = OurSnapshots.commitTs(at);
      at = walk.parent(at);
    }
    return found;
  }

  /** The {@code commit_ts} of a table's claim; empty for a table without one. */
  public static Optional<Long> ts(TableMetadata metadata) {
    String claimId = metadata.properties().get(TableMark.PURGING);
    if (claimId == null) {
      return Optional.empty();
    }
    for (Snapshot at : metadata.snapshots()) {
      if (OurSnapshots.isOurs(at) && claimId.equals(at.summary().get(TableMark.SNAPSHOT_TXN_ID))) {
        return Optional.of(OurSnapshots.commitTs(at));
      }
    }
    return Optional.of(0L); // expired: it is old
  }

  /**
   * A branch with rows of strangers that no entry has taken in: one that apply has made for them,
   * or one that they have written since the drop, by a clock that may be late.
   */
  public static Optional<String> foreignBranch(TableMetadata metadata) {
    long since = droppedTs(metadata) - LATE_MS;
    for (Map.Entry<String, SnapshotRef> ref : metadata.refs().entrySet()) {
      Snapshot head = metadata.snapshot(ref.getValue().snapshotId());
      boolean theirs = head != null && !OurSnapshots.isOurs(head);
      boolean kept =
          theirs
              && (ref.getKey().startsWith(TableMark.FOREIGN_BRANCH)
                  || head.timestampMillis() >= since);
      if (kept
          && !ref.getKey().equals(SnapshotRef.MAIN_BRANCH)
          && !ref.getKey().startsWith(TableMark.KEPT_TAG)
          && !OutstandingBranch.isLeftOver(metadata, head)
          && (Stranger.above(metadata, head.snapshotId()).isPresent()
              || Stranger.isCutOff(metadata, head.snapshotId()))) {
        return Optional.of(ref.getKey());
      }
    }
    return Optional.empty();
  }

  /**
   * Whether a table is what a purger has claimed, and nobody has written it since.
   *
   * @param claimId whose claim it must be; null for anybody's
   */
  public static boolean stands(TableMetadata metadata, String claimId) {
    String claimed = metadata.properties().get(TableMark.PURGING);
    Optional<TableMark> mark = TableMark.of(metadata);
    return claimed != null
        && (claimId == null || claimId.equals(claimed))
        && mark.isPresent()
        && TableMark.isDropped(metadata.currentSnapshot())
        && LoggedState.of(metadata, mark.get()).stranger().isEmpty()
        && foreignBranch(metadata).isEmpty();
  }

  /**
   * Refuse to use a dropped table that is being purged.
   *
   * @throws TxnException 40001, with what to do when nobody purges it any more
   */
  public static void refuse(String catalog, TableIdentifier table, TableMetadata metadata) {
    ts(metadata)
        .ifPresent(
            since -> {
              throw beingPurged(catalog, table, since);
            });
  }

  /** The error for a table that somebody purges, since a timestamp in ms. */
  public static TxnException beingPurged(String catalog, TableIdentifier table, long since) {
    return TxnException.notFree(
        table,
        since + DURATION_MS,
        String.format(
            "the dropped table of this name is being purged since %s; a purge that died is gone on"
                + " with by CALL %s.system.purge('%s'), possible from %s on",
            time(since), catalog, table, time(since + DURATION_MS)));
  }

  /** A timestamp in ms as people read it. */
  public static String time(long ts) {
    return ts + " (" + Instant.ofEpochMilli(ts).truncatedTo(ChronoUnit.SECONDS) + ")";
  }
}
