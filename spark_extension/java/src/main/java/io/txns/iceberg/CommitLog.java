package io.txns.iceberg;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The commit table: load its head, and replace it by the next one if nobody else did.
 *
 * <p>Threads share one object. Readers never wait for a swap: they have table operations of their
 * own.
 */
final class CommitLog {
  private static final Logger LOG = LoggerFactory.getLogger(CommitLog.class);

  private final Catalog delegate;
  private final TableIdentifier identifier;
  private final TxnClock clock;
  private final SupersededFiles superseded;
  private final Payloads payloads = new Payloads();
  private final Object readLock = new Object();
  private final Object writeLock = new Object();
  private final Map<Long, Entry> parsed = new ConcurrentHashMap<>();
  private TableOperations reader;
  private TableOperations writer;
  private volatile Head last = Head.NONE;

  /** How an attempt to replace the head ended. */
  record Swap(Outcome outcome, RuntimeException cause) {
    enum Outcome {
      WON,
      /** The catalog says no; it may still be wrong, the next head tells. */
      LOST,
      /** The catalog's answer was lost; the next head tells. */
      MAYBE
    }

    private static final Swap WON = new Swap(Outcome.WON, null);
  }

  CommitLog(Catalog delegate, TableIdentifier identifier, TxnClock clock) {
    this.delegate = delegate;
    this.identifier = identifier;
    this.clock = clock;
    this.superseded = new SupersededFiles(clock);
  }

  TableIdentifier identifier() {
    return identifier;
  }

  /**
   * Load the head past every cache; {@link Head#NONE} where there is no commit table.
   *
   * @throws TxnException CorruptLog or Unsupported for a log this program cannot read
   */
  Head loadIfExists() {
    synchronized (readLock) {
      try {
        reader = refreshed(reader);
      } catch (NoSuchTableException e) {
        reader = null;
        return Head.NONE;
      }
      TableMetadata metadata = reader.current();
      Head known = last;
      if (known.exists()
          && known.metadata().metadataFileLocation() != null
          && known.metadata().metadataFileLocation().equals(metadata.metadataFileLocation())) {
        return known;
      }
      Head loaded = new Head(metadata, state(metadata));
      last = loaded;
      return loaded;
    }
  }

  /**
   * Load the head past every cache.
   *
   * @throws TxnException 55000 where the commit table is missing
   */
  Head load() {
    Head head = loadIfExists();
    if (!head.exists()) {
      throw TxnException.invalidUsage(
          "55000",
          String.format(
              "the commit table is missing: set the catalog option txns.commit-table to the one"
                  + " that cares for the table, or restore it; commit_table=`%s`",
              identifier));
    }
    return head;
  }

  /** The commit table's uuid, which never changes. */
  String uuid() {
    Head known = last;
    return known.exists() ? known.uuid() : loadOrCreate().uuid();
  }

  /** Load the head, and create the commit table first where there is none. */
  Head loadOrCreate() {
    Head head = loadIfExists();
    if (head.exists()) {
      return head;
    }
    CommitTable.create(delegate, identifier, clock);
    return load();
  }

  /** Append entries to the head, in one compare-and-swap. */
  Swap append(Head head, List<Entry> entries) {
    return swap(head, (ops, base) -> appended(ops, base, entries));
  }

  /** Replace the head by what {@code next} makes of it, in one compare-and-swap. */
  Swap replace(Head head, Next next) {
    return swap(head, next);
  }

  /** What the commit table's metadata becomes. */
  interface Next {
    TableMetadata of(TableOperations ops, TableMetadata base);
  }

  /** Remove a file of the commit table after the grace period. */
  void supersede(String location) {
    superseded.add(io(), location);
  }

  private Swap swap(Head head, Next next) {
    synchronized (writeLock) {
      writer = refreshed(writer);
      TableMetadata base = writer.current();
      if (!head.isSameVersion(base)) {
        return new Swap(Swap.Outcome.LOST, null);
      }
      checkWritable(base);
      TableMetadata updated = next.of(writer, base);
      try {
        writer.commit(base, updated);
      } catch (CommitFailedException e) {
        return new Swap(Swap.Outcome.LOST, e);
      } catch (ForbiddenException | BadRequestException e) {
        throw e;
      } catch (RuntimeException e) {
        writer = null;
        return new Swap(Swap.Outcome.MAYBE, e);
      } catch (Error e) {
        writer = null; // it may have come after the swap: the next head tells
        return new Swap(Swap.Outcome.MAYBE, new IllegalStateException(e));
      }
      superseded.add(writer.io(), base.metadataFileLocation());
      return Swap.WON;
    }
  }

