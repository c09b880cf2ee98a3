package io.txns.iceberg.log;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.meta.Cleaning;
import io.txns.iceberg.meta.DatabaseAnswer;
import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.MetadataFiles;
import io.txns.iceberg.meta.Refusal;
import io.txns.iceberg.meta.RowsBusyException;
import io.txns.iceberg.meta.Timestamps;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * The commit table: load its head, and replace it by the next one if nobody else did.
 *
 * <p>Threads share one object. Readers never wait for a swap: they have table operations of their
 * own.
 */
public final class CommitLog {
  private static final TxnLogger LOG = TxnLogger.of(CommitLog.class);

  /** How often the head is loaded until it is as new as one that was seen. */
  private static final int LOADS = 3;

  /** How long at most a replica that lags is waited for, each time, in ms. */
  public static final int[] LAG_MS = {5, 50, 500, 500};

  private static final long BACK_OFF_MAX_MS = 5;

  private static final String IS_OLDER = "gives an older head than it gave before";

  private final Catalog delegate;
  private final TableIdentifier identifier;
  private final Function<TableIdentifier, Optional<Table>> known;
  private final TxnClock clock;
  private final SupersededFiles superseded;
  private final Payloads payloads = new Payloads();
  private final Object readLock = new Object();
  private final Object writeLock = new Object();
  private final Map<Long, Head.Counted> parsed = new ConcurrentHashMap<>();
  private TableOperations reader;
  private TableOperations writer;
  private volatile Head last = Head.NONE;

  public CommitLog(Catalog delegate, TableIdentifier identifier, TxnClock clock) {
    this(delegate, identifier, clock, List::of, table -> Optional.empty());
  }

  /**
   * @param allowedPlaces folders below which the commit table may stand, beside its catalog's own
   *     place for its name: elsewhere nothing is removed
   * @param known loads tables that need not be read; gives empty where the catalog has to load one
   */
  public CommitLog(
      Catalog delegate,
      TableIdentifier identifier,
      TxnClock clock,
      Supplier<List<String>> allowedPlaces,
      Function<TableIdentifier, Optional<Table>> known) {
    this.delegate = delegate;
    this.known = known;
    this.identifier = identifier;
    this.clock = clock;
    OwnPlace place =
        new OwnPlace(delegate, identifier, clock, allowedPlaces, () -> newest().uuid());
    this.superseded = new SupersededFiles(clock, place::has);
  }

  public TableIdentifier identifier() {
    return identifier;
  }

  /**
   * Load the head past every cache; {@link Head#NONE} where there is no commit table.
   *
   * <p>Never older than one that this log has given or made: a catalog that answers from an older
   * state, a replica or a cache, is asked again, and then what was seen stands.
   *
   * @throws TxnException CorruptLog or Unsupported for a log this program cannot read; 55000 where
   *     another commit table stands under the name
   */
  public Head loadIfExists() {
    synchronized (readLock) {
      for (int loads = 0; loads < LOADS; loads++) {
        try {
          reader = refreshed(reader);
        } catch (NoSuchTableException e) {
          reader = null;
          return Head.NONE;
        }
        TableMetadata metadata = reader.current();
        if (!isOlder(metadata, last)) {
          return remember(metadata);
        }
        reader = null; // what it is cached in may be what is old
        clock.backOff(BACK_OFF_MAX_MS);
      }
      LOG.warn("the catalog {}; the newest one stands", IS_OLDER);
      return last;
    }
  }

  private boolean isOlder(TableMetadata metadata, Head seen) {
    if (!seen.exists()) {
      return false;
    }
    boolean older = metadata.lastSequenceNumber() < seen.metadata().lastSequenceNumber();
    String found = CommitTable.logId(metadata);
    if (found.equals(seen.logId()) || (TableNames.uuid(metadata).equals(seen.uuid()) && older)) {
      return older;
    }
    throw TxnException.invalidUsage(
        "55000",
        String.format(
            "another commit table stands where one was when this catalog was opened, or it has been"
                + " recovered since, and may not hold what was committed there: restore the old"
                + " one, or open the catalog again (in Spark: in a new session) and run the"
                + " transaction again; commit_table=`%s` log_id=`%s` expected=`%s`",
            identifier, found, seen.logId()));
  }

  /** The head that a version of the commit table is; the newest one is kept. */
  private Head remember(TableMetadata metadata) {
    synchronized (parsed) {
      Head known = last;
      if (known.exists()
          && known.metadata().metadataFileLocation() != null
          && known.metadata().metadataFileLocation().equals(metadata.metadataFileLocation())) {
        return known;
      }
      Head head = Head.of(metadata, parsed);
      if (!isOlder(metadata, known)) {
        last = head;
      }
      return last;
    }
  }

  /** The newest head that this log has given, made or been told of. */
  public Head newest() {
    return last;
  }

