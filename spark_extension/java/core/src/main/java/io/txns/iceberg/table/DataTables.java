package io.txns.iceberg.table;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.meta.Timestamps;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.apache.iceberg.BaseMetadataTable;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Loads data tables from the delegate, and lays the log over them. */
public final class DataTables {
  /** Less than every {@code commit_ts}. */
  public static final long LESS_THAN_ALL = Long.MIN_VALUE;

  /**
   * Of a table that is there, perhaps, and cannot be read: less than every {@code commit_ts}, too.
   */
  public static final long UNKNOWN = 0;

  private final Catalog delegate;
  private final CommitLog log;
  private final TxnClock clock;
  private final Timeline timeline;
  private final CompleteTables complete;
  private final LoggedTables logged;
  private final LeavingTables leaving;

  /**
   * @param known loads tables that need not be read; gives empty where the catalog has to load one
   */
  public DataTables(
      Catalog delegate,
      CommitLog log,
      Timeline timeline,
      TxnClock clock,
      Function<TableIdentifier, Optional<Table>> known) {
    this.delegate = delegate;
    this.log = log;
    this.clock = clock;
    this.timeline = timeline;
    this.complete = new CompleteTables(delegate, timeline, clock, log::loadIfExists, known);
    this.logged = new LoggedTables(delegate, log, clock);
    this.leaving = new LeavingTables(log, timeline, clock);
  }

  /**
   * Load a table as of {@code readTs}.
   *
   * @param head loaded before; {@code readTs} is its upper or less
   * @throws NoSuchTableException where neither the catalog nor the log has it, or it is dropped
   * @throws TxnException what {@link Overlay#asOf} throws; CorruptLog for a restored backup;
   *     Unsupported for a table under another commit table's care; Quarantined for one that
   *     somebody has set back
   */
  public Loaded load(TableIdentifier identifier, Head head, long readTs) {
    return live(loadWithDropped(identifier, head, readTs), readTs);
  }

  private static Loaded live(Loaded loaded, long readTs) {
    checkComplete(loaded, readTs);
    if (loaded.dropped()) {
      throw new NoSuchTableException("Table does not exist: %s", loaded.identifier());
    }
    return loaded;
  }

