package io.txns.iceberg.commit;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.Places;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.SnapshotNumbers;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.KeptTags;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.ForeignBranches;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.OutstandingBranch;
import io.txns.iceberg.table.Replay;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Carries logged changes over to their data tables, in {@code commit_ts} order, one table commit
 * per entry; idempotent, by anyone.
 */
public final class Applier {
  private static final TxnLogger LOG = TxnLogger.of(Applier.class);

  /** After how long what a catalog refuses is no matter of clocks: orphans are days old. */
  private static final long REFUSED_FOR_MS = 3_600_000;

  private final CommitLog log;
  private final DataTables tables;
  private final DueTables due;
  private final AllowedPlaces places;
  private final TxnClock clock;
  private final ApplyPool pool;
  private final ManifestLists lists;
  private final Set<TableIdentifier> kept = ConcurrentHashMap.newKeySet();

  public Applier(
      Catalog delegate, CommitLog log, DataTables tables, AllowedPlaces places, TxnClock clock) {
    this(delegate, log, tables, places, clock, new ApplyPool());
  }

  Applier(
      Catalog delegate,
      CommitLog log,
      DataTables tables,
      AllowedPlaces places,
      TxnClock clock,
      ApplyPool pool) {
    this.pool = pool;
    this.places = places;
    this.log = log;
    this.tables = tables;
    this.due = new DueTables(delegate, log, tables);
    this.clock = clock;
    this.lists = new ManifestLists(clock);
  }

  /** What is told of the entries that this process has written. */
  ManifestLists lists() {
    return lists;
  }

  /** Those of some tables on which strangers' rows were put aside here, each once. */
  Set<TableIdentifier> takeKept(Set<TableIdentifier> all) {
    return all.stream().filter(kept::remove).collect(Collectors.toSet());
  }

  /**
   * Apply everything that the newest head holds.
   *
   * @return the tables that have entries left
   */
  public Set<TableIdentifier> applyAll() {
    Head head = log.loadIfEver();
    Set<TableIdentifier> named = new LinkedHashSet<>();
    head.state().entries().stream()
        .flatMap(entry -> entry.carried().stream())
        .forEach(change -> named.add(head.state().nameOf(change)));
    return applyAll(head, named);
  }

  /**
   * Apply everything that {@code head} holds for some tables, several at once; who waits goes on
   * without a table that hangs.
   *
   * @return the tables that have entries left
   */
  Set<TableIdentifier> applyAll(Head head, Set<TableIdentifier> all) {
    return pool.left(all, table -> apply(head, table));
  }

  /** Whether a table hangs that somebody has gone on without: who looks at it would hang, too. */
  boolean isHanging() {
    return pool.isHanging();
  }

  /** Begin to apply nothing any more. */
  public void close() {
    pool.close();
  }

  /**
   * Apply everything that the newest head holds for a table.
   *
   * @return whether nothing is left to apply to it
   * @throws TxnException 55000 where the commit table is missing: nobody knows what is left
   */
  public boolean apply(TableIdentifier table) {
    return apply(log.loadIfEver(), table);
  }

  /**
   * Apply everything that {@code head} holds for a table.
   *
   * @return whether nothing is left to apply to it
   */
  public boolean apply(Head head, TableIdentifier table) {
    return about(table).during(() -> isApplied(head, table));
  }

  private static LogFields about(TableIdentifier table) {
    return LogFields.of(table).in(Phase.APPLY);
  }

  private boolean isApplied(Head head, TableIdentifier table) {
    AtomicReference<LogFields> carried = new AtomicReference<>(LogFields.NONE);
    try {
      return applyDue(head, table, carried);
    } catch (TxnException e) {
      LOG.warn(carried.get(), "entries stay unapplied: {}", e.getMessage());
    } catch (RuntimeException e) {
      LOG.warn(carried.get(), "entries stay unapplied, the next writer tries again", e);
    }
    return false;
  }

  /** Apply, for a writer that has to have it done before it goes on; errors reach the caller. */
  public boolean applyRun(Head head, TableIdentifier table) {
    return about(table).during(() -> applyDue(head, table, new AtomicReference<>()));
  }

