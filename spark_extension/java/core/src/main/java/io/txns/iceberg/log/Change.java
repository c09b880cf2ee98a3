package io.txns.iceberg.log;

import java.util.Objects;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What an entry does to one data table: one element of {@code txns.tables}.
 *
 * @param table the table's identifier
 * @param uuid the table's Iceberg uuid; decides what table is meant, not the name
 * @param operation what is done
 * @param fromSnapshotId the snapshot of {@code main} that the change stands on; null for a table
 *     without one
 * @param toSnapshotId the snapshot that {@code main} has afterwards; Invariant I2: never null for a
 *     change that moves it ({@link Entry#moved})
 * @param addedRecords rows added, as Iceberg's snapshot summaries count them
 * @param deletedRecords rows deleted, as Iceberg's snapshot summaries count them
 * @param bornApplied whether the swap of the entry itself moved the table (docs/spec.md 11.3)
 */
public record Change(
    TableIdentifier table,
    String uuid,
    Operation operation,
    Long fromSnapshotId,
    Long toSnapshotId,
    long addedRecords,
    long deletedRecords,
    boolean bornApplied) {

  public Change {
    Objects.requireNonNull(table, "table");
    Objects.requireNonNull(uuid, "uuid");
    Objects.requireNonNull(operation, "operation");
  }

  /** A change that is carried over to its table after the swap, or none that moves it. */
  public Change(
      TableIdentifier table,
      String uuid,
      Operation operation,
      Long fromSnapshotId,
      Long toSnapshotId,
      long addedRecords,
      long deletedRecords) {
    this(table, uuid, operation, fromSnapshotId, toSnapshotId, addedRecords, deletedRecords, false);
  }

  /** The same, which the swap of its entry itself carries out. */
  public Change born() {
    return new Change(
        table, uuid, operation, fromSnapshotId, toSnapshotId, addedRecords, deletedRecords, true);
  }
}
