package io.txns.iceberg.commit;

import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.LogSettings;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.TxnMetrics.Count;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Engine;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Limits;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Permitted;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.MergedManifests;
import io.txns.iceberg.meta.Places;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.KeptTags;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.Restager;
import io.txns.iceberg.stage.StagedFiles;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Takes staged changes through the phases: validate, restage, swap, apply, tidy.
 *
 * <p>The swap is the moment of durability. Whatever happens after it, the transaction has
 * committed.
 */
public final class Committer {
  private static final TxnLogger LOG = TxnLogger.of(Committer.class);

  private final Supplier<TxnConfig> config;
  private final CommitLog log;
  private final CommitLoop loop;
  private final Timeline timeline;
  private final DataTables tables;
  private final Applier applier;
  private final Tidier tidier;
  private final TxnClock clock;
  private final CommitMetrics metrics;

  public Committer(
      Supplier<TxnConfig> config,
      CommitLog log,
      CommitLoop loop,
      Timeline timeline,
      DataTables tables,
      Applier applier,
      Tidier tidier,
      TxnClock clock,
      TxnMetrics metrics) {
    this.config = config;
    this.log = log;
    this.loop = loop;
    this.timeline = timeline;
    this.tables = tables;
    this.applier = applier;
    this.tidier = tidier;
    this.clock = clock;
    this.metrics = new CommitMetrics(metrics, clock);
  }

  /** Where it counts. */
  public TxnMetrics metrics() {
    return metrics.to();
  }

  /**
   * What is to be committed.
   *
   * @param kind of the entry
   * @param key the idempotence key
   * @param readTs what everything was read at, in ms
   * @param bornMs when it began, in ms of the wall clock
   * @param isolation what is validated
   * @param comment the user's words
   * @param reads what was read
   * @param writes what was staged, by table; at least one
   * @param marks summary keys and values for the data tables' snapshots
   * @param leftovers of its attempts; whoever may commit again hands them on
   * @param judge throws what forbids it as of a state that it is validated against
   */
  public record Request(
      EntryKind kind,
      CommitGroup.Key key,
      long readTs,
      long bornMs,
      Isolation isolation,
      String comment,
      ReadSet reads,
      Map<TableIdentifier, StagedTable> writes,
      Map<String, String> marks,
      Leftovers leftovers,
      Consumer<LogState> judge) {
    /** A request that nothing forbids but what it clashes with. */
    public Request(
        EntryKind kind,
        CommitGroup.Key key,
        long readTs,
        long bornMs,
        Isolation isolation,
        String comment,
        ReadSet reads,
        Map<TableIdentifier, StagedTable> writes,
        Map<String, String> marks,
        Leftovers leftovers) {
      this(
          kind,
          key,
          readTs,
          bornMs,
          isolation,
          comment,
          reads,
          writes,
          marks,
          leftovers,
          state -> {});
    }
  }

  /**
   * Commit, and carry the changes over to their tables.
   *
   * @throws TxnException 40001, 08007 or 55000; see {@link ErrorKind}
   * @throws RuntimeException of the catalog or the storage, which is no outcome: what was staged
   *     stays
   */
  public Committed commit(Request request) {
    return LogFields.of(request.key().txnId()).during(() -> committed(request));
  }

  private Committed committed(Request request) {
    if (request.kind() != EntryKind.COMMIT) {
      return finish(append(request), request);
    }
    metrics.took(Phase.STAGE, request.bornMs());
    Entry entry;
    try {
      entry = append(request);
    } catch (RuntimeException e) {
      metrics.refused(e);
      throw e;
    }
    metrics.committed(entry);
    return finish(entry, request);
  }

  private Entry append(Request request) {
    Optional<TxnException> refusal = prepare(request);
    Leftovers leftovers = request.leftovers();
    try {
      return metrics.append(
          loop,
          request.key(),
          (head, commitTs) -> {
            if (refusal.isPresent()) {
              throw refusal.get();
            }
            refuseOld(request, head.state());
            request.judge().accept(head.state());
            Map<TableIdentifier, StagedTable> writes = validated(request, head, leftovers);
            return entry(request, head, commitTs, writes, leftovers);
          });
    } catch (RuntimeException e) {
      if (TxnException.isFinal(e)) {
        leftovers.removeAllBut(request.writes().values());
      }
      throw e;
    }
  }

