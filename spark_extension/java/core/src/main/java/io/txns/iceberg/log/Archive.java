package io.txns.iceberg.log;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;

/** The commit table's rows: entries that have left the head, one row per entry and change. */
public final class Archive {
  private final CommitLog log;

  private volatile Dropped dropped = new Dropped(null, 0, Set.of());

  /**
   * What is known of drops in the archive.
   *
   * @param version of the archive, when it was asked
   * @param upto at and below this {@code commit_ts}, in ms, no row will be added: an entry that
   *     could not leave the head for long is archived below newer ones
   * @param names of the tables that were dropped
   */
  private record Dropped(String version, long upto, Set<TableIdentifier> names) {}

  private final NewestApplied newestApplied;

  public Archive(CommitLog log) {
    this.log = log;
    this.newestApplied = new NewestApplied(log);
  }

  /** The archived entries under an id, with {@code commit_ts} above a bound, ascending. */
  public List<Entry> under(String txnId, long sinceTs) {
    return entries(
        Expressions.and(
            Expressions.greaterThan("commit_ts", sinceTs), Expressions.equal("txn_id", txnId)));
  }

  /** The archived rows above a timestamp, ascending by {@code commit_ts}. */
  List<TransactionRow> above(long ts) {
    return rows(Expressions.greaterThan("commit_ts", ts));
  }

  /**
   * Above which timestamp, in ms, the newest archived entries lie, so many at most. Files are read
   * from the newest on, and no more than that takes.
   *
   * @param after a bound, in ms, which is given where no more entries lie above it
   */
  long boundOfNewest(int count, long after) {
    Table table = log.table();
    TreeSet<Long> newest = new TreeSet<>();
    for (Bounds bounds : boundsAbove(table, after)) {
      if (newest.size() >= count && (newest.isEmpty() || bounds.greatest() < newest.first())) {
        break;
      }
      Expression within =
          Expressions.and(
              Expressions.greaterThanOrEqual("commit_ts", Math.max(bounds.least(), after + 1)),
              Expressions.lessThanOrEqual("commit_ts", bounds.greatest()));
      ArchiveScan.read(
          table,
          within,
          List.of("commit_ts"),
          record -> {
            newest.add((Long) record.getField("commit_ts"));
            if (newest.size() > count) {
              newest.pollFirst();
            }
          });
    }
    return newest.size() < count ? after : newest.isEmpty() ? Long.MAX_VALUE : newest.first() - 1;
  }

  /** The least and the greatest {@code commit_ts} of a file's rows, in ms. */
  private record Bounds(long least, long greatest) {
    static Bounds of(ContentFile<?> file) {
      int id = CommitTable.SCHEMA.findField("commit_ts").fieldId();
      return new Bounds(
          bound(file.lowerBounds(), id, Long.MIN_VALUE),
          bound(file.upperBounds(), id, Long.MAX_VALUE));
    }

    private static long bound(Map<Integer, ByteBuffer> bounds, int id, long missing) {
      ByteBuffer bound = bounds == null ? null : bounds.get(id);
      return bound == null
          ? missing
          : Conversions.<Long>fromByteBuffer(Types.LongType.get(), bound);
    }
  }

  /** Those of the files with rows above a timestamp, the newest first. */
  private static List<Bounds> boundsAbove(Table table, long ts) {
    List<Bounds> bounds = new ArrayList<>();
    ArchiveScan.readable(
        () -> {
          try (CloseableIterable<FileScanTask> tasks =
              table
                  .newScan()
                  .filter(Expressions.greaterThan("commit_ts", ts))
                  .includeColumnStats()
                  .planFiles()) {
            tasks.forEach(task -> bounds.add(Bounds.of(task.file())));
          } catch (IOException e) {
            throw new UncheckedIOException("cannot read the commit table's files", e);
          }
          return null;
        });
    bounds.sort(Comparator.comparingLong(Bounds::greatest).reversed());
    return bounds;
  }

  /** The archived entries above one timestamp and not above another, ascending. */
  public List<Entry> between(long after, long upto) {
    return entries(
        Expressions.and(
            Expressions.greaterThan("commit_ts", after),
            Expressions.lessThanOrEqual("commit_ts", upto)));
  }

  /** How archived entries created and dropped a table, up to a timestamp, ascending. */
  List<Entry> livesOfTable(String uuid, long upto) {
    return entries(
        Expressions.and(
            Expressions.lessThanOrEqual("commit_ts", upto),
            Expressions.equal("table_uuid", uuid),
            Expressions.in("operation", Operation.CREATE.stored(), Operation.DROP.stored())));
  }

  /** The archived entries that name a table, above a timestamp, ascending; without the others. */
  List<Entry> ofTable(String uuid, long after) {
    return entries(
        Expressions.and(
            Expressions.greaterThan("commit_ts", after), Expressions.equal("table_uuid", uuid)));
  }

  private List<Entry> entries(Expression filter) {
    return entriesOf(rows(filter));
  }

  /**
   * Entries by their rows, ascending; not by their id, which may be used again after its retention.
   *
   * @throws TxnException CorruptLog for a row that holds no entry's
   */
  static List<Entry> entriesOf(List<TransactionRow> rows) {
    Map<Long, List<TransactionRow>> byTs = new LinkedHashMap<>();
    for (TransactionRow row : rows) {
      byTs.computeIfAbsent(row.commitTs(), ts -> new ArrayList<>()).add(row);
    }
    return byTs.values().stream().map(Archive::entry).toList();
  }

