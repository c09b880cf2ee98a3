package io.txns.iceberg.admin;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.catalog.TableDrop;
import io.txns.iceberg.commit.Adoption;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.commit.CommitRequest;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.Refusal;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.SnapshotCopy;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;

/** Ends what strangers did to a table: takes it in, or puts the logged state back. */
public final class Repairer {
  private final Adoption adoption;
  private final CommitLog log;
  private final DataTables tables;
  private final Applier applier;
  private final Committer committer;
  private final TxnClock clock;

  public Repairer(Services services) {
    this.adoption = services.adoption();
    this.log = services.log();
    this.tables = services.tables();
    this.applier = services.applier();
    this.committer = services.committer();
    this.clock = services.clock();
  }

  /**
   * Make what strangers wrote an entry of its own: after it, readers see it.
   *
   * @throws TxnException 0A000 when there is nothing to adopt, or other changes have been logged
   *     since that it does not fit on; 55000 where no repair ends what was done to the table
   */
  public long adopt(TableIdentifier identifier) {
    Adoption.Newest newest = adoption.newest(identifier);
    Loaded loaded = newest.loaded();
    boolean setBack = loaded.stranger().filter(one -> one.lost() != null).isPresent();
    if (loaded.dropped() && !setBack) { // of one that was set back there is nothing to reject
      throw TxnException.unsupported(
          String.format(
              "the log has dropped the table, so nothing is adopted into it: use action =>"
                  + " 'reject', which keeps what was written on a branch; table=`%s`",
              identifier));
    }
    StagedTable staged = adoption.markedAgain(loaded);
    Stranger stranger = Adoption.onBranch(loaded, staged);
    if (stranger == null) {
      stranger = strangerOf(loaded);
    }
    if (!stranger.adoptable()) {
      return adoptState(newest.head(), loaded, stranger);
    }
    return committed(adoption.ofAppend(loaded, staged, stranger));
  }

  /** Put the logged state back on main; what strangers wrote stays on a branch. */
  public long reject(TableIdentifier identifier) {
    Adoption.Newest newest = adoption.newest(identifier);
    Loaded loaded = newest.loaded();
    Stranger stranger = inTheWay(newest).orElseGet(() -> strangerOf(loaded));
    if (stranger.lost() != null) {
      throw TxnException.unsupported(
          String.format(
              "what the log has is in no snapshot of the table: register its newest metadata in the"
                  + " catalog again, or use action => 'adopt', which takes the table as it stands;"
                  + " table=`%s`",
              identifier));
    }
    StagedTable staged = adoption.markedAgain(loaded);
    if (loaded.dropped()) {
      // A copy of the marker would not be one.
      staged.stage(staged.current(), TableDrop.marked(staged.current(), staged.real()));
    }
    return committed(
        adoption.request(EntryKind.REPAIR, "reject", loaded, staged, stranger, Map.of()));
  }

  private long committed(CommitRequest request) {
    return committer.commitOnce(request, List.of()).commitTs();
  }

  /**
   * Take the strangers' state as it is, under a snapshot of ours with a manifest list of its own.
   *
   * <p>It stands on a footing: what the catalog itself has, whatever a replica of it gave. A table
   * that was set back to where it was dropped is dropped, under one more marker.
   */
  private long adoptState(Head head, Loaded judged, Stranger stranger) {
    if (head.state().off()) {
      throw TxnException.off(); // before the table has a footing
    }
    refuseOutstanding(head, judged, stranger);
    boolean standsDropped = stranger.lost() != null && standsDropped(judged);
    Loaded loaded = onFooting(head, judged, stranger);
    Stranger standing = strangerOf(loaded);
    StagedTable staged = adoption.markedAgain(loaded);
    Snapshot theirs = loaded.real().current().currentSnapshot();
    if (standsDropped) {
      staged.stage(staged.current(), TableDrop.marked(staged.current(), staged.real()));
    } else {
      SnapshotCopy.stage(staged, theirs, staged.current().currentSnapshot());
    }
    Map<String, String> marks = Adoption.takenIn(standing);
    return committed(adoption.request(EntryKind.REPAIR, "adopt", loaded, staged, standing, marks));
  }

  /**
   * Whether a table was set back to where the log had dropped it: nothing is adopted into it.
   *
   * @throws TxnException 0A000 where somebody wrote on the marker, which a purge would take for the
   *     log's
   */
  private boolean standsDropped(Loaded loaded) {
    TableMetadata metadata = loaded.real().current();
    TableMark without = new TableMark(log.identifier(), "", 0, TableMark.applied(metadata));
    LoggedState stands = LoggedState.of(metadata, TableMark.of(metadata).orElse(without));
    if (!TableMark.isDropped(stands.snapshot())) {
      return false;
    }
    if (stands.stranger().isPresent()) {
      throw TxnException.unsupported(
          String.format(
              "the table was set back to where the log had dropped it, and somebody wrote it since:"
                  + " put `main` back on that snapshot with plain Iceberg, keeping what was written"
                  + " on a branch, and use action => 'adopt' again, which leaves it dropped;"
                  + " snapshot=`%d` table=`%s`",
              stands.snapshot().snapshotId(), loaded.identifier()));
    }
    return true;
  }