  /**
   * Commit what nobody commits again: what was written for it goes unless it may land.
   *
   * @param engines snapshots that an engine's operation has staged, which cleans up for itself
   * @throws RuntimeException see {@link #commit}
   */
  public Committed commitOnce(Request request, List<Snapshot> engines) {
    return LogFields.of(request.key().txnId()).during(() -> committedOnce(request, engines));
  }

  private Committed committedOnce(Request request, List<Snapshot> engines) {
    Committed committed;
    if (request.kind() == EntryKind.COMMIT) {
      metrics.to().count(Count.STARTED, 1);
    }
    try {
      committed = commit(request);
    } catch (RuntimeException e) {
      boolean unknown =
          e instanceof TxnException known && known.kind() == ErrorKind.COMMIT_STATE_UNKNOWN;
      if (!unknown && !request.key().attempts().mayLand()) {
        request.leftovers().removeAllBut(request.writes().values());
        deleteMetadata(request, engines);
      }
      throw e;
    }
    if (request.leftovers().areOfAnotherTry()) {
      deleteMetadata(request, engines);
    }
    return committed;
  }

  private static void deleteMetadata(Request request, List<Snapshot> engines) {
    for (StagedTable write : request.writes().values()) {
      List<Snapshot> own =
          write.snapshots().stream().filter(snapshot -> !engines.contains(snapshot)).toList();
      StagedFiles.metadataOf(write, own).delete();
    }
  }

  /**
   * Complete what was staged.
   *
   * @return what refuses it, which is the loop's to tell: earlier attempts and tries may land
   */
  private Optional<TxnException> prepare(Request request) {
    try {
      applyOutstanding(request);
      for (StagedTable write : request.writes().values()) {
        KeptTags.protect(write, request.readTs(), request.key().txnId(), clock.nowMs());
        ChangeBuilder.complete(write);
      }
      return Optional.empty();
    } catch (TxnException e) {
      if (!TxnException.isFinal(e)) {
        throw e;
      }
      return Optional.of(e);
    }
  }

  /** Apply and tidy after the swap: the transaction has committed, whatever happens here. */
  private Committed finish(Entry entry, Request request) {
    boolean applied = false;
    try {
      request.leftovers().removeAllBut(entry, request.writes().values());
      LogSettings log = this.log.newest().state().settings();
      boolean inline = config.get().within(log).apply() == TxnConfig.Apply.INLINE;
      applied = inline && metrics.during(Phase.APPLY, () -> applyAll(entry));
      long tidiedFromMs = clock.nowMs();
      if (!applier.isHanging() && tidier.tidyWhenDue()) {
        metrics.took(Phase.TIDY, tidiedFromMs);
      }
    } catch (Throwable e) { // for any other answer the engine would delete what has committed
      LOG.warn("committed, but not applied: the next writer does", e);
    }
    return entry.committed(applied);
  }

  /** What an entry says of the transaction that it is; no failure hides that it has committed. */
  public Committed committed(Entry entry) {
    boolean applied = false;
    try {
      applied = new AppliedTo(tables, log.loadIfExists().state()).everywhere(entry);
    } catch (RuntimeException e) {
      LOG.warn(
          LogFields.of(entry.txnId()), "committed, but whether it is applied cannot be told", e);
    }
    return entry.committed(applied);
  }

  private boolean applyAll(Entry entry) {
    Head head = log.load();
    Set<TableIdentifier> changed =
        entry.changes().stream()
            .map(head.state()::nameOf)
            .collect(Collectors.toCollection(LinkedHashSet::new));
    return applier.applyAll(head, changed).isEmpty();
  }

  /** An overwrite stands on files that expiry may take: what is outstanding goes first. */
  private void applyOutstanding(Request request) {
    Head head = log.loadIfExists();
    if (!head.exists()) {
      return;
    }
    for (StagedTable write : request.writes().values()) {
      boolean overwrites = !write.isAppendOnly() && !write.isCreate();
      if (overwrites && request.kind() == EntryKind.COMMIT) {
        if (isOutstanding(head, write)) {
          applier.applyRun(head, write.identifier());
        }
        refuseOtherRowIds(head, request, write);
      }
    }
  }

