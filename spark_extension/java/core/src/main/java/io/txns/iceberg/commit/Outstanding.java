package io.txns.iceberg.commit;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** What is logged and not applied yet of the tables whose files a transaction rewrites. */
final class Outstanding {
  private final CommitLog log;
  private final DataTables tables;
  private final Applier applier;

  Outstanding(CommitLog log, DataTables tables, Applier applier) {
    this.log = log;
    this.tables = tables;
    this.applier = applier;
  }

  /** An overwrite stands on files that expiry may take: what is outstanding goes first. */
  void apply(CommitRequest request) {
    List<StagedTable> overwrites =
        request.writes().values().stream()
            .filter(write -> !write.isAppendOnly() && !write.isCreate())
            .toList();
    if (overwrites.isEmpty() || request.kind() != EntryKind.COMMIT) {
      return;
    }
    Head head = log.loadIfExists();
    if (!head.exists()) {
      return;
    }
    for (StagedTable write : overwrites) {
      if (isOutstanding(head, write)) {
        applier.applyRun(head, write.identifier());
      }
      refuseOtherRowIds(head, request, write);
    }
  }

  /** What rewrites rows writes the ids that they had into its files. */
  private void refuseOtherRowIds(Head head, CommitRequest request, StagedTable write) {
    List<Snapshot> unapplied = Overlay.unappliedWithRowIds(write.real().current(), write.base());
    if (unapplied.isEmpty()) {
      return;
    }
    TableMetadata applied;
    try {
      applied = tables.load(write.identifier(), head, head.upper()).real().current();
    } catch (NoSuchTableException e) {
      return; // whoever dropped it is found by validation
    }
    for (Snapshot one : unapplied) {
      Snapshot there = applied == null ? null : applied.snapshot(one.snapshotId());
      if (there == null || !hasSameList(there, one)) {
        throw TxnException.conflict(
            write.identifier(),
            request.key().txnId(),
            Winner.NOBODY,
            head.upper(),
            "rows that it rewrote have other row ids since they were applied: load the table anew"
                + " (Table.refresh) before the next try");
      }
    }
  }

  /** Whether two states of a snapshot list the same: one that was renumbered has another list. */
  private static boolean hasSameList(Snapshot one, Snapshot other) {
    return one.manifestListLocation().equals(other.manifestListLocation());
  }

  private static boolean isOutstanding(Head head, StagedTable write) {
    TableMetadata known = write.real().current();
    long applied = known == null ? 0 : TableMark.applied(known); // logged and not created yet
    return !head.state().changes(TableNames.uuid(write.base()), applied, head.upper()).isEmpty();
  }
}
