package io.txns.iceberg.commit;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.Rows;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.Replay;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Carries a change out in the swap that logs it, on a table whose row is locked (docs/spec.md
 * 11.3).
 *
 * <p>Nothing of it is left to an applier then. What only an applier can bring together, since
 * others stand in the way, goes into the entry's payload.
 */
final class Births {
  private static final TxnLogger LOG = TxnLogger.of(Births.class);

  private final Supplier<Optional<Rows>> rows;
  private final CommitLog log;
  private final DataTables tables;
  private final AllowedPlaces places;
  private final Applier applier;
  private final TxnClock clock;

  /**
   * Tables that others have written, the last time, between the first look at them and the lock.
   */
  private final Set<TableIdentifier> hurried = ConcurrentHashMap.newKeySet();

  /**
   * @param rows the catalog's; empty where each table has a swap of its own
   */
  Births(
      Supplier<Optional<Rows>> rows,
      CommitLog log,
      DataTables tables,
      AllowedPlaces places,
      Applier applier,
      TxnClock clock) {
    this.rows = rows;
    this.log = log;
    this.tables = tables;
    this.places = places;
    this.applier = applier;
    this.clock = clock;
  }

  /** Whether the swap of an entry looks at its tables as they are then, under a lock. */
  boolean shows(TxnConfig config, Head head) {
    return rows.get().isPresent() && config.movesTables(head.state().settings());
  }

  /**
   * Learn which tables others have written between the first look at them and the lock. Next time
   * nothing is written ahead for these: it would be made again under the lock, while the time of
   * the processor is what those who have the lock wait for.
   *
   * @param now what is to be written: what was staged, or what was staged anew
   */
  void learn(Map<TableIdentifier, StagedTable> staged, Map<TableIdentifier, StagedTable> now) {
    now.forEach(
        (table, write) -> {
          if (write == staged.get(table)) {
            hurried.remove(table);
          } else {
            hurried.add(table);
          }
        });
  }

  /**
   * Write what a swap will need, as far as tables were last seen as they were staged on: nobody is
   * asked whether they are still so. What is wrong with it, its attempt under the lock tells.
   *
   * @param writes those tables of the request that its swap may move with the log
   */
  Ahead ahead(CommitRequest request, Map<TableIdentifier, StagedTable> writes) {
    Head newest = log.newest();
    Map<TableIdentifier, StagedTable> wanted = new LinkedHashMap<>(writes);
    wanted.keySet().removeAll(hurried);
    if (wanted.isEmpty() || !newest.exists()) {
      return Ahead.NONE;
    }
    try {
      return rows.get().map(all -> ahead(all, newest, request, wanted)).orElse(Ahead.NONE);
    } catch (RuntimeException e) {
      LOG.debug("nothing is written ahead", e);
      return Ahead.NONE;
    }
  }

  private Ahead ahead(
      Rows all, Head newest, CommitRequest request, Map<TableIdentifier, StagedTable> writes) {
    long commitTs = Math.max(clock.nowMs(), newest.upper() + 1);
    Map<TableIdentifier, TableMetadata> seen = new LinkedHashMap<>();
    writes.forEach(
        (table, staged) -> asStaged(staged, newest).ifPresent(at -> seen.put(table, at)));
    Map<TableIdentifier, Object> changes = new HashMap<>();
    Map<TableIdentifier, Ahead.Staged> built = new HashMap<>();
    try (LockedRows looked = all.lookedAt(log.identifier(), seen)) {
      for (TableIdentifier table : seen.keySet()) {
        StagedTable staged = writes.get(table);
        StagedTable.Point point = staged.point();
        ChangeBuilder.Built change = request.built(staged, commitTs);
        LoggedChange logged = request.probe(change.change(), commitTs);
        boolean fits = strangerOn(seen.get(table), logged).isEmpty();
        built.put(table, new Ahead.Staged(point, change, fits));
        if (fits) {
          places.refuseToApply(table, seen.get(table), change.request().updates(), commitTs);
          applier.carryOut(
              logged, looked.operations(table), change.request(), Optional.empty(), false);
          changes.put(table, key(logged));
        }
      }
      return new Ahead(commitTs, looked.makeReady(changes), built);
    }
  }

