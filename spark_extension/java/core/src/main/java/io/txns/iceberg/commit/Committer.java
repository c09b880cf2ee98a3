package io.txns.iceberg.commit;

import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
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
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.Rows;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.KeptTags;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.StagedFiles;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.ForeignBranches;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * Takes staged changes through the phases: validate, restage, swap, apply, tidy.
 *
 * <p>The swap is the moment of durability. Whatever happens after it, the transaction has
 * committed.
 */
public final class Committer {
  private static final TxnLogger LOG = TxnLogger.of(Committer.class);

  /** So often somebody looks for more to adopt on one table, at most. */
  private static final int ROUNDS = 5;

  /** Times two for each round: who writes the table meanwhile is not in step with it. */
  private static final long BACK_OFF_MS = 10;

  private final Supplier<TxnConfig> config;
  private final CommitLog log;
  private final CommitLoop loop;
  private final DataTables tables;
  private final Applier applier;
  private final Adoption adoption;
  private final Tidier tidier;
  private final TxnClock clock;
  private final Births births;
  private final Validation validation;
  private final Outstanding outstanding;
  private final CommitMetrics metrics;

  public Committer(
      Supplier<TxnConfig> config,
      CommitLog log,
      CommitLoop loop,
      Timeline timeline,
      Supplier<Optional<Rows>> rows,
      DataTables tables,
      AllowedPlaces places,
      Applier applier,
      Adoption adoption,
      Tidier tidier,
      TxnClock clock,
      TxnMetrics metrics) {
    this.config = config;
    this.log = log;
    this.loop = loop;
    this.births = new Births(rows, log, tables, places, applier, clock);
    this.validation = new Validation(config, log, timeline, tables, places, clock, births);
    this.outstanding = new Outstanding(log, tables, applier);
    this.tables = tables;
    this.applier = applier;
    this.adoption = adoption;
    this.tidier = tidier;
    this.clock = clock;
    this.metrics = new CommitMetrics(metrics, clock);
  }

  /** Where it counts. */
  public TxnMetrics metrics() {
    return metrics.to();
  }

  /**
   * Commit, and carry the changes over to their tables.
   *
   * @throws TxnException 40001, 08007 or 55000; see {@link ErrorKind}
   * @throws RuntimeException of the catalog or the storage, which is no outcome: what was staged
   *     stays
   */
  public Committed commit(CommitRequest request) {
    return LogFields.of(request.key().txnId()).during(() -> committed(request));
  }

  /**
   * Look whether a transaction can still commit on top of a head, as far as its statements have
   * said what they read. A table that came under care may have come for what it is about to write.
   *
   * @throws TxnException 40001: it never will
   * @throws RuntimeException of the catalog or the storage: nobody knows
   */
  public void checkStanding(CommitRequest request, Head head) {
    if (head.exists() && head.upper() > request.readTs()) {
      validation.newer(
          request,
          head,
          (entry, change) ->
              entry.kind() != EntryKind.REGISTER && !request.reads().isUnsaid(change));
    }
  }

