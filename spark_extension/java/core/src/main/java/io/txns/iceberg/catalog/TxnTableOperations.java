package io.txns.iceberg.catalog;

import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.Winner;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.DelegatingOperations;
import io.txns.iceberg.meta.LocalWrites;
import io.txns.iceberg.stage.Recreation;
import io.txns.iceberg.stage.Replacement;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/**
 * Table operations of a data table: what is committed through them is staged while an explicit
 * transaction runs, and is a transaction of its own otherwise.
 *
 * <p>Which of the two is decided at each call, not when the table was loaded: a DataFrame may be
 * older than the transaction that writes through it.
 */
final class TxnTableOperations extends DelegatingOperations {
  private static final TxnLogger LOG = TxnLogger.of(TxnTableOperations.class);

  /** In the summary of what rewrites manifests, and of nothing else. */
  private static final String ENTRIES_PROCESSED = "entries-processed";

  private final NewestTables newest;
  private final WriteChecks checks;
  private final Autocommit autocommit;
  private final TxnClock clock;
  private final TableIdentifier identifier;
  private final Supplier<Transaction> transaction;

  /** Shown of format 3: an engine may have the ids of rows in its files. */
  private final ShownLists withRowIds = new ShownLists();

  /** Shown with deletes: manifests that are written anew have the sequence numbers of rows. */
  private final ShownLists withDeletes = new ShownLists();

  private TableOperations real;

  /** Threads that write manifests ask for it at once. */
  private volatile Files files = new Files(null, null);

  /**
   * @param writes {@code own}, but for local files
   */
  private record Files(FileIO own, FileIO writes) {}

  private Loaded loaded;

  /** Null while it is not known: of a table that is to be created. */
  private TableIdentity identity;

  /** Null for a table that is there, or has been created by now. */
  private Recreation recreation;

  /** Whether the state that is known is older than a commit through this object. */
  private boolean committed;

  /** A state that is known to stand where it may. */
  private TableMetadata inPlace;

  private boolean replaces;
  private TableMetadata plannedOn;
  private TableMetadata seenInTransaction;

  /**
   * @param loaded the first state; null for a table that does not exist yet
   * @param real the delegate's operations, for a table that does not exist yet
   */
  TxnTableOperations(
      NewestTables newest,
      WriteChecks checks,
      Autocommit autocommit,
      TxnClock clock,
      TableIdentifier identifier,
      Supplier<Transaction> transaction,
      Loaded loaded,
      TableOperations real) {
    this.newest = newest;
    this.checks = checks;
    this.autocommit = autocommit;
    this.clock = clock;
    this.identifier = identifier;
    this.transaction = transaction;
    this.loaded = loaded;
    this.real = loaded == null ? real : loaded.real();
    this.identity = loaded == null ? null : TableIdentity.of(metadata());
    if (loaded != null) {
      note(loaded);
    }
  }

  /** These operations are of a table that a transaction has created. */
  TxnTableOperations of(TableIdentity created) {
    this.identity = created;
    return this;
  }

  /** These operations create the table again, which has been dropped. */
  TxnTableOperations recreating(Recreation planned) {
    this.recreation = planned;
    return this;
  }

  /** These operations replace the table as it is now, or create it. */
  TxnTableOperations replacing() {
    this.replaces = true;
    this.plannedOn = current();
    return this;
  }

  @Override
  public TableOperations real() {
    return real;
  }

  /** For manifests and their lists, which are this process's own to write. */
  @Override
  public FileIO io() {
    FileIO own = super.io();
    Files known = files;
    if (known.own() != own) {
      known = new Files(own, LocalWrites.through(own));
      files = known;
    }
    return known.writes();
  }

  /**
   * What is known of the table. When the transaction has ended under a running statement, too: an
   * engine asks before it commits, and cleans up only when the commit itself is refused.
   */
  @Override
  public TableMetadata current() {
    Transaction explicit;
    try {
      explicit = explicit();
    } catch (TxnException ended) {
      if (seenInTransaction == null) {
        throw ended;
      }
      return seenInTransaction;
    }
    if (explicit != null) {
      return inTransaction(explicit);
    }
    boolean createdElsewhere = loaded == null && identity != null;
    if (committed || createdElsewhere) {
      return refresh();
    }
    return metadata();
  }