  /**
   * Apply what is due of a table.
   *
   * @param carried is told whose change is carried over, which may be another's than the caller's
   */
  private boolean applyDue(Head head, TableIdentifier table, AtomicReference<LogFields> carried) {
    if (head.state().entries().stream().noneMatch(Entry::applies)) {
      return true;
    }
    TableOperations real = due.loadFor(head, table);
    List<LoggedChange> run = DueTables.changes(head, table, real);
    long repairedAt =
        run.stream()
            .filter(change -> change.entry().kind() == EntryKind.REPAIR)
            .mapToLong(LoggedChange::commitTs)
            .reduce(0, Math::max);
    for (LoggedChange change : run) {
      due.checkMark(table, head, real);
      carried.set(LogFields.of(change.entry().txnId()));
      Optional<TableOperations> left;
      try {
        TableOperations at = real;
        boolean repaired = change.commitTs() <= repairedAt;
        left = carried.get().during(() -> applyOne(change, table, at, head, repaired));
      } catch (TxnException e) {
        if (e.kind() != ErrorKind.CORRUPT_LOG) { // what a recovered log has not, no branch has
          keepReachable(table, run);
        }
        throw e;
      } catch (ValidationException | BadRequestException e) {
        if (clock.nowMs() - change.commitTs() > REFUSED_FOR_MS) {
          keepReachable(table, run);
        }
        throw e; // most often it takes the change a while later
      }
      if (left.isEmpty()) {
        return false;
      }
      real = left.get();
    }
    return true;
  }

  /** Put what stays unapplied on a branch (spec 8.5); errors are logged, the next one tries. */
  private void keepReachable(TableIdentifier table, List<LoggedChange> run) {
    try {
      TableOperations real = due.load(table);
      if (real == null
          || TableMark.of(real.current())
              .filter(mark -> mark.commitTable().equals(log.identifier()))
              .isEmpty()) {
        return;
      }
      TableMetadata base = real.current();
      long applied = TableMark.applied(base);
      List<LoggedChange> left =
          run.stream()
              .filter(change -> change.change().uuid().equals(TableNames.uuid(base)))
              .filter(change -> change.commitTs() > applied)
              .takeWhile(one -> isItsOwn(table, base, log.request(one).updates()))
              .toList();
      if (!left.isEmpty() && !OutstandingBranch.isKept(base, left)) {
        left =
            left.stream()
                .filter(one -> ManifestLists.areThere(real.io(), log.request(one)))
                .toList();
      }
      if (left.isEmpty() || OutstandingBranch.isKept(base, left)) {
        return;
      }
      List<OutstandingBranch.Staged> staged =
          left.stream()
              .flatMap(
                  change ->
                      AddedSnapshots.of(log.request(change).updates()).stream()
                          .map(added -> new OutstandingBranch.Staged(change.commitTs(), added)))
              .toList();
      if (!staged.isEmpty()) {
        long nowMs = clock.nowMs();
        OutstandingBranch.Left outstanding =
            new OutstandingBranch.Left(left.get(0).change().fromSnapshotId(), staged);
        Timestamps.commit(
            real, base, nowMs, seen -> OutstandingBranch.put(seen, outstanding, nowMs));
      }
    } catch (RuntimeException e) {
      LOG.warn("an orphan removal may take files that are not applied", e);
    }
  }

  /** A branch of the table leads to what is its own, too. */
  private boolean isItsOwn(
      TableIdentifier table, TableMetadata base, List<MetadataUpdate> updates) {
    return places.forbidden(table, base, updates).isEmpty()
        && Places.misplacedFiles(base, updates).isEmpty()
        && SnapshotNumbers.farAhead(base, updates).isEmpty();
  }

