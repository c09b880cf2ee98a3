package io.txns.iceberg.log;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogSettings;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.LockedRows;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * The newest state of the commit table that was loaded, and what follows from it.
 *
 * @param metadata the commit table's metadata; null where there is no commit table
 * @param state what it says
 * @param sizes what each record counts for (docs/spec.md, 4.7), by its snapshot: a record does not
 *     change, so it is counted once, and not for each head that has it
 * @param rows those of its table, and of others, that stand still and move with the next one; null
 *     where none do
 */
public record Head(TableMetadata metadata, LogState state, Map<Long, Long> sizes, LockedRows rows) {
  static final Head NONE = new Head(null, LogState.empty(), Map.of(), null);

  /** A record, and what it counts for. */
  record Counted(Entry entry, Long size) {
    private static Counted of(Snapshot snapshot) {
      return new Counted(record(snapshot), Limits.recordBytes(snapshot.summary()));
    }
  }

  /**
   * The head that a version of the commit table is.
   *
   * @param known records that have been read before, by the ids of their snapshots: they are not
   *     read again; becomes those of this version
   * @throws TxnException CorruptLog or Unsupported for a log this program cannot read
   */
  static Head of(TableMetadata metadata, Map<Long, Counted> known) {
    Map<Long, Entry> records = new HashMap<>();
    Map<Long, Long> sizes = new HashMap<>();
    for (Snapshot snapshot : metadata.snapshots()) {
      if (EntryParser.hasKind(snapshot)) {
        long id = snapshot.snapshotId();
        Counted counted = known.computeIfAbsent(id, unread -> Counted.of(snapshot));
        records.put(id, counted.entry());
        sizes.put(id, counted.size());
      }
    }
    known.keySet().retainAll(records.keySet());
    Entry newest = records.get(newestRecord(metadata).snapshotId());
    return new Head(metadata, LogState.of(records, newest), Map.copyOf(sizes), null);
  }

  public boolean exists() {
    return metadata != null;
  }

  public long upper() {
    return state.upper();
  }

  public String uuid() {
    return TableNames.uuid(metadata);
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
    return sizes.values().stream().mapToLong(Long::longValue).sum();
  }

  /** The same of an entry that stands in it. */
  public long recordBytes(Entry entry) {
    return sizes.get(state.snapshotId(entry));
  }

  /** This head with one more entry, which waits to be appended together with others. */
  public Head with(Entry entry) {
    return new Head(metadata, state.with(entry), sizes, rows);
  }

  /** This head while its table, and others, stand still. */
  Head in(LockedRows locked) {
    return new Head(metadata, state, sizes, locked);
  }

  /** Say that work goes on, where others wait for the rows of it. */
  public void atWork() {
    if (rows != null) {
      rows.atWork();
    }
  }

  /** This head as one may keep it: rows stand still for one attempt. */
  public Head withoutRows() {
    return rows == null ? this : in(null);
  }

  /** The entry that follows this head and has nothing to apply. */
  public Entry entry(EntryKind kind, long commitTs, String txnId, List<Change> changes) {
    return entry(kind, commitTs, upper(), txnId, changes, null);
  }

  /** The one that sets the log. */
  public Entry settings(long commitTs, String txnId, LogSettings settings) {
    return entry(EntryKind.SETTINGS, commitTs, upper(), txnId, List.of(), settings);
  }

  /** The one that bars all tries under a caller's id that read below it. */
  public Entry abort(long commitTs, String txnId, long readTs) {
    return entry(EntryKind.ABORT, commitTs, readTs, txnId, List.of(), null);
  }

  private Entry entry(
      EntryKind kind,
      long commitTs,
      long readTs,
      String txnId,
      List<Change> changes,
      LogSettings settings) {
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
        Entry.Payload.NONE,
        settings);
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

  /**
   * Check that this program may write the log.
   *
   * @param metadata a version of the commit table
   * @throws TxnException Unsupported: it asks for a writer feature that this program does not know,
   *     or its table has a property that no commit table has
   */
  static void checkWritable(TableMetadata metadata) {
    Permitted.refuseSteered(metadata.properties());
    metadata.snapshots().stream()
        .filter(EntryParser::hasKind)
        .forEach(
            record ->
                naming(
                    record,
                    () -> {
                      EntryParser.checkWritable(record.summary());
                      return record;
                    }));
  }

  /** The record that a snapshot is; one that cannot be read is named with what goes on without. */
  static Entry record(Snapshot snapshot) {
    return naming(snapshot, () -> EntryParser.fromSummary(snapshot.summary()));
  }

  /** Of what it asks for, too: somebody may have forged it. */
  private static <T> T naming(Snapshot snapshot, Supplier<T> read) {
    try {
      return read.get();
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.UNSUPPORTED) {
        throw TxnException.unsupported(
            String.format("%s snapshot=`%d`", e.getMessage(), snapshot.snapshotId()));
      }
      if (e.kind() != ErrorKind.CORRUPT_LOG) {
        throw e;
      }
      throw TxnException.corruptLog(
          String.format(
              "%s; `txns recover --void %d` goes on without that record",
              e.getMessage(), snapshot.snapshotId()));
    }
  }

  /** The newest record of {@code main}: a stranger's compaction of the archive is stepped over. */
  static Snapshot newestRecord(TableMetadata metadata) {
    if (metadata.snapshots().stream().noneMatch(EntryParser::hasKind)) {
      throw TxnException.corruptLog(
          String.format(
              "the table has no record, so it is no commit table, or no more: look at the option"
                  + " txns.commit-table, and who has written the table; nothing of it is a log's;"
                  + " uuid=`%s` location=`%s`",
              TableNames.uuid(metadata), metadata.location()));
    }
    History.Walk walk = History.walk(metadata);
    Snapshot snapshot = metadata.currentSnapshot();
    while (snapshot != null && !EntryParser.hasKind(snapshot)) {
      if (!DataOperations.REPLACE.equals(snapshot.operation())) {
        throw TxnException.corruptLog(
            String.format(
                "somebody wrote to the commit table; snapshot=`%d` operation=`%s`",
                snapshot.snapshotId(), snapshot.operation()));
      }
      snapshot = walk.parent(snapshot);
    }
    if (snapshot == null) {
      throw TxnException.corruptLog(
          "the commit table has no record on main: " + TableNames.uuid(metadata));
    }
    return snapshot;
  }
}
