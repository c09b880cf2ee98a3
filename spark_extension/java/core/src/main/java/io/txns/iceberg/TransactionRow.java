package io.txns.iceberg;

/**
 * One change of one transaction, as the archive keeps it and {@code CALL system.transactions()}
 * lists it; times in ms since the epoch.
 *
 * @param table null for an entry that changes no table, as are the fields that tell of the change
 * @param applied whether the table itself shows it
 */
public record TransactionRow(
    long commitTs,
    long committedAt,
    String txnId,
    String kind,
    String table,
    String tableUuid,
    String operation,
    Long parentSnapshotId,
    Long snapshotId,
    Long addedRecords,
    Long deletedRecords,
    long readTs,
    String isolation,
    String engine,
    String comment,
    boolean applied) {}