  /**
   * Apply one change, if it has not been.
   *
   * <p>A lost swap means that somebody else came first, most often with the same change; what they
   * left is looked at once, and what is still to do then is left to the next writer.
   *
   * @param repaired whether a repair has been logged since: strangers do not stand in the way
   * @return the operations to go on with: a lost swap leaves the old ones where they were, without
   *     what the winner applied; empty when two swaps were lost and the change is still to do
   */
  private Optional<TableOperations> applyOne(
      LoggedChange change,
      TableIdentifier table,
      TableOperations real,
      Head head,
      boolean repaired) {
    try {
      return Optional.of(tryApply(change, table, real, head, repaired));
    } catch (CommitFailedException | AlreadyExistsException e) {
      LOG.debug("somebody else changed the table first", e);
    }
    TableOperations again = due.load(table);
    due.checkMark(table, head, again); // it may be a recovery that came first
    Long main = mainId(again);
    try {
      return Optional.of(tryApply(change, table, again, head, repaired));
    } catch (CommitFailedException | AlreadyExistsException e) {
      TableOperations last = due.load(table);
      if (last != null && isMoot(change, table, last.current())) {
        return Optional.of(last);
      }
      if (Objects.equals(mainId(last), main)) {
        LOG.warn(
            "entries stay unapplied: the catalog refuses the swap, though nobody has moved main",
            e);
      }
      return Optional.empty();
    }
  }

  private static Long mainId(TableOperations real) {
    return real == null ? null : History.mainId(real.current());
  }

  private TableOperations tryApply(
      LoggedChange change,
      TableIdentifier table,
      TableOperations loaded,
      Head head,
      boolean repaired) {
    if (loaded == null) {
      return create(change, table);
    }
    if (isMoot(change, table, loaded.current())) {
      return loaded;
    }
    boolean forgets = change.entry().kind() == EntryKind.FORGET;
    TableOperations real = forgets ? due.whole(table, change, head) : loaded;
    TableMetadata base = real.current();
    if (forgets && isMoot(change, table, base)) {
      return real;
    }
    TableMark.refuseCommitTable(table, base);
    UpdateTableRequest request = log.request(change);
    places.refuseToApply(table, base, request.updates(), change.commitTs());
    TableMark mark = markToApply(change, table, base, repaired || forgets);
    LoggedState logged = LoggedState.of(base, mark, List.of(change));
    Optional<Stranger> stranger = logged.stranger();
    if (forgets && (stranger.isPresent() || !standsOnWhatIsThere(change, base))) {
      // Whoever wrote a table after it was forgotten is no stranger: main is theirs.
      Timestamps.commit(real, base, clock.nowMs(), seen -> forgotten(seen, change, table, real));
      return real;
    }
    if (stranger.isPresent() && !stranger.get().adoptable() && !repaired) {
      throw TxnException.quarantined(table, stranger.get().reason());
    }
    lists.refuseMissing(table, real.io(), change, request);
    carryOut(change, real, request, stranger, repaired);
    if (!repaired && stranger.filter(one -> ForeignBranches.keeps(one, request)).isPresent()) {
      kept.add(table);
    }
    return real;
  }

  /** A table's mark, or what stands for it where a repair, or a forget, needs none. */
  private TableMark markToApply(
      LoggedChange change, TableIdentifier table, TableMetadata base, boolean needsNone) {
    Optional<TableMark> mark = TableMark.of(base);
    if (mark.isEmpty() && !OurSnapshots.haveBeenIn(base)) {
      throw TxnException.quarantined(
          table, Stranger.NEVER_UNDER_CARE, Stranger.untouched(change.commitTs()));
    }
    if (mark.isEmpty() && !needsNone) {
      throw TxnException.quarantined(table, Stranger.MARK_TAKEN);
    }
    return mark.orElse(new TableMark(log.identifier(), "", 0, TableMark.applied(base)));
  }

  /** Carry a change out on a table as it is, in one commit of it. */
  void carryOut(
      LoggedChange change,
      TableOperations real,
      UpdateTableRequest request,
      Optional<Stranger> stranger,
      boolean repaired) {
    TableMetadata base = real.current();
    Consumer<TableMetadata.Builder> branches =
        builder -> {
          ForeignBranches.set(builder, base, request, stranger, repaired);
          KeptTags.removeDone(builder, base);
          OutstandingBranch.removeDone(builder, base, change.commitTs());
        };
    Replay.Renumber renumber = onStorage(change, request, real, repaired);
    long nowMs = clock.nowMs();
    Timestamps.commit(
        real,
        base,
        nowMs,
        seen -> Replay.applied(seen, change, request, nowMs, renumber, repaired, branches));
  }

