package io.txns.iceberg.meta;

import java.util.Collection;
import java.util.Optional;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * How far above a table's numbers those of a logged snapshot may be (docs/spec.md, 7); pure.
 * Numbers end at 2^63 - 1: a table whose snapshot has taken the last one is written by nobody.
 */
public final class SnapshotNumbers {
  /** How many snapshots a table can have lost since a change was staged on it; and many more. */
  private static final long SNAPSHOTS_AHEAD_MAX = 1L << 32;

  /** The same of rows, and how many rows one change adds. */
  private static final long ROWS_AHEAD_MAX = 1L << 48;

  private SnapshotNumbers() {}

  /**
   * The first number of a change that no writer has given. Writers number from where the table is
   * that they stage on. It may lose some of that by a recovery, or by whoever sets it back, but
   * nobody loses that many.
   *
   * @param base the table that the change is laid over; null for a new one
   */
  public static Optional<String> farAhead(
      TableMetadata base, Collection<? extends MetadataUpdate> updates) {
    long newest = base == null ? 0 : base.lastSequenceNumber();
    long nextRow = base == null ? 0 : base.nextRowId();
    long left = ROWS_AHEAD_MAX;
    for (MetadataUpdate update : updates) {
      if (!(update instanceof MetadataUpdate.AddSnapshot add)) {
        continue;
      }
      Snapshot snapshot = add.snapshot();
      long rows = snapshot.addedRows() == null ? 0 : snapshot.addedRows();
      if (snapshot.sequenceNumber() - SNAPSHOTS_AHEAD_MAX > newest) {
        return Optional.of("sequence-number " + snapshot.sequenceNumber());
      }
      if (snapshot.firstRowId() != null && snapshot.firstRowId() - ROWS_AHEAD_MAX > nextRow) {
        return Optional.of("first-row-id " + snapshot.firstRowId());
      }
      if (rows > left) {
        return Optional.of("added-rows " + rows);
      }
      left -= Math.max(0, rows);
    }
    return Optional.empty();
  }
}