  /**
   * Whether rows of the table may get other ids yet: of format 3, and not all applied. An append
   * that merges manifests would write those that they have now, and be staged anew at its commit.
   */
  boolean standsOnOtherRowIds() {
    TableMetadata known = loaded == null ? null : loaded.real().current();
    return !Overlay.unappliedWithRowIds(known, current()).isEmpty();
  }

  private void note(Loaded shown) {
    TableMetadata seen = shown.metadata();
    if (!Overlay.hasNumbers(seen)) {
      return; // and the catalog is not asked
    }
    TableMetadata applied = shown.real() == null ? null : shown.real().current();
    withRowIds.note(applied, Overlay.unappliedWithRowIds(applied, seen));
    withDeletes.note(applied, Overlay.unappliedWithDeletes(applied, seen));
  }

  /** As it was loaded; null where it has not been, as it may have left care since then. */
  private TableMetadata metadata() {
    return loaded == null ? null : loaded.metadata();
  }

  @Override
  public TableMetadata refresh() {
    Transaction explicit = explicit();
    if (explicit != null) {
      return inTransaction(explicit);
    }
    try {
      loaded = recreation == null ? asItIsNow() : standing();
    } catch (NoSuchTableException e) {
      if (identity != null) {
        throw e;
      }
      return null;
    }
    real = loaded.real();
    committed = false;
    note(loaded);
    return metadata();
  }

  /** Load the table again for whoever begins with it anew: nothing of before is in his files. */
  void begin() {
    withRowIds.forget();
    withDeletes.forget();
    refresh();
  }

  /** The table as it is now: whatever has its name is not it. */
  private Loaded asItIsNow() {
    Loaded table = newest.loadLogged(identifier);
    if (table.real() == null) {
      throw TxnException.anotherTable(identifier);
    }
    TableIdentity now = TableIdentity.of(table.metadata());
    refuseAnother(now);
    identity = now;
    return sameObject(table);
  }

  private void refuseAnother(TableIdentity now) {
    if (identity != null && !identity.is(now)) {
      throw TxnException.anotherTable(identifier);
    }
  }

  /** The dropped table that it is planned on. */
  private Loaded standing() {
    try {
      return recreation.standing(loaded, newest.loadWithDropped(identifier));
    } catch (NoSuchTableException e) {
      throw Recreation.moved(identifier, loaded.readTs()); // purged
    }
  }

  /**
   * {@code table} with the metadata object that is known already, where nothing has changed:
   * Iceberg's transactions compare objects, and some updates of theirs cannot be repeated.
   */
  private Loaded sameObject(Loaded table) {
    if (!(loaded instanceof Loaded.Viewed known)
        || !(table instanceof Loaded.Registered registered)) {
      return table;
    }
    TableMetadata before = known.metadata();
    TableMetadata now = table.metadata();
    boolean same =
        before.metadataFileLocation() != null
            && before.metadataFileLocation().equals(now.metadataFileLocation())
            && before.currentSnapshot() != null
            && now.currentSnapshot() != null
            && before.currentSnapshot().snapshotId() == now.currentSnapshot().snapshotId();
    return same ? registered.showing(before) : table;
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    commit(base, metadata, false);
  }

  /** Commit what an append has made: where the table has moved, it is put on its newer state. */
  void commitAppend(TableMetadata base, TableMetadata metadata) {
    commit(base, metadata, true);
  }

  private void commit(TableMetadata base, TableMetadata metadata, boolean append) {
    if (base == metadata) {
      return;
    }
    if (replaces && plannedOn == null && base != null) {
      throw Replacement.moved(); // it was to be created: its columns have the ids of a new table
    }
    TableMark.refuseReserved(identifier, base, metadata.changes());
    checks.refuseElsewhere(identifier, base, metadata);
    checks.refuseWrongClock(metadata.changes());
    Transaction running = transaction.get();
    Transaction explicit = explicit();
    if (explicit != null) {
      commitInTransaction(explicit, base, metadata, append);
    } else if (base == null) {
      Committed entry = autocommit.create(running, identifier, real, metadata);
      identity = new TableIdentity(TableNames.uuid(metadata), OptionalLong.of(entry.commitTs()));
      committed = true;
    } else {
      if (loaded == null || base != metadata()) {
        throw new CommitFailedException("Cannot commit: stale table metadata: %s", identifier);
      }
      boolean moved = replaces && base != plannedOn;
      commitAtOnce(
          running,
          moved ? new Replacement(clock, real).on(base, plannedOn, metadata) : metadata,
          append);
    }
  }

