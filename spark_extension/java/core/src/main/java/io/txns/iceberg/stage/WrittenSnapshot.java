package io.txns.iceberg.stage;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnLogger;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.io.FileIO;

/** A snapshot that a statement has made, and what its files tell of rows. */
public final class WrittenSnapshot {
  private static final TxnLogger LOG = TxnLogger.of(WrittenSnapshot.class);

  private final Snapshot snapshot;
  private final Table table;

  /**
   * @param after a state of the table that has the snapshot
   */
  public WrittenSnapshot(Snapshot snapshot, TableMetadata after, FileIO io) {
    this.snapshot = snapshot;
    this.table = new BaseTable(new StaticTableOperations(after, io), after.location());
  }

  long id() {
    return snapshot.snapshotId();
  }

  public Map<String, String> summary() {
    return snapshot.summary();
  }

  /** Rows in the data files that it added. */
  public long addedRows() {
    return value(SnapshotSummary.ADDED_RECORDS_PROP);
  }

  /** Whether it removed data files. */
  public boolean removesFiles() {
    return value(SnapshotSummary.DELETED_FILES_PROP) > 0;
  }

  /** Whether it added files that mark rows of others as deleted. */
  public boolean marksRows() {
    return value(SnapshotSummary.ADDED_DELETE_FILES_PROP) > 0;
  }

  /**
   * Rows that have left with a data file that it removed, or by a mark that they are deleted; one
   * that was marked before is not counted again. Empty where only the data could tell.
   */
  public OptionalLong removedRows() {
    try {
      return removed();
    } catch (RuntimeException e) {
      // What the statement has written stands: only its count is not known.
      LOG.warn(LogFields.named(table.name()), "the rows that a statement removed are not known", e);
      return OptionalLong.empty();
    }
  }

  private OptionalLong removed() {
    if (value(SnapshotSummary.ADDED_EQ_DELETES_PROP) > 0) {
      return OptionalLong.empty();
    }
    long left = value(SnapshotSummary.DELETED_RECORDS_PROP);
    long marks = value(SnapshotSummary.ADDED_POS_DELETES_PROP);
    Long parent = snapshot.parentId();
    if (parent == null
        || left + marks == 0
        || table.snapshot(parent).deleteManifests(table.io()).isEmpty()) {
      return OptionalLong.of(left + marks);
    }
    return removedBesides(table.snapshot(parent), left + marks);
  }

  /** Takes from {@code rows} those that were marked before. */
  private OptionalLong removedBesides(Snapshot parent, long rows) {
    SnapshotChanges changes = SnapshotChanges.builderFor(table).snapshot(snapshot).build();
    Set<String> touched = new HashSet<>();
    changes.removedDataFiles().forEach(file -> touched.add(file.location()));
    changes.addedDeleteFiles().forEach(file -> touched.add(EarlierDeletes.markedFile(file)));
    EarlierDeletes earlier = EarlierDeletes.of(table, parent, touched);
    long left = rows;
    for (DataFile file : changes.removedDataFiles()) {
      OptionalLong marked = earlier.rowsOf(file);
      if (marked.isEmpty()) {
        return marked;
      }
      left -= marked.getAsLong();
    }
    for (DeleteFile file : changes.addedDeleteFiles()) {
      OptionalLong taken = earlier.takenOverBy(file, changes.removedDeleteFiles());
      if (taken.isEmpty()) {
        return taken;
      }
      left -= taken.getAsLong();
    }
    return OptionalLong.of(left);
  }

  private long value(String key) {
    return Long.parseLong(snapshot.summary().getOrDefault(key, "0"));
  }
}
