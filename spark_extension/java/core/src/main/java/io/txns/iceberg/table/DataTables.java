package io.txns.iceberg.table;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Archive;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.Timestamps;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.BaseMetadataTable;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** Loads data tables from the delegate, and lays the log over them. */
public final class DataTables {
  private final Catalog delegate;
  private final CommitLog log;
  private final Archive archive;
  private final TxnClock clock;
  private final CompleteTables complete;

  /**
   * A data table as the delegate has it and as the protocol sees it.
   *
   * @param table the delegate's table; null for one that is logged and not created yet
   * @param real its operations
   * @param mark empty for a table that is not under care
   * @param view as of a timestamp; null for a table that is not under care, unless it is {@link
   *     #forgotten()}, and for one that is {@link #plain()}
   */
  public record Loaded(
      TableIdentifier identifier,
      Table table,
      TableOperations real,
      Optional<TableMark> mark,
      TableView view) {
    public boolean registered() {
      return mark.isPresent();
    }

    /** Whether it is read and written as the catalog has it, because transactions are off. */
    public boolean plain() {
      return mark.isPresent() && view == null;
    }

    /** The uuid of a table under care, in the catalog already or not. */
    public String uuid() {
      return plain() ? real.current().uuid() : view.metadata().uuid();
    }

    /** Whether the log has taken it from care, and the table itself does not say so yet. */
    public boolean forgotten() {
      return mark.isEmpty() && view != null;
    }
  }