  /**
   * Refuse a state that lacks what is logged since, unless the table was set back: that has nothing
   * to stand on, and the repair ends it.
   */
  private static void refuseOutstanding(Head head, Loaded loaded, Stranger stranger) {
    // The table's own: the view's mark counts what is only laid over it.
    TableMetadata stored = loaded.real().current();
    if (stranger.lost() == null && !TableMark.outstanding(stored, head).isEmpty()) {
      throw TxnException.unsupported(
          String.format(
              "other transactions have committed to the table since: use action => 'reject', and"
                  + " put what is on the branch back by hand; table=`%s`",
              loaded.identifier()));
    }
  }

  /** A table on its footing, which is still what somebody wants to adopt. */
  private Loaded onFooting(Head head, Loaded judged, Stranger stranger) {
    BaseTable table = (BaseTable) judged.table();
    long applied = TableMark.applied(table.operations().current());
    putFooting(judged.identifier(), table.operations(), head);
    Loaded again = tables.seen(judged.identifier(), table, head);
    boolean same = TableMark.applied(table.operations().current()) == applied;
    boolean kept =
        again.registered()
            && again
                .stranger()
                .filter(found -> !found.adoptable())
                .filter(found -> (found.lost() == null) == (stranger.lost() == null))
                .isPresent();
    if (!same || !kept) {
      throw otherState(judged.identifier(), head, null);
    }
    return again;
  }

  /**
   * Put a copy of {@code main} on it, which the catalog does only if that is where it has {@code
   * main}.
   *
   * <p>Whatever the answer is, unless it is won, another load decides: who sees the footing there
   * knows that the table was as it was judged.
   *
   * @throws TxnException 40001 where it is not known to be there
   * @throws RuntimeException nor is it, and the catalog has refused it
   */
  private void putFooting(TableIdentifier identifier, TableOperations real, Head head) {
    long footing = real.newSnapshotId();
    Long main = History.mainId(real.current());
    RuntimeException unclear = null;
    try {
      Timestamps.commit(
          real,
          real.current(),
          clock.nowMs(),
          base -> TableRecovery.footing(identifier, real, base, footing, clock));
    } catch (RuntimeException e) {
      unclear = e;
    }
    Long after = History.mainId(unclear == null ? real.current() : real.refresh());
    if (Objects.equals(after, footing)) {
      return;
    }
    if (unclear != null && Refusal.is(unclear) && Objects.equals(after, main)) {
      throw unclear;
    }
    throw otherState(identifier, head, unclear);
  }

  private static TxnException otherState(
      TableIdentifier identifier, Head head, RuntimeException cause) {
    TxnException conflict =
        TxnException.conflict(
            identifier,
            "",
            Winner.NOBODY,
            head.upper(),
            "the catalog has another state of the table than it gave, by a replica that lags or"
                + " since somebody has changed it: nothing is adopted, look at the table again");
    if (cause != null) {
      conflict.addSuppressed(cause);
    }
    return conflict;
  }

  /** Who stands in the way of what is logged, and has left {@code main} as it was. */
  private Optional<Stranger> inTheWay(Adoption.Newest newest) {
    Loaded loaded = newest.loaded();
    if (!loaded.registered() || loaded.table() == null || loaded.stranger().isPresent()) {
      return Optional.empty();
    }
    try {
      applier.applyRun(newest.head(), loaded.identifier());
      return Optional.empty();
    } catch (TxnException e) {
      return e.kind() == ErrorKind.QUARANTINED
          ? Optional.of(Stranger.elsewhere(loaded.real().current(), e.getMessage()))
          : Optional.empty();
    }
  }

  private static Stranger strangerOf(Loaded loaded) {
    if (!loaded.registered()) {
      throw TxnException.unsupported(
          String.format(
              "there is nothing to repair, since the table is not under care: CALL"
                  + " system.register(table => '%1$s') takes it as it stands; table=`%1$s`",
              loaded.identifier()));
    }
    if (loaded.stranger().isEmpty()) {
      throw TxnException.unsupported(
          String.format(
              "there is nothing to repair: nobody wrote the table outside the protocol;"
                  + " table=`%s`",
              loaded.identifier()));
    }
    return loaded.stranger().get();
  }
}
