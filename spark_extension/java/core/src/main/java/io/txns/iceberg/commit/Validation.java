package io.txns.iceberg.commit;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
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
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.log.Payloads;
import io.txns.iceberg.log.Permitted;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.MergedManifests;
import io.txns.iceberg.meta.Places;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.Restager;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.Replay;
import io.txns.iceberg.table.TableMark;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiPredicate;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * One attempt of a commit: what was staged validated on top of a head, what has moved restaged, and
 * the entry made, or why not.
 */
final class Validation {
  private static final String LACKS =
      " lacks what it was read with: a record of the log was made void";
  private static final String VOID = "a table that it wrote" + LACKS;

  private final Supplier<TxnConfig> config;
  private final CommitLog log;
  private final Timeline timeline;
  private final DataTables tables;
  private final AllowedPlaces places;
  private final TxnClock clock;
  private final Births births;

  Validation(
      Supplier<TxnConfig> config,
      CommitLog log,
      Timeline timeline,
      DataTables tables,
      AllowedPlaces places,
      TxnClock clock,
      Births births) {
    this.births = births;
    this.config = config;
    this.log = log;
    this.timeline = timeline;
    this.tables = tables;
    this.places = places;
    this.clock = clock;
  }

  /**
   * Make the entry that follows a head.
   *
   * @param ahead what was written for it before
   * @throws TxnException 40001, 25P04, or what else refuses it there; it is not committed
   */
  Entry entry(CommitRequest request, Head head, long commitTs, Ahead ahead) {
    refuseOld(request, head.state());
    request.judge().accept(head.state());
    Leftovers leftovers = request.leftovers();
    Map<TableIdentifier, StagedTable> writes = validated(request, head, leftovers);
    births.learn(request.writes(), writes);
    refuseVoid(request, head);
    return entry(request, head, commitTs, writes, ahead);
  }

  private void refuseOld(CommitRequest request, LogState state) {
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
      CommitRequest request, Head head, Leftovers leftovers) {
    Map<TableIdentifier, StagedTable> writes = new LinkedHashMap<>(request.writes());
    List<Entry> newer = newer(request, head, (entry, change) -> true);
    Map<TableIdentifier, Map<String, Winner>> moved = new LinkedHashMap<>();
    note(newer, moved, change -> ConflictChecker.OF_FILES.contains(change.operation()));
    note(newer, moved, change -> !ConflictChecker.OF_FILES.contains(change.operation()));
    moved.keySet().retainAll(writes.keySet());
    request.writes().entrySet().stream()
        .filter(write -> standsOnWhatHasLeft(write.getValue(), head.state()))
        .forEach(write -> moved.putIfAbsent(write.getKey(), Map.of()));
    moved.forEach(
        (table, winners) ->
            writes.put(table, restaged(request, head, writes.get(table), winners, leftovers)));
    writes.replaceAll(
        (table, write) ->
            mergesUnapplied(write)
                ? restagedOn(request, write, write.base(), Winner.NOBODY, head, leftovers)
                : write);
    return writes;
  }

  /** Note by table who has made some of the changes since. */
  private static void note(
      List<Entry> newer, Map<TableIdentifier, Map<String, Winner>> moved, Predicate<Change> which) {
    for (Entry entry : newer) {
      for (Change change : entry.changes()) {
        if (which.test(change)) {
          moved
              .computeIfAbsent(change.table(), table -> new LinkedHashMap<>())
              .put(entry.txnId(), entry.winner());
        }
      }
    }
  }

  /**
   * The entries above what a transaction has read: none of them clashes with it.
   *
   * @param which of their changes it is held against
   * @throws TxnException 40001: one does
   */
  List<Entry> newer(CommitRequest request, Head head, BiPredicate<Entry, Change> which) {
    List<Entry> newer = timeline.above(head.state(), request.readTs());
    Optional<FileConflicts> files =
        request.byFile()
            ? Optional.of(
                new FileConflicts(
                    request.reads(),
                    ids(newer),
                    table -> standing(table, head),
                    head::atWork,
                    request.met()))
            : Optional.empty();
    new ConflictChecker(
            request.key().txnId(), request.isolation(), request.reads(), request.writes(), files)
        .validate(newer, which);
    return newer;
  }

  private static Set<String> ids(List<Entry> entries) {
    return entries.stream().map(Entry::txnId).collect(Collectors.toSet());
  }