  private static boolean standsOnWhatIsThere(LoggedChange change, TableMetadata base) {
    Long source = change.change().fromSnapshotId();
    return source != null && base.snapshot(source) != null;
  }

  /**
   * A table that has left care, with what others have put on {@code main} since.
   *
   * <p>An empty snapshot on it is what a late applier is refused by: on a REST catalog a swap of
   * properties alone would succeed whatever has become of the table.
   */
  private TableMetadata forgotten(
      TableMetadata base, LoggedChange forget, TableIdentifier table, TableOperations real) {
    StagedTable staged = StagedTable.withEmptySnapshot(table, real, base);
    Snapshot empty =
        SnapshotEdit.of(staged.current().currentSnapshot())
            .timestampMs(Timestamps.acceptableMs(base, forget.commitTs(), clock.nowMs()))
            .summary(
                Map.of(
                    TableMark.SNAPSHOT_COMMIT_TS,
                    Long.toString(forget.commitTs()),
                    TableMark.SNAPSHOT_TXN_ID,
                    forget.entry().txnId()))
            .build();
    TableMetadata.Builder builder = TableMark.leaving(base, forget.commitTs());
    OutstandingBranch.removeDone(builder, base, forget.commitTs());
    return builder
        .addSnapshot(empty)
        .setRef(SnapshotRef.MAIN_BRANCH, staged.current().ref(SnapshotRef.MAIN_BRANCH))
        .build();
  }

  /**
   * Whether a logged table has been created already, as far as the newest head tells. It has been
   * renamed or forgotten since, or the creation or what came after it is applied and archived, or
   * was born applied: somebody would make the table a second time, and without that.
   */
  private boolean wasThere(LoggedChange change) {
    Head newest = log.load();
    return newest
            .state()
            .creation(change.change().table(), change.commitTs())
            .filter(creation -> creation.change().uuid().equals(change.change().uuid()))
            .isEmpty()
        || tables.wasCreated(change.change().uuid(), newest);
  }

  private TableOperations create(LoggedChange change, TableIdentifier table) {
    try {
      return created(change, table);
    } catch (NoSuchNamespaceException e) {
      throw AllowedPlaces.withoutNamespace(table, change.commitTs());
    }
  }

  private TableOperations created(LoggedChange change, TableIdentifier table) {
    UpdateTableRequest request = log.request(change);
    if (!Replay.creates(request) || wasThere(change)) {
      throw TxnException.missing(table);
    }
    places.refuseToApply(table, null, request.updates(), change.commitTs());
    TableMetadata metadata = Replay.create(change, request, clock.nowMs());
    TableOperations real = tables.operationsToCreate(table, metadata);
    // A purge may have come before who is late, and has written it himself.
    String main = metadata.currentSnapshot().manifestListLocation();
    lists.refuseMissing(table, real.io(), change, request, main);
    real.commit(null, metadata);
    return real;
  }

  /** Whether there is nothing left to do (I4); a forget leaves {@code txns.applied}. */
  private boolean isMoot(LoggedChange change, TableIdentifier table, TableMetadata metadata) {
    if (!TableNames.uuid(metadata).equals(change.change().uuid())) {
      throw Stranger.ofTakenName(metadata).quarantined(table);
    }
    if (TableMark.applied(metadata) >= change.commitTs()) {
      return true;
    }
    Optional<TableMark> mark = TableMark.of(metadata);
    return mark.isPresent() && !mark.get().commitTable().equals(log.identifier());
  }

  /** Renumbered snapshots get a manifest list of their own in storage. */
  private Replay.Renumber onStorage(
      LoggedChange change, UpdateTableRequest request, TableOperations real, boolean repaired) {
    return new Renumbering(clock, change, request, real, repaired);
  }
}
