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
 *     change with a payload
 * @param addedRecords rows added, as Iceberg's snapshot summaries count them
 * @param deletedRecords rows deleted, as Iceberg's snapshot summaries count them
 */
public record Change(
    TableIdentifier table,
    String uuid,
    Operation operation,
    Long fromSnapshotId,
    Long toSnapshotId,
    long addedRecords,
    long deletedRecords) {

  public Change {
    Objects.requireNonNull(table, "table");
    Objects.requireNonNull(uuid, "uuid");
    Objects.requireNonNull(operation, "operation");
  }
}