  private void commitInTransaction(
      Transaction explicit, TableMetadata base, TableMetadata to, boolean append) {
    if (base == null) {
      explicit.writeSet().stageCreate(identifier, real, to);
      return;
    }
    StagedTable staged = stagedIn(explicit);
    if (!explicit.writeSet().creates(identifier)) {
      checks.writable(explicit.writeSet().load(identifier));
    }
    if (append) {
      explicit.writeSet().stageAppend(staged, base, to);
    } else {
      explicit.writeSet().stage(staged, base, to);
    }
    recreation = null;
  }

  /** Iceberg's operation is one commit: when its table has moved, Iceberg itself retries. */
  private void commitAtOnce(Transaction implicit, TableMetadata metadata, boolean append) {
    Loaded.Registered writable = checks.writable(loaded);
    refuseOtherNumbers(metadata, append);
    Optional<Committed> entry;
    try {
      entry =
          append
              ? autocommit.commitAppend(implicit, writable, metadata)
              : autocommit.commit(implicit, writable, metadata);
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.CONFLICT) {
        throw new CommitFailedException(e, "Cannot commit: %s", e.getMessage());
      }
      if (e.kind() == ErrorKind.COMMIT_STATE_UNKNOWN) {
        throw new CommitStateUnknownException(e);
      }
      throw e;
    }
    // Loaded again when somebody asks: an error from here would look like a failed commit, and
    // Iceberg would delete what has been committed.
    committed = true;
    if (recreation != null && entry.isPresent()) {
      identity = new TableIdentity(identity.uuid(), OptionalLong.of(entry.get().commitTs()));
      recreation = null;
    }
  }

  /**
   * No other try of it helps: it would write the same numbers, and Iceberg is not told to repeat
   * it.
   */
  private void refuseOtherNumbers(TableMetadata updated, boolean append) {
    List<Snapshot> added = AddedSnapshots.of(updated.changes());
    if (added.isEmpty()) {
      return;
    }
    boolean rewritesManifests =
        added.stream().anyMatch(one -> one.summary().containsKey(ENTRIES_PROCESSED));
    boolean sameIds = append || withRowIds.standIn(metadata());
    boolean sameNumbers = !rewritesManifests || withDeletes.standIn(metadata());
    if (!sameIds || !sameNumbers) {
      throw TxnException.conflict(
          identifier,
          "",
          Winner.NOBODY,
          loaded.readTs(),
          String.format(
              "rows that it rewrote have other %s since they were applied: load the table anew"
                  + " (Table.refresh) before the next try",
              sameIds ? "sequence numbers" : "row ids"));
    }
  }

  private TableMetadata inTransaction(Transaction explicit) {
    if (loaded == null && !explicit.writeSet().creates(identifier)) {
      return null; // about to be created
    }
    StagedTable staged = stagedIn(explicit);
    TableIdentity now = TableIdentity.of(staged);
    refuseAnother(now);
    identity = identity == null ? now : identity;
    real = staged.real();
    seenInTransaction = staged.current();
    return seenInTransaction;
  }

  /** A table that is created again stands on the dropped one. */
  private StagedTable stagedIn(Transaction explicit) {
    return recreation != null
        ? explicit.writeSet().overDropped(identifier, loaded)
        : explicit.writeSet().table(identifier);
  }

  private Transaction explicit() {
    Transaction running = transaction.get();
    boolean active =
        running != null
            && running.explicit()
            && (running.state() == Transaction.State.ACTIVE
                || running.state() == Transaction.State.ABORTED);
    return active ? running : null;
  }

  @Override
  public String metadataFileLocation(String fileName) {
    return temp(current()).metadataFileLocation(fileName);
  }

  @Override
  public LocationProvider locationProvider() {
    return temp(current()).locationProvider();
  }

  /**
   * Where files of {@code uncommitted} are written: nobody learns of a place that is not allowed.
   */
  @Override
  public TableOperations temp(TableMetadata uncommitted) {
    return new PlacedOperations(
        super.temp(uncommitted), () -> checks.refuseToWrite(identifier, real, uncommitted));
  }

  /** Whether files may be removed where the table says that it is; not, while nobody can say. */
  boolean isInPlace() {
    TableMetadata now = current();
    if (now != inPlace) {
      try {
        inPlace = checks.isInPlace(identifier, real, now) ? now : null;
      } catch (RuntimeException e) {
        LOG.warn(LogFields.of(identifier), "the catalog does not tell where the table may be", e);
        inPlace = null;
      }
    }
    return inPlace != null;
  }
}