  /** What rewrites rows writes the ids that they had into its files. */
  private void refuseOtherRowIds(Head head, Request request, StagedTable write) {
    List<Snapshot> unapplied = Overlay.unappliedWithRowIds(write.real().current(), write.base());
    if (unapplied.isEmpty()) {
      return;
    }
    TableMetadata applied;
    try {
      applied = tables.load(write.identifier(), head, head.upper()).real().current();
    } catch (NoSuchTableException e) {
      return; // whoever dropped it is found by validation
    }
    for (Snapshot one : unapplied) {
      Snapshot there = applied == null ? null : applied.snapshot(one.snapshotId());
      if (there == null || !hasSameList(there, one)) {
        throw TxnException.conflict(
            write.identifier(),
            request.key().txnId(),
            Winner.NOBODY,
            head.upper(),
            "rows that it rewrote have other row ids since they were applied: load the table anew"
                + " (Table.refresh) before the next try");
      }
    }
  }

  /** Whether two states of a snapshot list the same: one that was renumbered has another list. */
  private static boolean hasSameList(Snapshot one, Snapshot other) {
    return one.manifestListLocation().equals(other.manifestListLocation());
  }

  private static boolean isOutstanding(Head head, StagedTable write) {
    TableMetadata known = write.real().current();
    long applied = known == null ? 0 : TableMark.applied(known); // logged and not created yet
    return !head.state().changes(write.base().uuid(), applied, head.upper()).isEmpty();
  }

  private void refuseOld(Request request, LogState state) {
    long ageMs = clock.nowMs() - request.bornMs();
    long maxAgeMs = config.get().within(state.settings()).maxAgeMs();
    if (ageMs > maxAgeMs) {
      throw TxnException.overAge(request.key().txnId(), ageMs, maxAgeMs);
    }
  }

  /**
   * What is to be written on top of {@code head}: as it was staged, or restaged. Every attempt
   * starts from what was staged, since the head of a lost one may have held entries that never
   * landed.
   */
  private Map<TableIdentifier, StagedTable> validated(
      Request request, Head head, Leftovers leftovers) {
    Map<TableIdentifier, StagedTable> writes = new LinkedHashMap<>(request.writes());
    List<Entry> newer = timeline.above(head.state(), request.readTs());
    String txnId = request.key().txnId();
    new ConflictChecker(txnId, request.isolation(), request.reads(), writes).validate(newer);
    Map<TableIdentifier, Winner> moved = new LinkedHashMap<>();
    newer.forEach(
        entry -> entry.changes().forEach(change -> moved.put(change.table(), entry.winner())));
    moved.keySet().retainAll(writes.keySet());
    moved.forEach(
        (table, winner) ->
            writes.put(table, restaged(request, head, writes.get(table), winner, leftovers)));
    writes.replaceAll(
        (table, write) ->
            mergesUnapplied(write)
                ? restagedOn(request, write, write.base(), Winner.NOBODY, head, leftovers)
                : write);
    return writes;
  }

  /**
   * Whether inserts have written row ids of what is not applied into a manifest: Iceberg decides on
   * a merge when it makes the operation, on an older state than that which it commits on.
   */
  private static boolean mergesUnapplied(StagedTable write) {
    if (!write.isInsertOnly() || write.current().formatVersion() < 3) {
      return false;
    }
    boolean allApplied =
        Overlay.unappliedWithRowIds(write.real().current(), write.base()).isEmpty();
    return write.snapshots().stream()
        .skip(allApplied ? 1 : 0) // the others stand on the first one
        .anyMatch(one -> MergedManifests.areIn(one, write.real().io()));
  }