  /** Hold against its table what was read before it was applied, and has left the log. */
  private void refuseVoid(CommitRequest request, Head head) {
    Set<Long> standing =
        head.state().entries().stream().map(Entry::commitTs).collect(Collectors.toSet());
    request
        .reads()
        .left(standing)
        .forEach(
            (table, left) -> {
              if (!tables.shows(table, left.uuid(), left.newestTs())) {
                throw TxnException.conflict(
                    table,
                    request.key().txnId(),
                    Winner.NOBODY,
                    head.upper(),
                    "a table that it read" + LACKS + ", or somebody has taken the table away");
              }
            });
  }

  /** Whether something has left the head that was outstanding when a table was read. */
  private static boolean standsOnWhatHasLeft(StagedTable write, LogState state) {
    Set<Long> outstanding = outstanding(write);
    state.entries().forEach(entry -> outstanding.remove(entry.commitTs()));
    return !outstanding.isEmpty();
  }

  /** The {@code commit_ts} in ms of what was not applied to a table when it was read. */
  private static Set<Long> outstanding(StagedTable write) {
    if (write.isCreate()) {
      return new HashSet<>();
    }
    TableMetadata known = write.real().current();
    return OurSnapshots.above(write.base(), known == null ? 0 : TableMark.applied(known));
  }