  /**
   * The requests of an entry's payload, one per change.
   *
   * @throws TxnException CorruptLog when the payload's file is not what the entry says
   */
  List<UpdateTableRequest> requests(Entry entry) {
    return payloads.read(entry, this::io);
  }

  /** Keep a payload where the specification wants it: inline, or in a file when it is large. */
  Entry.Payload storePayload(Head head, String txnId, String json) {
    if (json.getBytes(StandardCharsets.UTF_8).length <= Payloads.INLINE_MAX_BYTES) {
      return new Entry.Payload(json, null, null);
    }
    return Payloads.write(io(), head.metadata().location(), txnId, json);
  }

  FileIO io() {
    synchronized (readLock) {
      if (reader == null) {
        reader = refreshed(null);
      }
      return reader.io();
    }
  }

  /** The commit table as Iceberg's table, for the archive. */
  Table table() {
    return delegate.loadTable(identifier);
  }

  private TableOperations refreshed(TableOperations ops) {
    if (ops == null) {
      return ((HasTableOperations) delegate.loadTable(identifier)).operations();
    }
    try {
      ops.refresh();
      return ops;
    } catch (NotFoundException e) {
      LOG.debug("the head's file has been removed, loading the next one", e);
      return ((HasTableOperations) delegate.loadTable(identifier)).operations();
    }
  }

  private TableMetadata appended(TableOperations ops, TableMetadata base, List<Entry> entries) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    Snapshot parent = base.currentSnapshot();
    long sequenceNumber = base.lastSequenceNumber();
    long nowMs = clock.nowMs();
    for (Entry entry : entries) {
      Snapshot snapshot =
          SnapshotEdit.create(ops.newSnapshotId(), DataOperations.APPEND)
              .parent(parent.snapshotId())
              .sequenceNumber(++sequenceNumber)
              .timestampMs(Overlay.acceptableTimestampMs(base, entry.commitTs(), nowMs))
              .manifestList(parent.manifestListLocation())
              .schemaId(base.currentSchemaId())
              .summary(EntryParser.toSummary(entry))
              .build();
      builder.addSnapshot(snapshot);
      parent = snapshot;
    }
    SnapshotRef main = base.ref(SnapshotRef.MAIN_BRANCH);
    builder.setRef(
        SnapshotRef.MAIN_BRANCH, SnapshotRef.builderFrom(main, parent.snapshotId()).build());
    return builder.build();
  }

  private LogState state(TableMetadata metadata) {
    Map<Long, Entry> records = new HashMap<>();
    for (Snapshot snapshot : metadata.snapshots()) {
      if (hasKind(snapshot)) {
        records.put(
            snapshot.snapshotId(),
            parsed.computeIfAbsent(
                snapshot.snapshotId(), id -> EntryParser.fromSummary(snapshot.summary())));
      }
    }
    parsed.keySet().retainAll(records.keySet());
    return LogState.of(records, records.get(newestRecord(metadata).snapshotId()));
  }

  /** The newest record of {@code main}: a stranger's compaction of the archive is stepped over. */
  private static Snapshot newestRecord(TableMetadata metadata) {
    Snapshot snapshot = metadata.currentSnapshot();
    while (snapshot != null && !hasKind(snapshot)) {
      if (!DataOperations.REPLACE.equals(snapshot.operation())) {
        throw TxnException.corruptLog(
            String.format(
                "somebody wrote to the commit table; snapshot=`%d` operation=`%s`",
                snapshot.snapshotId(), snapshot.operation()));
      }
      snapshot = snapshot.parentId() == null ? null : metadata.snapshot(snapshot.parentId());
    }
    if (snapshot == null) {
      throw TxnException.corruptLog("the commit table has no record on main: " + metadata.uuid());
    }
    return snapshot;
  }

  private static void checkWritable(TableMetadata metadata) {
    List<Snapshot> records = new ArrayList<>();
    metadata.snapshots().stream().filter(CommitLog::hasKind).forEach(records::add);
    records.forEach(record -> EntryParser.checkWritable(record.summary()));
  }

  private static boolean hasKind(Snapshot snapshot) {
    return snapshot.summary() != null && snapshot.summary().containsKey(EntryParser.KIND);
  }
}