  /**
   * Load a table as of {@code readTs}, or as it came under care since a transaction began.
   *
   * <p>No change of it is logged before: that is what it was at {@code readTs}, as far as anybody
   * can tell, and what has been logged since clashes. Throws what {@link #load} does.
   */
  public Loaded loadInTransaction(TableIdentifier identifier, Head head, long readTs) {
    try {
      return load(identifier, head, readTs);
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.CONFLICT
          && delegate.loadTable(identifier) instanceof BaseTable table) {
        TableMetadata metadata = table.operations().current();
        long careTs = OurSnapshots.careTs(metadata).orElse(0);
        if (careTs > readTs && leaving.forgetAbove(readTs, TableNames.uuid(metadata)).isEmpty()) {
          return load(identifier, log.load(), careTs);
        }
      }
      throw e;
    }
  }

  /**
   * The same, for a caller that wants to see a dropped table's marker.
   *
   * <p>Where a creation of the log makes the table, and the catalog says that it has one, somebody
   * has applied it since, or a replica lags: it is loaded again.
   */
  public Loaded loadWithDropped(TableIdentifier identifier, Head head, long readTs) {
    for (int waitMsMax : CommitLog.LAG_MS) {
      try {
        return loadOnce(identifier, head, readTs);
      } catch (AlreadyExistsException e) {
        clock.backOff(waitMsMax);
      }
    }
    return loadOnce(identifier, head, readTs);
  }

  private Loaded loadOnce(TableIdentifier identifier, Head head, long readTs) {
    Table table;
    Optional<Stranger> lost;
    try {
      CompleteTables.Complete loaded = complete.load(identifier, head, readTs);
      table = loaded.table();
      lost = loaded.lost();
    } catch (NoSuchTableException e) {
      if (complete.isGone(identifier, null, head, readTs)) {
        throw e; // the log has moved on from what creates it
      }
      return logged.notCreatedYet(identifier, head, readTs).orElseThrow(() -> e);
    }
    if (table instanceof BaseMetadataTable) {
      // The delegate's own, of the committed state; the caller builds it over the table's view.
      throw new NoSuchTableException("Not a data table: %s", identifier);
    }
    if (!(table instanceof BaseTable base)) {
      return new Loaded.Unregistered(identifier, table, null);
    }
    return loaded(identifier, base, head, readTs, lost);
  }

  /** See a table as {@link #seen}; throws what {@link #load} does. */
  public Loaded live(TableIdentifier identifier, BaseTable table, Head head) {
    return live(seen(identifier, table, head), head.upper());
  }

  /** A table as of the head's upper that the catalog itself has given, not a replica. */
  public Loaded seen(TableIdentifier identifier, BaseTable table, Head head) {
    TableMetadata metadata = table.operations().current();
    Optional<Stranger> lost = complete.lost(metadata, head);
    return loaded(identifier, table, head, head.upper(), lost);
  }

  private Loaded loaded(
      TableIdentifier identifier,
      BaseTable table,
      Head head,
      long readTs,
      Optional<Stranger> lost) {
    TableOperations real = table.operations();
    Optional<TableMark> mark = TableMark.of(real.current());
    if (mark.isEmpty()) {
      return logged
          .behind(identifier, real, head, readTs)
          .orElseGet(() -> withoutMark(identifier, table, head, readTs, lost));
    }
    checkMark(identifier, real.current(), mark.get(), head);
    Optional<Loaded> left = leaving.leaving(identifier, table, mark.get(), head, readTs);
    if (lost.isEmpty() && left.isPresent()) {
      return left.get();
    }
    Optional<Change> forget = leaving.forgetBeforeMark(real.current(), readTs);
    if (forget.isPresent()) {
      return leaving.before(forget.get(), identifier, table, mark.get(), readTs);
    }
    TableView view = view(identifier, real.current(), mark.get(), head, readTs, lost);
    return Loaded.of(identifier, table, real, view);
  }

  /**
   * A table with all that the log has of it, for who takes care of it or applies to it.
   *
   * @throws NoSuchTableException the catalog does not have it, nor need it
   * @throws TxnException Quarantined: somebody has set it back, with or without its mark; or
   *     dropped it ({@link #isGone})
   */
  public BaseTable whole(TableIdentifier identifier, Head head) {
    CompleteTables.Complete whole = complete.load(identifier, head, head.upper());
    whole
        .lost()
        .ifPresent(
            lost -> {
              throw TxnException.incomplete(identifier, lost.reason());
            });
    return (BaseTable) whole.table();
  }

  /** Whether the catalog lacks a table that a head creates, and that has changed since. */
  public boolean isGone(TableIdentifier identifier, Head head) {
    return complete.isGone(identifier, null, head, head.upper());
  }

  /** Whether a table whose creation stands in a head has been there. */
  public boolean wasCreated(String uuid, Head head) {
    return complete.wasCreated(uuid, head);
  }

  /** Refuses to read what was acknowledged from a table that somebody has set back. */
  private static void checkComplete(Loaded loaded, long readTs) {
    loaded
        .stranger()
        .filter(stranger -> stranger.lost() != null && stranger.lost().above() < readTs)
        .ifPresent(
            stranger -> {
              throw TxnException.incomplete(loaded.identifier(), stranger.reason());
            });
  }

  /**
   * A table as the catalog has it, while transactions are off.
   *
   * @return empty where it is not {@link #isPlain}
   */
  public Optional<Loaded> loadPlain(TableIdentifier identifier, Head head) {
    if (!head.state().off()) {
      return Optional.empty();
    }
    Table table;
    try {
      table = delegate.loadTable(identifier);
    } catch (NoSuchTableException e) {
      return Optional.empty();
    }
    if (!(table instanceof BaseTable base) || !isPlain(base.operations().current(), head)) {
      return Optional.empty();
    }
    return Optional.of(new Loaded.SwitchedOff(identifier, table, base.operations()));
  }

  /**
   * Whether a table under care is to be read and written as the catalog has it: transactions are
   * off, nothing of the log is left to apply to it, and the log has not dropped it.
   *
   * @param metadata loaded after {@code head}
   */
  public boolean isPlain(TableMetadata metadata, Head head) {
    Optional<TableMark> mark = TableMark.of(metadata);
    return head.state().off()
        && mark.isPresent()
        && mark.get().commitTable().equals(log.identifier())
        && TableMark.outstanding(metadata, head).isEmpty()
        && !TableMark.isDropped(LoggedState.of(metadata, mark.get()).snapshot());
  }

  /**
   * A table that nobody registered. Or one that was forgotten above {@code readTs}: it is read as
   * it was then. Or one whose mark a stranger took while entries of it stand in the head: it is
   * read as logged. Or one that was set back to before its registration.
   */
  private Loaded withoutMark(
      TableIdentifier identifier,
      BaseTable table,
      Head head,
      long readTs,
      Optional<Stranger> lost) {
    TableOperations real = table.operations();
    Loaded unregistered = new Loaded.Unregistered(identifier, table, real);
    if (!head.exists()) {
      return unregistered; // there is no log yet
    }
    TableMetadata metadata = real.current();
    long applied = TableMark.applied(metadata);
    TableMark taken = new TableMark(log.identifier(), head.logId(), 0, applied);
    Optional<Loaded> left = leaving.leaving(identifier, table, taken, head, readTs);
    if (lost.isEmpty() && left.isPresent()) {
      return left.get();
    }
    List<LoggedChange> run = TableMark.outstanding(metadata, head);
    if (lost.isEmpty() && run.isEmpty()) {
      Optional<Change> above =
          // A replica's, or one that was set back, does not show that it was under care once.
          Math.max(applied, head.upper()) > readTs
              ? leaving.forgetAbove(readTs, TableNames.uuid(metadata))
              : Optional.empty();
      return above
          .map(forget -> leaving.before(forget, identifier, table, taken, readTs))
          .orElse(unregistered);
    }
    if (lost.isEmpty() && !OurSnapshots.haveBeenIn(metadata)) {
      // Whoever wrote that into the log need have no right to the table: nothing of it is shown.
      TableMetadata stands = Timestamps.notAhead(metadata, clock.nowMs());
      TableView plain =
          new TableView(
              Overlay.inMemory(stands, metadata.metadataFileLocation()),
              readTs,
              Optional.of(Stranger.ofNoCare(metadata, run.get(0).commitTs())));
      return new Loaded.Registered(identifier, table, real, plain);
    }
    TableView view = view(identifier, metadata, taken, head, readTs, lost);
    boolean markedAgain = TableMark.of(view.metadata()).isPresent(); // by a repair
    if (lost.isEmpty() && !markedAgain) {
      Stranger stranger =
          new Stranger(History.mainId(metadata), List.of(), false, Stranger.MARK_TAKEN);
      view = new TableView(view.metadata(), readTs, Optional.of(stranger));
    }
    return new Loaded.Registered(identifier, table, real, view);
  }

  /** The change that first took a table from care above a timestamp; empty where none did. */
  public Optional<Change> forgetAbove(long ts, String uuid) {
    return leaving.forgetAbove(ts, uuid);
  }

  /** The view of a registered table whose metadata the caller has loaded after {@code head}. */
  private TableView view(
      TableIdentifier identifier,
      TableMetadata metadata,
      TableMark mark,
      Head head,
      long readTs,
      Optional<Stranger> lost) {
    if (lost.isPresent() && mark.applied() < readTs) {
      // Nothing of the log fits on it: it is as it stands.
      TableMetadata stands = Timestamps.notAhead(metadata, clock.nowMs());
      return new TableView(Overlay.inMemory(stands, metadata.metadataFileLocation()), readTs, lost);
    }
    long above = Math.max(mark.applied(), readTs);
    List<LoggedChange> later = head.state().changes(TableNames.uuid(metadata), above, head.upper());
    Overlay.refuseGivenUp(identifier, later, log::request, readTs);
    List<LoggedChange> run =
        head.state().changes(TableNames.uuid(metadata), mark.applied(), readTs);
    TableView view =
        Overlay.asOf(identifier, metadata, mark, run, log::request, readTs, clock.nowMs());
    return lost.isPresent() ? new TableView(view.metadata(), readTs, lost) : view;
  }

  /**
   * {@code txns.applied} of a table, in ms, as the catalog has it now; {@link #LESS_THAN_ALL} where
   * the catalog does not have the table of that uuid.
   */
  public long appliedTs(TableIdentifier identifier, String uuid) {
    return asItStands(identifier)
        .filter(metadata -> TableNames.uuid(metadata).equals(uuid))
        .map(TableMark::applied)
        .orElse(LESS_THAN_ALL);
  }

  /** A table as the catalog has it now; empty where it has none. */
  public Optional<TableMetadata> asItStands(TableIdentifier identifier) {
    try {
      Table table = LocalPermissions.load(delegate, identifier);
      return Optional.of(((BaseTable) table).operations().current());
    } catch (NoSuchTableException e) {
      return Optional.empty();
    }
  }

  /**
   * Whether the table of that uuid shows what was logged at a {@code commit_ts}, in ms. A replica
   * that lags says less, and is asked again for about a second.
   */
  public boolean shows(TableIdentifier identifier, String uuid, long ts) {
    for (int waitMsMax : CommitLog.LAG_MS) {
      if (appliedTs(identifier, uuid) >= ts) {
        return true;
      }
      clock.backOff(waitMsMax);
    }
    return appliedTs(identifier, uuid) >= ts;
  }

  /** Operations that create a table which the catalog does not have. */
  public TableOperations operationsToCreate(TableIdentifier identifier, TableMetadata metadata) {
    return logged.operationsToCreate(identifier, metadata);
  }

  /**
   * Check that a table's mark is of this log, and that the log has what the table shows.
   *
   * @throws TxnException CorruptLog where the log was lost, or set back, or recovered without the
   *     table; Unsupported where another commit table cares for it
   */
  public void checkMark(
      TableIdentifier identifier, TableMetadata metadata, TableMark mark, Head head) {
    if (!mark.commitTable().equals(log.identifier())) {
      throw TxnException.unsupported(
          String.format(
              "the table is under the care of another commit table: use a catalog with"
                  + " txns.commit-table=%s; table=`%s`",
              mark.commitTable(), identifier));
    }
    boolean known = head.exists() && mark.applied() <= head.upper();
    Head newer = known ? head : log.loadAtLeast(mark.applied());
    if (newer.logId().equals(mark.logId()) && hasShown(metadata, mark, newer)) {
      return;
    }
    throw TxnException.corruptLog(
        String.format(
            "the log lacks what the table shows: one of the two was restored from a backup, or the"
                + " log was lost; stop what writes the lake, and run `txns recover`; table=`%s`"
                + " applied=`%d` upper=`%d` commit_table=`%s` log_id=`%s` marked=`%s`",
            identifier,
            mark.applied(),
            newer.upper(),
            log.identifier(),
            newer.logId(),
            mark.logId()));
  }

  /** Whether the log has the newest change that a table shows, which tells of all before. */
  public boolean hasShown(TableMetadata metadata, TableMark mark, Head head) {
    if (mark.applied() > head.upper()) {
      return false;
    }
    Snapshot shown = LoggedState.shownBy(metadata, mark);
    return shown == null
        || timeline.has(head, TableNames.uuid(metadata), mark.applied(), OurSnapshots.txnId(shown));
  }
}