  /**
   * The names of all tables that have been dropped; they may have been created again since.
   *
   * @param head whose archive is asked; what an earlier call has read for good, or of the same
   *     version of the archive, is not read again
   */
  public Set<TableIdentifier> dropped(Head head) {
    Dropped known = dropped;
    String version = head.archiveVersion();
    if (version.equals(known.version())) {
      return known.names();
    }
    Expression filter =
        Expressions.and(
            Expressions.greaterThan("commit_ts", known.upto()),
            Expressions.equal("operation", Operation.DROP.stored()));
    Set<TableIdentifier> names = new HashSet<>(known.names());
    ArchiveScan.read(
        log.table(),
        filter,
        List.of("table_name"),
        record -> names.add(EntryParser.archivedName((String) record.getField("table_name"))));
    long upto = Math.max(known.upto(), head.state().archivedUpto());
    Dropped found = new Dropped(version, upto, Set.copyOf(names));
    dropped = found;
    return found.names();
  }

  /** What was applied to tables, and has left the head. */
  public NewestApplied newestApplied() {
    return newestApplied;
  }

  private List<TransactionRow> rows(Expression filter) {
    List<TransactionRow> rows = new ArrayList<>();
    ArchiveScan.read(log.table(), filter, List.of("*"), record -> rows.add(row(record)));
    rows.sort((a, b) -> Long.compare(a.commitTs(), b.commitTs()));
    return rows;
  }

  /** The rows that an entry leaves in the archive; one without a table where it changes none. */
  public static List<TransactionRow> rowsOf(Entry entry, boolean applied) {
    if (entry.changes().isEmpty()) {
      return List.of(row(entry, null, applied));
    }
    return entry.changes().stream().map(change -> row(entry, change, applied)).toList();
  }

  public static Record record(TransactionRow row) {
    GenericRecord record = GenericRecord.create(CommitTable.SCHEMA);
    record.setField("commit_ts", row.commitTs());
    record.setField(
        "committed_at",
        OffsetDateTime.ofInstant(Instant.ofEpochMilli(row.committedAt()), ZoneOffset.UTC));
    record.setField("txn_id", row.txnId());
    record.setField("kind", row.kind());
    record.setField("table_name", row.table());
    record.setField("table_uuid", row.tableUuid());
    record.setField("operation", row.operation());
    record.setField("parent_snapshot_id", row.parentSnapshotId());
    record.setField("snapshot_id", row.snapshotId());
    record.setField("added_records", row.addedRecords());
    record.setField("deleted_records", row.deletedRecords());
    record.setField("read_ts", row.readTs());
    record.setField("isolation", row.isolation());
    record.setField("engine", row.engine());
    record.setField("comment", row.comment());
    return record;
  }

  private static TransactionRow row(Entry entry, Change change, boolean applied) {
    return new TransactionRow(
        entry.commitTs(),
        Math.min(entry.commitTs(), Limits.COMMIT_TS_LE), // the last time of all where it is none
        entry.txnId(),
        entry.kind().stored(),
        change == null ? null : TableNames.text(change.table()),
        change == null ? null : change.uuid(),
        change == null ? null : change.operation().stored(),
        change == null ? null : change.fromSnapshotId(),
        change == null ? null : change.toSnapshotId(),
        change == null ? null : (Long) change.addedRecords(),
        change == null ? null : (Long) change.deletedRecords(),
        entry.readTs(),
        entry.isolation().stored(),
        entry.engine(),
        entry.comment(),
        applied);
  }

  private static TransactionRow row(Record record) {
    return new TransactionRow(
        (Long) record.getField("commit_ts"),
        ((OffsetDateTime) record.getField("committed_at")).toInstant().toEpochMilli(),
        (String) record.getField("txn_id"),
        (String) record.getField("kind"),
        (String) record.getField("table_name"),
        (String) record.getField("table_uuid"),
        (String) record.getField("operation"),
        (Long) record.getField("parent_snapshot_id"),
        (Long) record.getField("snapshot_id"),
        (Long) record.getField("added_records"),
        (Long) record.getField("deleted_records"),
        (Long) record.getField("read_ts"),
        (String) record.getField("isolation"),
        (String) record.getField("engine"),
        (String) record.getField("comment"),
        true);
  }

  private static String uuid(TransactionRow row) {
    if (row.tableUuid() == null) {
      throw TxnException.corruptLog(
          String.format(
              "the archive has a row without table_uuid; commit_ts=`%d`", row.commitTs()));
    }
    return row.tableUuid();
  }

  /** An entry out of its rows; its payload is gone, since there is nothing left to apply. */
  private static Entry entry(List<TransactionRow> rows) {
    TransactionRow first = rows.get(0);
    List<Change> changes = new ArrayList<>();
    for (TransactionRow row : rows) {
      if (row.table() != null) {
        changes.add(
            new Change(
                EntryParser.archivedName(row.table()),
                uuid(row),
                Operation.parse(row.operation()),
                row.parentSnapshotId(),
                row.snapshotId(),
                row.addedRecords() == null ? 0 : row.addedRecords(),
                row.deletedRecords() == null ? 0 : row.deletedRecords()));
      }
    }
    return new Entry(
        EntryKind.parse(first.kind()),
        first.commitTs(),
        0,
        first.commitTs(),
        0,
        first.readTs(),
        first.txnId(),
        EntryParser.isolation(first.isolation()),
        first.engine() == null ? "" : first.engine(),
        first.comment() == null ? "" : first.comment(),
        changes,
        Entry.Payload.NONE);
  }
}
