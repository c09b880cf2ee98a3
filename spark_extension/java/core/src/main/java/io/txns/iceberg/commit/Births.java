package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.Replay;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Optional;
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
  private final DataTables tables;
  private final AllowedPlaces places;
  private final Applier applier;
  private final TxnClock clock;

  Births(DataTables tables, AllowedPlaces places, Applier applier, TxnClock clock) {
    this.tables = tables;
    this.places = places;
    this.applier = applier;
    this.clock = clock;
  }

  /**
   * Say in the rows of a head what a change makes of its table, where nothing is in the way.
   *
   * @param head with the entries that stand before the change in the same swap
   * @param logged the change, which no head has yet
   * @param request what carries it out
   * @return false where an applier has to: something is to be applied before, somebody has
   *     appended, or its row is not locked, or may not be made
   * @throws TxnException Quarantined where no applier could carry it out either: it does not fit on
   *     the table, or somebody has dropped or replaced that, or taken its mark; 40001 where the
   *     name is taken; CorruptLog where the log lacks what the table shows
   */
  boolean bear(Head head, LoggedChange logged, UpdateTableRequest request) {
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
    Optional<Stranger> stranger = LoggedState.of(base, mark, List.of(logged)).stranger();
    if (stranger.isPresent()) {
      if (!stranger.get().adoptable()) {
        throw stranger.get().quarantined(table);
      }
      return false;
    }
    places.refuseToApply(table, base, request.updates(), logged.commitTs());
    boolean isLocked = head.rows().isLocked(table);
    if (isLocked) {
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
    if (base.uuid().equals(logged.change().uuid())) {
      return isOutstanding(head, base.uuid(), TableMark.applied(base));
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