  /** Another session's log has given or made this head: what is loaded later is not older. */
  public void saw(Head head) {
    synchronized (parsed) {
      if (head.exists() && !isOlder(head.metadata(), last)) {
        last = head.withoutRows();
      }
    }
  }

  /**
   * Load the head past every cache.
   *
   * @throws TxnException 55000 where the commit table is missing
   */
  public Head load() {
    Head head = loadIfExists();
    if (!head.exists()) {
      throw missing();
    }
    return head;
  }

  /**
   * Load the head of rows that stand still: the one that nobody can replace meanwhile.
   *
   * <p>Where a newer one has been seen, the lock was lost, and the tables among the rows are as
   * old: beside the newer head they would have been set back.
   *
   * @throws RowsBusyException the rows are not locked any more, or the catalog was set back
   * @throws TxnException as of {@link #loadIfExists}; 55000 where the commit table is missing
   */
  public Head load(LockedRows rows) {
    TableMetadata metadata;
    try {
      metadata = rows.operations(identifier).current();
    } catch (NotFoundException e) {
      throw gone(e);
    }
    if (metadata == null) {
      throw missing();
    }
    Head head = remember(metadata);
    if (!head.isSameVersion(metadata)) {
      throw new RowsBusyException(null, "the catalog %s", IS_OLDER);
    }
    return head.in(rows);
  }

  private TxnException missing() {
    return TxnException.invalidUsage(
        "55000",
        String.format(
            "the commit table is missing: set the catalog option txns.commit-table to the one"
                + " that cares for the table, or run `txns recover`, which restores it;"
                + " commit_table=`%s`",
            identifier));
  }

  /**
   * Load a head whose upper is at a timestamp in ms or above, or the newest that there is: a
   * replica that lags behind says less, and is asked again for about half a second.
   *
   * @throws TxnException 55000 where the commit table is missing
   */
  public Head loadAtLeast(long ts) {
    Head head = load();
    for (int waitMsMax : LAG_MS) {
      if (head.upper() >= ts) {
        break;
      }
      clock.backOff(waitMsMax);
      head = load();
    }
    return head;
  }

  /**
   * Load the head; {@link Head#NONE} where there has never been a commit table.
   *
   * @throws TxnException 55000 where there was one
   */
  public Head loadIfEver() {
    Head head = loadIfExists();
    return head.exists() || !last.exists() ? head : load();
  }

  /** The commit table's uuid, which never changes. */
  public String uuid() {
    Head known = last;
    return known.exists() ? known.uuid() : load().uuid();
  }

  /**
   * Load the head; create the commit table first where none has been seen.
   *
   * @throws TxnException 55000 where there was one
   */
  public Head loadOrCreate() {
    Head head = loadIfEver();
    if (head.exists()) {
      return head;
    }
    CommitTable.create(delegate, identifier, clock);
    return load();
  }

  /**
   * Append entries to the head, in one compare-and-swap.
   *
   * @throws RuntimeException nothing has been sent
   */
  public Swap append(Head head, List<Entry> entries) {
    return swap(head, (ops, base) -> CommitTable.appended(ops, base, entries));
  }

  /**
   * Replace the head by what {@code next} makes of it, in one compare-and-swap.
   *
   * @throws RuntimeException nothing has been sent
   */
  public Swap replace(Head head, Next next) {
    return swap(head, next);
  }

  /** What the commit table's metadata becomes. */
  public interface Next {
    TableMetadata of(TableOperations ops, TableMetadata base);
  }

  /** Remove a file of the commit table that no kept version names, after the grace period. */
  public void supersede(String location) {
    Cleaning.of(location, () -> superseded.add(io(), location));
  }

  private Swap swap(Head head, Next next) {
    if (head.rows() != null) {
      return swap(head, head.rows(), next);
    }
    synchronized (writeLock) {
      writer = refreshed(writer);
      TableMetadata base = writer.current();
      if (!head.isSameVersion(base)) {
        return Swap.NOT_SENT;
      }
      Head.checkWritable(base);
      TableMetadata updated = next.of(writer, Timestamps.notAhead(base, clock.nowMs()));
      try {
        Timestamps.commitFollowing(writer, base, updated);
      } catch (CommitFailedException e) {
        return new Swap(Swap.Outcome.LOST, e);
      } catch (RuntimeException e) {
        writer = null;
        if (MetadataFiles.isUnwritten(e)) {
          if (Refusal.is(e) || MetadataFiles.isDenied(e)) {
            throw e;
          }
          return new Swap(Swap.Outcome.NOT_SENT, e);
        }
        DatabaseAnswer.refuseDenied(e);
        if (DatabaseAnswer.isFull(e)) {
          return new Swap(Swap.Outcome.NOT_SENT, e);
        }
        return new Swap(Refusal.is(e) ? Swap.Outcome.REFUSED : Swap.Outcome.MAYBE, e);
      } catch (Throwable e) {
        writer = null; // it may have come after the swap: the next head tells
        return new Swap(Swap.Outcome.MAYBE, new IllegalStateException(e));
      }
      made(writer.io(), head, base, updated);
      return Swap.WON;
    }
  }

