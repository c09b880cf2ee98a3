package io.txns.iceberg.admin;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.SnapshotCopy;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.TableMark;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Brings one table into the epoch of a log that was recovered (docs/spec.md 9.6, step 4).
 *
 * <p>{@code txns recover} does that for all tables that pyiceberg writes; this is for the others.
 */
public final class TableRecovery {
  private final Catalog delegate;
  private final CommitLog log;
  private final DataTables tables;
  private final TxnClock clock;

  public TableRecovery(Services services) {
    this.delegate = services.delegate();
    this.log = services.log();
    this.tables = services.tables();
    this.clock = services.clock();
  }

  /**
   * Mark a table with the log's epoch, and put a footing on its {@code main}; one that has it
   * already is left as it is.
   *
   * @return the log's upper, in ms
   * @throws TxnException XX001 where the log lacks what the table shows; 0A000 where no log of this
   *     name has marked it
   */
  public long recover(TableIdentifier identifier) {
    TableOperations real = ((BaseTable) delegate.loadTable(identifier)).operations();
    TableMetadata base = real.current();
    Head head = log.load();
    TableMark mark =
        TableMark.of(base)
            .filter(one -> one.commitTable().equals(log.identifier()))
            .orElseThrow(
                () ->
                    TxnException.unsupported(
                        "no log of this name has marked the table: register it; table=`"
                            + identifier
                            + "`"));
    if (!tables.hasShown(base, mark, head)) {
      throw TxnException.corruptLog(
          "the log lacks what the table shows: run `txns recover` first; table=`"
              + identifier
              + "`");
    }
    if (!mark.logId().equals(head.logId())) {
      Timestamps.commit(
          real,
          base,
          clock.nowMs(),
          seen ->
              TableMetadata.buildFrom(footing(identifier, real, seen, real.newSnapshotId(), clock))
                  .setProperties(Map.of(TableMark.LOG_ID, head.logId()))
                  .build());
    }
    return head.upper();
  }

  /** A table with a copy of {@code main} on its {@code main}, which nothing of before stands on. */
  static TableMetadata footing(
      TableIdentifier identifier,
      TableOperations real,
      TableMetadata base,
      long snapshotId,
      TxnClock clock) {
    StagedTable staged =
        new StagedTable(
            identifier, real, Overlay.inMemory(base, base.metadataFileLocation()), false);
    SnapshotCopy.stageFooting(staged, snapshotId);
    Snapshot footing =
        SnapshotEdit.of(staged.current().currentSnapshot())
            .timestampMs(Timestamps.acceptableMs(base, clock.nowMs(), clock.nowMs()))
            .build();
    SnapshotRef main = staged.current().ref(SnapshotRef.MAIN_BRANCH);
    return TableMetadata.buildFrom(base)
        .addSnapshot(footing)
        .setRef(SnapshotRef.MAIN_BRANCH, Retention.of(main))
        .build();
  }
}