  public DataTables(Catalog delegate, CommitLog log, Archive archive, TxnClock clock) {
    this.delegate = delegate;
    this.log = log;
    this.archive = archive;
    this.clock = clock;
    this.complete = new CompleteTables(delegate, archive, clock);
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
    Loaded loaded = loadWithDropped(identifier, head, readTs);
    checkComplete(loaded, readTs);
    if (loaded.registered() && loaded.view().dropped()) {
      throw new NoSuchTableException("Table does not exist: %s", identifier);
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
        long careTs = LoggedState.careTs(metadata).orElse(0);
        if (careTs > readTs && forgetAbove(readTs, metadata.uuid()).isEmpty()) {
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
      return notCreatedYet(identifier, head, readTs).orElseThrow(() -> e);
    }
    if (table instanceof BaseMetadataTable) {
      // The delegate's own, of the committed state; the caller builds it over the table's view.
      throw new NoSuchTableException("Not a data table: %s", identifier);
    }
    if (!(table instanceof BaseTable base)) {
      return new Loaded(identifier, table, null, Optional.empty(), null);
    }
    return loaded(identifier, base, head, readTs, lost);
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
      Optional<TableMetadata> hidden =
          logged(identifier, head, readTs)
              .filter(metadata -> !metadata.uuid().equals(real.current().uuid()));
      return hidden.isPresent()
          ? behind(identifier, hidden.get(), real, readTs)
          : withoutMark(identifier, table, real, head, readTs, lost);
    }
    checkMark(identifier, mark.get(), head);
    Optional<Loaded> leaving = leaving(identifier, table, mark.get(), head, readTs);
    if (lost.isEmpty() && leaving.isPresent()) {
      return leaving.get();
    }
    Optional<Change> forget = forgetBeforeMark(real.current(), readTs);
    if (forget.isPresent()) {
      TableView left =
          Overlay.beforeForget(
              identifier, real.current(), mark.get(), forget.get(), readTs, clock.nowMs());
      return new Loaded(identifier, table, real, mark, left);
    }
    TableView view = view(identifier, real.current(), mark.get(), head, readTs, lost);
    return new Loaded(identifier, table, real, TableMark.of(view.metadata()), view);
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

  /** Whether a table has been there, by the first of its changes that stand in a head. */
  public boolean wasCreated(LoggedChange first, Head head) {
    return complete.wasCreated(first, head);
  }

  /** Refuses to read what was acknowledged from a table that somebody has set back. */
  private static void checkComplete(Loaded loaded, long readTs) {
    Optional.ofNullable(loaded.view())
        .flatMap(TableView::stranger)
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
    TableOperations real = base.operations();
    return Optional.of(new Loaded(identifier, table, real, TableMark.of(real.current()), null));
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
        && head.state().changes(metadata.uuid(), mark.get().applied(), head.upper()).isEmpty()
        && !TableMark.isDropped(LoggedState.of(metadata, mark.get()).snapshot());
  }

  /**
   * A table that nobody registered. Or one that was forgotten above {@code readTs}: it is read as
   * it was then. Or one whose mark a stranger took while entries of it stand in the head: it is
   * read as logged. Or one that was set back to before its registration.
   */
  private Loaded withoutMark(
      TableIdentifier identifier,
      Table table,
      TableOperations real,
      Head head,
      long readTs,
      Optional<Stranger> lost) {
    if (!head.exists()) {
      return new Loaded(identifier, table, real, Optional.empty(), null); // there is no log yet
    }
    TableMetadata metadata = real.current();
    long applied = TableMark.applied(metadata);
    TableMark taken = new TableMark(log.identifier(), head.uuid(), 0, applied);
    Optional<Loaded> leaving = leaving(identifier, table, taken, head, readTs);
    if (lost.isEmpty() && leaving.isPresent()) {
      return leaving.get();
    }
    if (lost.isEmpty() && head.state().changes(metadata.uuid(), applied, head.upper()).isEmpty()) {
      Optional<Change> above =
          applied > readTs ? forgetAbove(readTs, metadata.uuid()) : Optional.empty();
      return above
          .map(
              forget ->
                  Overlay.beforeForget(identifier, metadata, taken, forget, readTs, clock.nowMs()))
          .map(view -> new Loaded(identifier, table, real, Optional.of(taken), view))
          .orElseGet(() -> new Loaded(identifier, table, real, Optional.empty(), null));
    }
    TableView view = view(identifier, metadata, taken, head, readTs, lost);
    if (lost.isPresent()
        || TableMark.of(view.metadata()).isPresent()) { // or a repair has put the mark back
      return new Loaded(identifier, table, real, Optional.of(taken), view);
    }
    Stranger stranger =
        new Stranger(
            LoggedState.mainId(metadata),
            List.of(),
            false,
            "somebody took the protocol's mark from the table");
    return new Loaded(
        identifier,
        table,
        real,
        Optional.of(taken),
        new TableView(view.metadata(), readTs, Optional.of(stranger)));
  }

  /** A table whose forget is all that is to be applied to it: it is its owner's since. */
  private Optional<Loaded> leaving(
      TableIdentifier identifier, Table table, TableMark mark, Head head, long readTs) {
    TableOperations real = ((BaseTable) table).operations();
    TableMetadata metadata = real.current();
    List<LoggedChange> run = head.state().changes(metadata.uuid(), mark.applied(), head.upper());
    if (run.isEmpty() || run.get(0).entry().kind() != EntryKind.FORGET || readTs < mark.applied()) {
      return Optional.empty();
    }
    LoggedChange forget = run.get(0);
    if (readTs < forget.commitTs()) {
      TableView view =
          Overlay.beforeForget(identifier, metadata, mark, forget.change(), readTs, clock.nowMs());
      return Optional.of(new Loaded(identifier, table, real, Optional.of(mark), view));
    }
    TableMetadata seen = Timestamps.notAhead(metadata, clock.nowMs());
    TableMetadata left =
        Overlay.inMemory(
            TableMark.leaving(seen, forget.commitTs()).build(), metadata.metadataFileLocation());
    TableView view = new TableView(left, readTs, Optional.empty());
    return Optional.of(new Loaded(identifier, table, real, Optional.empty(), view));
  }

  /** The change that took a table from care above a timestamp, where a mark followed it. */
  private Optional<Change> forgetBeforeMark(TableMetadata metadata, long ts) {
    long applied = TableMark.applied(metadata);
    return applied > ts && LoggedState.markedAbove(metadata, ts)
        ? forgetAbove(ts, metadata.uuid())
        : Optional.empty();
  }

  /** The change that first took a table from care above a timestamp; empty where none did. */
  public Optional<Change> forgetAbove(long ts, String uuid) {
    Head newest = log.loadIfExists();
    List<Entry> entries = new ArrayList<>(newest.state().after(ts));
    if (newest.state().tidiedUpto() > ts) {
      entries.addAll(archive.between(ts, newest.state().tidiedUpto()));
    }
    return entries.stream()
        .filter(entry -> entry.kind() == EntryKind.FORGET)
        .sorted(Comparator.comparingLong(Entry::commitTs))
        .flatMap(entry -> entry.changes().stream())
        .filter(change -> change.uuid().equals(uuid))
        .findFirst();
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
    List<LoggedChange> later = head.state().changes(metadata.uuid(), above, head.upper());
    Overlay.refuseGivenUp(identifier, later, this::request, readTs);
    List<LoggedChange> run = head.state().changes(metadata.uuid(), mark.applied(), readTs);
    TableView view =
        Overlay.asOf(identifier, metadata, mark, run, this::request, readTs, clock.nowMs());
    return lost.isPresent() ? new TableView(view.metadata(), readTs, lost) : view;
  }

  /**
   * {@code txns.applied} of a table, in ms, as the catalog has it now; less than every {@code
   * commit_ts} where the catalog does not have the table of that uuid.
   */
  public long appliedTs(TableIdentifier identifier, String uuid) {
    try {
      TableMetadata metadata = ((BaseTable) delegate.loadTable(identifier)).operations().current();
      return metadata.uuid().equals(uuid) ? TableMark.applied(metadata) : Long.MIN_VALUE;
    } catch (NoSuchTableException e) {
      return Long.MIN_VALUE;
    }
  }

  /** The request that carries a logged change out. */
  public UpdateTableRequest request(LoggedChange logged) {
    List<Change> changes = logged.entry().changes();
    List<UpdateTableRequest> requests = log.requests(logged.entry());
    if (changes.size() != requests.size()) {
      throw TxnException.corruptLog(
          "an entry's payload does not have one request per change: " + logged.entry().txnId());
    }
    return requests.get(changes.indexOf(logged.change()));
  }

  /**
   * Operations of a table that the catalog does not have, to create it with {@code commit(null,
   * ...)}: the catalog's own atomic create.
   */
  public TableOperations operationsToCreate(TableIdentifier identifier, TableMetadata metadata) {
    BaseTransaction transaction =
        (BaseTransaction)
            delegate
                .buildTable(identifier, metadata.schema())
                .withPartitionSpec(metadata.spec())
                .withSortOrder(metadata.sortOrder())
                .withLocation(metadata.location())
                .withProperties(metadata.properties())
                .withProperty(
                    TableProperties.FORMAT_VERSION, Integer.toString(metadata.formatVersion()))
                .createTransaction();
    return transaction.underlyingOps();
  }

  /** A table that the log has created, and whose name a stranger took before it was applied. */
  private static Loaded behind(
      TableIdentifier identifier, TableMetadata metadata, TableOperations real, long readTs) {
    Stranger stranger = Stranger.ofTakenName(real.current());
    TableView view = new TableView(Overlay.inMemory(metadata, null), readTs, Optional.of(stranger));
    return new Loaded(identifier, null, real, TableMark.of(metadata), view);
  }

  private Optional<Loaded> notCreatedYet(TableIdentifier identifier, Head head, long readTs) {
    return logged(identifier, head, readTs)
        .map(
            metadata ->
                new Loaded(
                    identifier,
                    null,
                    operationsToCreate(identifier, metadata),
                    TableMark.of(metadata),
                    new TableView(Overlay.inMemory(metadata, null), readTs, Optional.empty())));
  }

  /** A table as the log alone makes it: its creation, and what came after. */
  private Optional<TableMetadata> logged(TableIdentifier identifier, Head head, long readTs) {
    Optional<LoggedChange> creation = head.state().creation(identifier, readTs);
    if (creation.isEmpty()) {
      return Optional.empty();
    }
    List<LoggedChange> run = head.state().changes(creation.get().change().uuid(), 0, readTs);
    UpdateTableRequest first = request(run.get(0));
    if (!creates(first)) {
      throw TxnException.missing(identifier);
    }
    Overlay.checkChain(identifier, run);
    TableMetadata metadata = Overlay.create(run.get(0), first, clock.nowMs());
    for (LoggedChange change : run.subList(1, run.size())) {
      metadata = Overlay.replay(metadata, change, request(change), clock.nowMs());
    }
    return Optional.of(metadata);
  }

  public static boolean creates(UpdateTableRequest request) {
    return request.updates().stream().anyMatch(MetadataUpdate.AssignUUID.class::isInstance);
  }

  private void checkMark(TableIdentifier identifier, TableMark mark, Head head) {
    if (!mark.commitTable().equals(log.identifier())) {
      throw TxnException.unsupported(
          String.format(
              "the table is under the care of another commit table: use a catalog with"
                  + " txns.commit-table=%s; table=`%s`",
              mark.commitTable(), identifier));
    }
    boolean known = head.exists() && mark.applied() <= head.upper();
    Head newer = known ? head : log.loadAtLeast(mark.applied());
    if (!newer.uuid().equals(mark.commitTableUuid()) || mark.applied() > newer.upper()) {
      throw TxnException.corruptLog(
          String.format(
              "the table and the commit table do not belong together (was one restored from a"
                  + " backup?): restore the other one to that moment, too, or unset the table's"
                  + " property txns.commit-table outside the protocol, which keeps it as the"
                  + " catalog has it, then register it; table=`%s` applied=`%d` upper=`%d` commit_table=`%s`",
              identifier, mark.applied(), newer.upper(), log.identifier()));
    }
  }
}