  /** Replaces the head together with what was said of other rows: nothing lands before. */
  private Swap swap(Head head, LockedRows rows, Next next) {
    TableOperations ops = rows.operations(identifier);
    TableMetadata base = ops.current();
    if (!head.isSameVersion(base)) {
      return Swap.NOT_SENT;
    }
    Head.checkWritable(base);
    TableMetadata updated = next.of(ops, Timestamps.notAhead(base, clock.nowMs()));
    try {
      Timestamps.commitFollowing(ops, base, updated);
      rows.prepare();
    } catch (CommitFailedException e) {
      return new Swap(Swap.Outcome.LOST, e);
    } catch (RuntimeException e) {
      if (Refusal.is(e) || MetadataFiles.isDenied(e)) {
        throw e;
      }
      return new Swap(Swap.Outcome.NOT_SENT, e);
    }
    try {
      rows.commit();
    } catch (RowsBusyException e) {
      rows.refused();
      return new Swap(Swap.Outcome.LOST, e);
    } catch (RuntimeException e) {
      if (e instanceof ForbiddenException) {
        rows.refused();
        throw e;
      }
      if (DatabaseAnswer.isFull(e)) {
        rows.refused();
        return new Swap(Swap.Outcome.NOT_SENT, e);
      }
      return new Swap(Swap.Outcome.MAYBE, e);
    } catch (Throwable e) { // it may have come after the commit: the next head tells
      return new Swap(Swap.Outcome.MAYBE, new IllegalStateException(e));
    }
    made(ops.io(), head, base, rows.made(identifier));
    return Swap.WON;
  }

  /** What a swap has made: what is loaded later is not older. It is won, whatever happens here. */
  private void made(FileIO io, Head head, TableMetadata base, TableMetadata updated) {
    try {
      remember(updated);
      long upper = Head.record(Head.newestRecord(updated)).upper();
      boolean isKept = SupersededFiles.endsMinute(head.upper(), upper);
      superseded.add(io, isKept ? null : base.metadataFileLocation());
    } catch (Throwable e) {
      LOG.warn("the log was written, and cannot be read", e);
    }
  }

  /**
   * The request that carries a logged change out. A mark that it sets names this log as it is now:
   * a recovery may have begun a new epoch since it was logged.
   *
   * @throws TxnException CorruptLog when the payload is not what its entry says, or has what no
   *     writer of the protocol logs
   */
  public UpdateTableRequest request(LoggedChange logged) {
    List<Change> changes = logged.entry().carried();
    List<UpdateTableRequest> requests = payloads.read(logged.entry(), this::io, this::location);
    if (changes.size() != requests.size()) {
      throw TxnException.corruptLog(
          "an entry's payload does not have one request per change: " + logged.entry().txnId());
    }
    UpdateTableRequest request = requests.get(changes.indexOf(logged.change()));
    Permitted.refuseForbidden(logged, request, identifier);
    return UpdateTableRequest.create(
        request.identifier(),
        request.requirements(),
        request.updates().stream()
            .map(one -> CommitTable.inEpoch(one, () -> CommitTable.logId(read().current())))
            .toList());
  }

  public FileIO io() {
    return read().io();
  }

  /** An id that nothing of the commit table has, for the name of a file. */
  long newId() {
    return read().newSnapshotId();
  }

  private String location() {
    return read().current().location();
  }

  private TableOperations read() {
    synchronized (readLock) {
      if (reader == null) {
        reader = refreshed(null);
      }
      return reader;
    }
  }

  /** The commit table as Iceberg's table, for the archive; never older than a head before. */
  Table table() {
    return new BaseTable(new StaticTableOperations(load().metadata(), io()), identifier.name());
  }

  private TableOperations refreshed(TableOperations ops) {
    try {
      Optional<Table> table = known.apply(identifier);
      if (table.isPresent() || ops == null) {
        return table.map(CommitLog::operations).orElseGet(this::loadedAnew);
      }
      ops.refresh();
      return ops;
    } catch (NotFoundException | IllegalStateException e) {
      LOG.debug("the head's file has been removed, or the table replaced: loading it anew", e);
      return loadedAnew();
    }
  }

  private TableOperations loadedAnew() {
    try {
      return operations(LocalPermissions.load(delegate, identifier));
    } catch (NotFoundException e) {
      throw gone(e);
    }
  }

  private static TableOperations operations(Table table) {
    return ((HasTableOperations) table).operations();
  }

  private NotFoundException gone(NotFoundException e) {
    return new NotFoundException(
        e,
        "the metadata file that the catalog names for the commit table is gone: stop what writes"
            + " the lake, and run `txns recover`; commit_table=`%s`; %s",
        TableNames.text(identifier),
        e.getMessage());
  }
}