  private Committed committed(CommitRequest request) {
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

  private Entry append(CommitRequest request) {
    Optional<TxnException> refusal = prepare(request);
    Leftovers leftovers = request.leftovers();
    Map<TableIdentifier, StagedTable> movable = movable(request);
    Ahead ahead = refusal.isPresent() ? Ahead.NONE : births.ahead(request, movable);
    try {
      return appendAdopting(
          request,
          (head, commitTs) -> {
            if (refusal.isPresent()) {
              throw refusal.get();
            }
            return validation.entry(request, head, commitTs, ahead);
          },
          movable,
          ahead.commitTs());
    } catch (RuntimeException e) {
      if (TxnException.isFinal(e)) {
        leftovers.removeAllBut(request.writes().values());
      }
      throw e;
    } finally {
      ahead.end();
    }
  }

  /** Append an entry; adopt, without any lock, what its attempts find of strangers. */
  private Entry appendAdopting(
      CommitRequest request,
      CommitGroup.Attempt attempt,
      Map<TableIdentifier, StagedTable> movable,
      long proposedTs) {
    CommitGroup.Key key = request.key();
    CommitGroup.Attempt next = attempt;
    while (true) {
      try {
        return metrics.append(loop, key, next, movable, proposedTs, request.claim());
      } catch (StrangerMet met) {
        key.attempts().adopting();
        next = afterAdopting(request, met, next);
      }
    }
  }

  /** The attempt that follows an adoption: where that is refused, the loop is to tell it. */
  private CommitGroup.Attempt afterAdopting(
      CommitRequest request, StrangerMet met, CommitGroup.Attempt attempt) {
    try {
      adopt(met.table(), request.adopting(), request.key().attempts());
      return attempt;
    } catch (TxnException refusal) {
      if (!TxnException.isFinal(refusal)) {
        throw refusal;
      }
      return (head, commitTs) -> {
        throw refusal;
      };
    }
  }

  /** The tables that the swap of its entry may move itself. */
  private Map<TableIdentifier, StagedTable> movable(CommitRequest request) {
    boolean moves =
        request.kind() == EntryKind.COMMIT
            && config.get().movesTables(log.newest().state().settings());
    return moves ? request.writes() : Map.of();
  }

  /**
   * Commit what nobody commits again: what was written for it goes unless it may land.
   *
   * @param engines snapshots that an engine's operation has staged, which cleans up for itself
   * @throws RuntimeException see {@link #commit}
   */
  public Committed commitOnce(CommitRequest request, List<Snapshot> engines) {
    return LogFields.of(request.key().txnId()).during(() -> committedOnce(request, engines));
  }

  private Committed committedOnce(CommitRequest request, List<Snapshot> engines) {
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

  private static void deleteMetadata(CommitRequest request, List<Snapshot> engines) {
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
  private Optional<TxnException> prepare(CommitRequest request) {
    try {
      adoptDue(request);
      createAlike(request);
      outstanding.apply(request);
      for (StagedTable write : request.writes().values()) {
        ForeignBranches.refuseExpiry(write.identifier(), write.real(), write.changes());
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
  private Committed finish(Entry entry, CommitRequest request) {
    boolean applied = false;
    try {
      request.leftovers().removeAllBut(entry, request.writes().values());
      if (!request.leftovers().areOfAnotherTry()) {
        applier.lists().wrote(entry);
      }
      LogSettings log = this.log.newest().state().settings();
      boolean inline = config.get().within(log).apply() == TxnConfig.Apply.INLINE;
      applied = !entry.applies() || inline && metrics.during(Phase.APPLY, () -> applyAll(entry));
      if (request.kind() == EntryKind.COMMIT && entry.applies() && inline) {
        adoptKept(entry);
      }
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
    Set<TableIdentifier> left =
        entry.carried().stream()
            .map(head.state()::nameOf)
            .collect(Collectors.toCollection(LinkedHashSet::new));
    return applier.applyAll(head, left).isEmpty();
  }

  /** New tables of the log are created first whose names may be those of its own new ones. */
  private void createAlike(CommitRequest request) {
    NewNames.refuseAlike(request.writes().values());
    Head head = log.newest(); // what is newer clashes
    for (StagedTable write : request.writes().values()) {
      TableIdentifier table = write.identifier();
      List<TableIdentifier> others =
          write.isCreate() ? head.state().createdAlike(table) : List.of();
      if (!others.isEmpty() && !isAbsent(head, table, others)) {
        throw TxnException.conflict(
            table,
            request.key().txnId(),
            Winner.NOBODY,
            head.upper(),
            "a table that it creates was created");
      }
    }
  }

  /** Whether the catalog has no table of a name when it has those of other letters. */
  private boolean isAbsent(Head head, TableIdentifier name, List<TableIdentifier> others) {
    applier.applyAll(head, Set.copyOf(others));
    try {
      tables.load(name, head, head.upper());
      return false;
    } catch (NoSuchTableException e) {
      return true;
    }
  }

  /**
   * Make entries of what strangers have appended to a table, and apply them. Who does so at the
   * same time makes the same ones; if strangers go on meanwhile, the rest is left to who comes
   * next, as it is after a wait: it waits for the older as the youngest does, and once.
   *
   * @return whether there was anything
   * @throws TxnException 55000 where it cannot be adopted, with the reason
   */
  public boolean adopt(TableIdentifier table) {
    return adopt(table, null, new Attempts());
  }

  /** Adopt for somebody as old as a claim says, null for nobody, who waits where this does. */
  private boolean adopt(TableIdentifier table, Turns.Claim adopter, Attempts waiting) {
    boolean adopted = false;
    boolean lost = false;
    long waitedMs = 0;
    for (int round = 0; round < ROUNDS && !(lost && waitedMs > 0); round++) {
      if (lost) {
        clock.backOff(BACK_OFF_MS << round);
      }
      Optional<CommitRequest> request = adoptionOf(table);
      if (request.isEmpty()) {
        return adopted;
      }
      try {
        commitOnce(request.get().by(adopter), List.of());
      } catch (TxnException e) {
        if (e.kind() != ErrorKind.CONFLICT && e.kind() != ErrorKind.COMMIT_STATE_UNKNOWN) {
          throw e;
        }
        LOG.debug("not adopted, looking again", e); // somebody was faster, or the next round tells
        lost = true;
        continue;
      } finally {
        waitedMs = request.get().key().attempts().waitedMs();
        waiting.waited(waitedMs);
      }
      lost = false;
      LOG.info(LogFields.of(table), "adopted what was appended past the log");
      adopted = true;
    }
    return adopted;
  }

  private Optional<CommitRequest> adoptionOf(TableIdentifier table) {
    try {
      return adoption.due(table);
    } catch (NoSuchTableException e) {
      return Optional.empty();
    } catch (TxnException e) {
      if (e.kind() != ErrorKind.UNSUPPORTED) {
        throw e;
      }
      throw TxnException.foreignWrite(
          table, "somebody has appended to the table, and " + e.getMessage());
    }
  }

  /**
   * Adopt what strangers have appended to the tables that a transaction writes. Who only appends
   * and has read nothing does not ask a catalog for it: those rows and his do not meet, whichever
   * come first.
   */
  private void adoptDue(CommitRequest request) {
    if (request.kind() != EntryKind.COMMIT || !request.adopts()) {
      return;
    }
    boolean looks = !births.shows(config.get(), log.newest()); // at its swap it sees them, else
    for (StagedTable write : request.writes().values()) {
      if (write.isCreate() || write.real() == null) {
        continue;
      }
      TableMetadata now = write.real().current();
      boolean blind = write.isAppendOnly() && request.reads().isBlind();
      if (looks && now != null && !blind && !adoption.isDue(now)) {
        now = tables.asItStands(write.identifier()).orElse(null);
      }
      if (adoption.isDue(now)) {
        adopt(write.identifier(), request.adopting(), request.key().attempts());
      }
    }
  }

  /** Adopt what applying has put aside just now, whose turn it was; else who writes next. */
  private void adoptKept(Entry entry) {
    Set<TableIdentifier> tables =
        entry.carried().stream().map(log.newest().state()::nameOf).collect(Collectors.toSet());
    for (TableIdentifier table : applier.takeKept(tables)) {
      try {
        adopt(table, Turns.Claim.NONE, new Attempts());
      } catch (RuntimeException e) {
        LOG.warn(LogFields.of(table), "what strangers appended is not adopted yet", e);
      }
    }
  }
}