  /** A table as it was read, where that is what was staged on and the log has no more of it. */
  private static Optional<TableMetadata> asStaged(StagedTable staged, Head newest) {
    if (staged.isCreate() || !(staged.real() instanceof BaseMetastoreTableOperations)) {
      return Optional.empty();
    }
    TableMetadata base = staged.base();
    return Optional.ofNullable(staged.real().current()) // null where it is not created yet
        .filter(
            real ->
                TableMark.of(real).isPresent()
                    && TableNames.uuid(real).equals(TableNames.uuid(base))
                    && TableMark.applied(real) == TableMark.applied(base)
                    && Objects.equals(History.mainId(real), History.mainId(base))
                    && newest.state().bornTs(TableNames.uuid(real)) <= TableMark.applied(real)
                    && !isOutstanding(newest, TableNames.uuid(real), TableMark.applied(real)));
  }

  private static Optional<Stranger> strangerOn(TableMetadata base, LoggedChange logged) {
    return LoggedState.of(base, TableMark.of(base).orElseThrow(), List.of(logged)).stranger();
  }

  /** What tells a change from all others that may be made of what was staged. */
  private static Object key(LoggedChange logged) {
    return List.of(logged.entry().txnId(), logged.commitTs(), logged.change().toSnapshotId());
  }

  /**
   * Say in the rows of a head what a change makes of its table, where nothing is in the way.
   *
   * @param head with the entries that stand before the change in the same swap
   * @param logged the change, which no head has yet
   * @param request what carries it out
   * @param ahead what was written before
   * @return false where an applier has to: something is to be applied before, or its row is not
   *     locked, or may not be made
   * @throws StrangerMet where somebody has appended: else an applier has to bring both together
   * @throws TxnException Quarantined where no applier could carry it out either: it does not fit on
   *     the table, or somebody has dropped or replaced that, or taken its mark; 40001 where the
   *     name is taken; CorruptLog where the log lacks what the table shows
   */
  boolean bear(Head head, LoggedChange logged, UpdateTableRequest request, Ahead ahead) {
    TableIdentifier table = logged.change().table();
    TableOperations real = head.rows().operations(table);
    TableMetadata base = real.current();
    if (base == null) {
      return isCreated(head, real, logged, request);
    }
    if (waits(head, base, logged, request)) {
      return false;
    }
    TableMark mark =
        TableMark.of(base).orElseThrow(() -> TxnException.quarantined(table, Stranger.MARK_TAKEN));
    tables.checkMark(table, base, mark, head);
    Optional<Stranger> stranger = strangerOn(base, logged);
    if (stranger.isPresent()) {
      if (!stranger.get().adoptable()) {
        throw stranger.get().quarantined(table);
      }
      throw new StrangerMet(table);
    }
    places.refuseToApply(table, base, request.updates(), logged.commitTs());
    boolean isLocked = head.rows().isLocked(table);
    if (isLocked && !head.rows().take(ahead.tables().get(table), key(logged))) {
      applier.carryOut(logged, real, request, Optional.empty(), false);
    }
    return isLocked;
  }

  /** Create a table that neither the catalog nor the log has. */
  private boolean isCreated(
      Head head, TableOperations real, LoggedChange logged, UpdateTableRequest request) {
    TableIdentifier table = logged.change().table();
    if (!Replay.creates(request)) {
      refuseLost(head, logged.change(), TxnException.missing(table));
      return false;
    }
    if (isOutstanding(head, logged.change().uuid(), 0)) {
      return false;
    }
    places.refuseToApply(table, null, request.updates(), logged.commitTs());
    if (!head.rows().mayCreate(table)) {
      return false;
    }
    real.commit(null, Replay.create(logged, request, clock.nowMs()));
    return true;
  }

  /** Whether something is to be applied before, or the table itself to be made. */
  private boolean waits(
      Head head, TableMetadata base, LoggedChange logged, UpdateTableRequest request) {
    TableIdentifier table = logged.change().table();
    if (TableNames.uuid(base).equals(logged.change().uuid())) {
      return isOutstanding(head, TableNames.uuid(base), TableMark.applied(base));
    }
    if (Replay.creates(request)) {
      throw TxnException.conflict(
          table,
          logged.entry().txnId(),
          Winner.NOBODY,
          head.upper(),
          "somebody has made another table of that name");
    }
    refuseLost(head, logged.change(), Stranger.ofTakenName(base).quarantined(table));
    return true;
  }

  /** Refuse a change of a table that is not there, unless an applier has yet to make it. */
  private void refuseLost(Head head, Change change, TxnException why) {
    boolean expected =
        head.state()
            .creation(change.table(), head.upper())
            .filter(creation -> creation.change().uuid().equals(change.uuid()))
            .isPresent();
    if (!expected || tables.wasCreated(change.uuid(), head)) {
      throw why;
    }
  }

  private static boolean isOutstanding(Head head, String uuid, long appliedTs) {
    return !head.state().changes(uuid, appliedTs, head.upper()).isEmpty();
  }
}