  /**
   * Whether what was staged may be made again as one operation. In a format that numbers rows its
   * files may hold the numbers of rows that were not applied yet, and get others.
   */
  private static boolean goesByFiles(CommitRequest request, StagedTable staged) {
    return request.byFile()
        && staged.changesOnlyFiles()
        && (staged.base().formatVersion() < 3 || outstanding(staged).isEmpty());
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

  /**
   * What was staged, made again on a head's state of its table, where that can be.
   *
   * @param winners who has written the table since, by their ids, in order, who has altered it
   *     last; none where a record was made void
   */
  private StagedTable restaged(
      CommitRequest request,
      Head head,
      StagedTable staged,
      Map<String, Winner> winners,
      Leftovers leftovers) {
    Winner winner = winners.values().stream().reduce(Winner.NOBODY, (before, next) -> next);
    TableIdentifier table = staged.identifier();
    String txnId = request.key().txnId();
    Loaded loaded;
    try {
      loaded = ChangeBuilder.recreates(staged) ? dropped(table, head) : standing(table, head);
      if (!TableNames.uuid(loaded.metadata()).equals(TableNames.uuid(staged.base()))) {
        throw new NoSuchTableException("Table does not exist: %s", table);
      }
    } catch (NoSuchTableException e) {
      String dropped = "a table that it appended to was dropped";
      throw TxnException.conflict(
          table, txnId, winner, head.upper(), winner == Winner.NOBODY ? VOID : dropped);
    }
    TableMetadata newBase = loaded.metadata();
    if (newBase.currentSnapshot().snapshotId() == staged.base().currentSnapshot().snapshotId()) {
      return staged;
    }
    // What it adopts may have been adopted since, or stand on a branch of its own now.
    boolean appends = staged.isAppendOnly() && request.kind() != EntryKind.ADOPT;
    boolean byFile = !winners.isEmpty() && goesByFiles(request, staged);
    if (!appends && !byFile) {
      String written = "a table that it wrote was written";
      throw TxnException.conflict(
          table, txnId, winner, head.upper(), winner == Winner.NOBODY ? VOID : written);
    }
    places.refuseToWrite(table, loaded.real() == null ? null : loaded.real().current(), newBase);
    if (appends) {
      return restagedOn(request, staged, newBase, winner, head, leftovers);
    }
    head.atWork();
    leftovers.versionOf(staged);
    StagedTable restaged = Restager.asOne(staged, newBase, txnId, winner, winners, head.upper());
    leftovers.versionOf(restaged);
    return restaged;
  }

  /** A table as a head has it; under a lock with what the swap makes of it so far. */
  private Loaded standing(TableIdentifier table, Head head) {
    return moving(table, head)
        .map(real -> tables.live(table, real, head))
        .orElseGet(() -> tables.load(table, head, head.upper()));
  }

  /** One that the log has dropped, whether that is applied to it or not. */
  private Loaded dropped(TableIdentifier table, Head head) {
    return moving(table, head)
        .map(real -> tables.seen(table, real, head))
        .orElseGet(() -> tables.loadWithDropped(table, head, head.upper()));
  }

  private static Optional<BaseTable> moving(TableIdentifier table, Head head) {
    head.atWork();
    if (head.rows() == null || !head.rows().has(table)) {
      return Optional.empty();
    }
    TableOperations real = head.rows().operations(table);
    return real.current() == null
        ? Optional.empty()
        : Optional.of(new BaseTable(real, table.toString()));
  }

  private static StagedTable restagedOn(
      CommitRequest request,
      StagedTable staged,
      TableMetadata newBase,
      Winner winner,
      Head head,
      Leftovers leftovers) {
    head.atWork();
    leftovers.versionOf(staged);
    StagedTable restaged =
        Restager.restage(staged, newBase, request.key().txnId(), winner, head.upper());
    leftovers.versionOf(restaged);
    return restaged;
  }

  private Entry entry(
      CommitRequest request,
      Head head,
      long commitTs,
      Map<TableIdentifier, StagedTable> writes,
      Ahead ahead) {
    Limits.checkTables(writes.size());
    List<Change> changes = new ArrayList<>();
    List<UpdateTableRequest> requests = new ArrayList<>();
    for (StagedTable staged : writes.values()) {
      Optional<Ahead.Staged> before = ahead.changeOf(staged, commitTs);
      ChangeBuilder.Built built =
          before.map(Ahead.Staged::built).orElseGet(() -> request.built(staged, commitTs));
      LoggedChange logged = request.probe(built.change(), commitTs);
      checkPermitted(staged, logged, built.request());
      if (!before.map(Ahead.Staged::isCarriedOut).orElse(false)) {
        checkFits(staged, built, logged, request);
      }
      if (isBorn(request, head, logged, built, ahead)) {
        changes.add(built.change().born());
      } else {
        changes.add(built.change());
        requests.add(built.request());
      }
    }
    Entry.Payload payload = stored(request, head, requests, request.leftovers());
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

  /** Whether the swap of the entry itself is to move a table: its row says so from then on. */
  private boolean isBorn(
      CommitRequest request,
      Head head,
      LoggedChange logged,
      ChangeBuilder.Built built,
      Ahead ahead) {
    if (request.kind() != EntryKind.COMMIT
        || head.rows() == null
        || !head.rows().has(logged.change().table())
        || !config.get().movesTables(head.state().settings())) {
      return false;
    }
    try {
      return births.bear(head, logged, built.request(), ahead);
    } catch (StrangerMet e) {
      if (request.adopts() && request.key().attempts().adopts()) {
        throw e;
      }
      return false; // who applies it keeps what they have, for an adoption after it
    }
  }

  private Entry.Payload stored(
      CommitRequest request, Head head, List<UpdateTableRequest> requests, Leftovers leftovers) {
    if (requests.isEmpty()) {
      return Entry.Payload.NONE;
    }
    String json = CommitTransactionRequestParser.toJson(new CommitTransactionRequest(requests));
    Limits.checkPayload(json);
    return leftovers.store(head, request.key().txnId(), json, clock.nowMs());
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
                  + " code or reach storage is set with the catalog itself, past the protocol; one that"
                  + " they parse has a value that they can parse;"
                  + " update=`%s` table=`%s`",
              forbidden.get(), table));
    }
    for (String path :
        Places.misplacedFiles(staged.isCreate() ? null : staged.base(), request.updates())) {
      throw TxnException.unsupported(
          String.format(
              "the table's manifest lists, or statistics, do not lie below its metadata location, the"
                  + " only place where transactions read them; file=`%s` table=`%s`",
              path, table));
    }
    if (change.change().operation() == Operation.APPEND) {
      return; // a snapshot, and main
    }
    try {
      Payloads.checkReadable(request);
    } catch (IOException | IllegalArgumentException e) {
      throw TxnException.unsupported(
          String.format(
              "no other reader would take such a change, leave it out; nothing was committed;"
                  + " table=`%s`: %s",
              table, e.getMessage()));
    }
  }

  /** What does not fit its own base must not enter the log: it would quarantine the table. */
  private void checkFits(
      StagedTable staged, ChangeBuilder.Built built, LoggedChange change, CommitRequest request) {
    try {
      if (staged.isCreate()) {
        Replay.create(change, built.request(), clock.nowMs());
      } else {
        Replay.replay(staged.base(), change, built.request(), clock.nowMs());
      }
    } catch (TxnException | IllegalArgumentException e) {
      throw TxnException.conflict(
          staged.identifier(),
          request.key().txnId(),
          Winner.NOBODY,
          change.commitTs(),
          "its change does not fit the table: " + e.getMessage());
    }
  }
}