  private StagedTable restaged(
      Request request, Head head, StagedTable staged, Winner winner, Leftovers leftovers) {
    TableIdentifier table = staged.identifier();
    String txnId = request.key().txnId();
    TableMetadata newBase;
    try {
      newBase = tables.load(table, head, head.upper()).metadata();
    } catch (NoSuchTableException e) {
      throw TxnException.conflict(
          table, txnId, winner, head.upper(), "a table that it appended to was dropped");
    }
    if (newBase.currentSnapshot().snapshotId() == staged.base().currentSnapshot().snapshotId()) {
      return staged;
    }
    // What it adopts may have been adopted since, or stand on a branch of its own now.
    if (!staged.isAppendOnly() || request.kind() == EntryKind.ADOPT) {
      throw TxnException.conflict(
          table, txnId, winner, head.upper(), "a table that it wrote was written");
    }
    return restagedOn(request, staged, newBase, winner, head, leftovers);
  }

  private static StagedTable restagedOn(
      Request request,
      StagedTable staged,
      TableMetadata newBase,
      Winner winner,
      Head head,
      Leftovers leftovers) {
    leftovers.versionOf(staged);
    StagedTable restaged =
        Restager.restage(staged, newBase, request.key().txnId(), winner, head.upper());
    leftovers.versionOf(restaged);
    return restaged;
  }

  private Entry entry(
      Request request,
      Head head,
      long commitTs,
      Map<TableIdentifier, StagedTable> writes,
      Leftovers leftovers) {
    Limits.checkTables(writes.size());
    List<Change> changes = new ArrayList<>();
    List<UpdateTableRequest> requests = new ArrayList<>();
    for (StagedTable staged : writes.values()) {
      ChangeBuilder.Built built =
          ChangeBuilder.build(staged, request.key().txnId(), commitTs, request.marks());
      checkFits(staged, built, commitTs, request);
      changes.add(built.change());
      requests.add(built.request());
    }
    String json = CommitTransactionRequestParser.toJson(new CommitTransactionRequest(requests));
    Limits.checkPayload(json);
    Entry.Payload payload = leftovers.store(head, request.key().txnId(), json, clock.nowMs());
    return new Entry(
        request.kind(),
        commitTs,
        head.upper(),
        commitTs,
        head.state().tidiedUpto(),
        request.readTs(),
        request.key().txnId(),
        request.isolation(),
        Engine.name(),
        request.comment(),
        changes,
        payload);
  }

  /** What nobody would carry out must not enter the log. */
  private void checkPermitted(StagedTable staged, LoggedChange change, UpdateTableRequest request) {
    TableIdentifier table = staged.identifier();
    Optional<String> forbidden = Permitted.forbidden(change, request, log.identifier());
    if (forbidden.isPresent()) {
      throw TxnException.invalidUsage(
          "42602",
          String.format(
              "no transaction does such a thing: what begins with txns. or txns- is the protocol's"
                  + " own, leave it out, or give it another name; a property by which libraries load"
                  + " code or reach storage is set with the catalog itself, past the protocol;"
                  + " update=`%s` table=`%s`",
              forbidden.get(), table));
    }
    for (String path :
        Places.misplacedLists(staged.isCreate() ? null : staged.base(), request.updates())) {
      throw TxnException.unsupported(
          String.format(
              "the table's manifest lists do not lie below its metadata location, the only place"
                  + " where transactions read them; manifest_list=`%s` table=`%s`",
              path, table));
    }
  }

  /** What does not fit its own base must not enter the log: it would quarantine the table. */
  private void checkFits(
      StagedTable staged, ChangeBuilder.Built built, long commitTs, Request request) {
    Entry probe =
        new Entry(
            request.kind(),
            commitTs,
            0,
            commitTs,
            0,
            request.readTs(),
            request.key().txnId(),
            request.isolation(),
            "",
            "",
            List.of(built.change()),
            Entry.Payload.NONE);
    LoggedChange change = new LoggedChange(probe, built.change());
    checkPermitted(staged, change, built.request());
    try {
      if (staged.isCreate()) {
        Overlay.create(change, built.request(), clock.nowMs());
      } else {
        Overlay.replay(staged.base(), change, built.request(), clock.nowMs());
      }
    } catch (TxnException | IllegalArgumentException e) {
      throw TxnException.conflict(
          staged.identifier(),
          request.key().txnId(),
          Winner.NOBODY,
          commitTs,
          "its change does not fit the table: " + e.getMessage());
    }
  }
}
