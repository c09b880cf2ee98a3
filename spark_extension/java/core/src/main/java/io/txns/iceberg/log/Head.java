package io.txns.iceberg.log;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogSettings;
import java.util.List;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * The newest state of the commit table that was loaded, and what follows from it.
 *
 * @param metadata the commit table's metadata; null where there is no commit table
 * @param state what it says
 */
public record Head(TableMetadata metadata, LogState state) {
  static final Head NONE = new Head(null, LogState.empty());

  public boolean exists() {
    return metadata != null;
  }

  public long upper() {
    return state.upper();
  }

  public String uuid() {
    return metadata.uuid();
  }

  /** What marks name the log by: see {@link CommitTable#logId}. */
  public String logId() {
    return CommitTable.logId(metadata);
  }

  /** What changes with the archive's rows, and with nothing else. */
  String archiveVersion() {
    return metadata.currentSnapshot().manifestListLocation();
  }

  /** What its records count for (docs/spec.md, 4.7). */
  public long recordBytes() {
    return exists()
        ? metadata.snapshots().stream()
            .filter(EntryParser::hasKind)
            .mapToLong(snapshot -> Limits.recordBytes(snapshot.summary()))
            .sum()
        : 0;
  }

  /** This head with one more entry, which waits to be appended together with others. */
  public Head with(Entry entry) {
    return new Head(metadata, state.with(entry));
  }

  /** The entry that follows this head and has nothing to apply. */
  public Entry entry(EntryKind kind, long commitTs, String txnId, List<Change> changes) {
    return entry(kind, commitTs, upper(), txnId, changes);
  }

  /** The one that sets the log. */
  public Entry settings(long commitTs, String txnId, LogSettings settings) {
    return entry(EntryKind.SETTINGS, commitTs, txnId, List.of()).with(settings);
  }

  /** The one that bars all tries under a caller's id that read below it. */
  public Entry abort(long commitTs, String txnId, long readTs) {
    return entry(EntryKind.ABORT, commitTs, readTs, txnId, List.of());
  }

  private Entry entry(
      EntryKind kind, long commitTs, long readTs, String txnId, List<Change> changes) {
    return new Entry(
        kind,
        commitTs,
        upper(),
        commitTs,
        state.tidiedUpto(),
        readTs,
        txnId,
        Isolation.SNAPSHOT,
        Engine.name(),
        "",
        changes,
        Entry.Payload.NONE);
  }

  /** Whether this head is a later version than another one of the same log. */
  public boolean isNewer(Head other) {
    return metadata.lastSequenceNumber() > other.metadata.lastSequenceNumber();
  }

  /**
   * Whether no swap that asserted where {@code main} of the other one stood can be won any more.
   */
  public boolean isPast(Head other) {
    return isNewer(other) && !isSameVersion(other.metadata);
  }

  /**
   * Whether another snapshot than one that was to follow a head stands in its place.
   *
   * <p>Then no version of the table has that one: its swap asserted where {@code main} stood, and
   * asked for the number that the other one has got.
   */
  public boolean hasOtherThan(Snapshot wanted, Head after) {
    return isPast(after)
        && metadata.snapshots().stream()
            .anyMatch(
                at ->
                    at.sequenceNumber() == wanted.sequenceNumber()
                        && at.snapshotId() != wanted.snapshotId());
  }

  /** Whether two heads are the same version of the commit table. */
  boolean isSameVersion(TableMetadata other) {
    return metadata.currentSnapshot().snapshotId() == other.currentSnapshot().snapshotId();
  }
}
