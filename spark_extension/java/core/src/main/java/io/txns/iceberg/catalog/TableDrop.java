package io.txns.iceberg.catalog;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.Claim;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * DROP TABLE: a change that moves {@code main} to an empty marker snapshot and hides the table.
 *
 * <p>Catalogs drop by name only, and a slow applier would drop what somebody has created again
 * since (schedule 6 of the protocol's tests): the table itself stays.
 */
public record TableDrop(Services services, Supplier<Transaction> transaction) {
  /** Drop a table; one that nobody registered as its catalog does by default. */
  public boolean drop(TableIdentifier table) {
    Transaction running = transaction.get();
    if (running != null && running.explicit()) {
      return drop(table, false);
    }
    services.checks().refuseCommitTable(table);
    try {
      Loaded loaded = services.newest().load(table);
      services.checks().refuseCommitTable(loaded);
      return loaded.registered() ? drop(table, false) : services.delegate().dropTable(table);
    } catch (NoSuchTableException e) {
      return false; // dropped by the protocol: its physical table stays
    }
  }

  /** Drop a table; false where there is none. */
  public boolean drop(TableIdentifier table, boolean purge) {
    services.checks().refuseCommitTable(table);
    Transaction running = transaction.get();
    try {
      return running != null && running.explicit()
          ? dropInTransaction(running, table, purge)
          : dropAtOnce(running, table, purge);
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  private boolean dropInTransaction(Transaction running, TableIdentifier table, boolean purge) {
    if (purge) {
      throw TxnException.unsupported(
          "DROP TABLE ... PURGE deletes files at once: drop without PURGE inside a transaction");
    }
    running.checkWritable();
    running.beforeWrite();
    if (running.writeSet().creates(table)) {
      running.writeSet().unstageCreate(table);
      return true;
    }
    services.checks().writable(running.writeSet().load(table));
    StagedTable staged = running.writeSet().table(table);
    running.writeSet().stage(staged, staged.current(), marked(staged.current(), staged.real()));
    return true;
  }

  private boolean dropAtOnce(Transaction running, TableIdentifier table, boolean purge) {
    Loaded loaded = TableLoading.toWrite(services, table);
    services.checks().refuseCommitTable(loaded);
    if (!loaded.registered()) {
      return services.delegate().dropTable(table, purge);
    }
    Loaded.Registered writable = services.checks().writable(loaded);
    if (purge) {
      Head head = services.log().loadIfExists();
      long maxAgeMs = head.state().settings().maxAgeMs();
      long nowMs = Math.max(services.clock().nowMs(), head.upper());
      throw TxnException.unsupported(
          String.format(
              "a table under care keeps its files for transactions that may read it: DROP TABLE"
                  + " without PURGE, and CALL %1$s.system.purge('%2$s') %3$d s later, from %4$s on"
                  + " at the earliest; or, where nobody reads it, CALL %1$s.system.forget('%2$s')"
                  + " first; table=`%2$s`",
              services.catalogName(), table, maxAgeMs / 1000, Claim.time(nowMs + maxAgeMs)));
    }
    services.autocommit().commit(running, writable, marked(writable.metadata(), writable.real()));
    return true;
  }

  /** A table with the marker of a drop on main. */
  public static TableMetadata marked(TableMetadata base, TableOperations real) {
    long snapshotId = real.newSnapshotId();
    long sequenceNumber = base.formatVersion() == 1 ? 0 : base.lastSequenceNumber() + 1;
    Snapshot marker =
        SnapshotEdit.create(snapshotId, DataOperations.DELETE)
            .parent(History.mainId(base))
            .timestampMs(base.lastUpdatedMillis())
            .schemaId(base.currentSchemaId())
            .summary(Map.of(TableMark.SNAPSHOT_DROPPED, "true"))
            .listed(
                real.io(),
                real.temp(base).metadataFileLocation("snap-" + snapshotId + "-dropped.avro"),
                base.formatVersion(),
                sequenceNumber,
                base.formatVersion() >= 3 ? base.nextRowId() : null,
                List.of())
            .build();
    return TableMetadata.buildFrom(base).setBranchSnapshot(marker, SnapshotRef.MAIN_BRANCH).build();
  }
}
