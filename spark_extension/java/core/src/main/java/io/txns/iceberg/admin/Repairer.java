package io.txns.iceberg.admin;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.Winner;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.catalog.TableDrop;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitRequest;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.ColumnIds;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.Refusal;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.SnapshotCopy;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/** Ends what strangers did to a table: takes it in, or puts the logged state back. */
public final class Repairer {
  private static final TxnLogger LOG = TxnLogger.of(Repairer.class);

  private final CommitLog log;
  private final DataTables tables;
  private final WriteChecks checks;
  private final Applier applier;
  private final Committer committer;
  private final TxnClock clock;

  public Repairer(Services services) {
    this.log = services.log();
    this.tables = services.tables();
    this.checks = services.checks();
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
    Newest newest = newest(identifier);
    Loaded loaded = newest.loaded();
    boolean setBack = loaded.stranger().filter(one -> one.lost() != null).isPresent();
    if (loaded.dropped() && !setBack) { // of one that was set back there is nothing to reject
      throw TxnException.unsupported(
          String.format(
              "the log has dropped the table, so nothing is adopted into it: use action =>"
                  + " 'reject', which keeps what was written on a branch; table=`%s`",
              identifier));
    }
    StagedTable staged = markedAgain(loaded);
    Stranger stranger = onBranch(loaded, staged);
    if (stranger == null) {
      stranger = strangerOf(loaded);
    }
    if (!stranger.adoptable()) {
      return adoptState(newest.head(), loaded, stranger);
    }
    append(staged, loaded, stranger);
    return repair(EntryKind.ADOPT, "adopt", loaded, staged, stranger, adopted(stranger));
  }

  /** Put the logged state back on main; what strangers wrote stays on a branch. */
  public long reject(TableIdentifier identifier) {
    Newest newest = newest(identifier);
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
    StagedTable staged = markedAgain(loaded);
    if (loaded.dropped()) {
      // A copy of the marker would not be one.
      staged.stage(staged.current(), TableDrop.marked(staged.current(), staged.real()));
    }
    return repair(EntryKind.REPAIR, "reject", loaded, staged, stranger, Map.of());
  }

  /** A table staged for its repair, with the mark that a stranger took. */
  private StagedTable markedAgain(Loaded loaded) {
    StagedTable staged = StagedTable.of(loaded);
    TableMetadata base = staged.current();
    if (loaded.registered() && TableMark.of(base).isEmpty()) {
      Map<String, String> mark =
          new HashMap<>(
              TableMark.properties(log.identifier(), log.load().logId(), TableNames.uuid(base)));
      mark.putAll(Retention.properties(base.properties()));
      staged.stage(base, TableMetadata.buildFrom(base).setProperties(mark).build());
    }
    return staged;
  }

  /**
   * A stranger that apply has kept on a branch; the branch goes when its rows are taken in.
   *
   * @return null where a stranger stands on main, or none is left
   */
  private static Stranger onBranch(Loaded loaded, StagedTable staged) {
    if (!loaded.registered() || loaded.stranger().isPresent()) {
      return null;
    }
    TableMetadata metadata = staged.current();
    String refused = null;
    for (Map.Entry<String, SnapshotRef> ref : metadata.refs().entrySet()) {
      long head = ref.getValue().snapshotId();
      Optional<Stranger> stranger =
          ref.getKey().startsWith(TableMark.FOREIGN_BRANCH)
              ? Stranger.above(metadata, head)
              : Optional.empty();
      if (stranger.isEmpty()) {
        continue;
      }
      String reason = notAdoptable(metadata, stranger.get(), head);
      if (reason == null) {
        staged.stage(metadata, TableMetadata.buildFrom(metadata).removeRef(ref.getKey()).build());
        return stranger.get();
      }
      refused =
          refused == null
              ? String.format("what the branch %s holds %s", ref.getKey(), reason)
              : refused;
    }
    if (refused != null) {
      throw TxnException.unsupported(
          String.format(
              "%s: put it back by hand and drop the branch; table=`%s`",
              refused, loaded.identifier()));
    }
    return null;
  }

  /** Why nothing is adopted from a branch; null where it is. */
  private static String notAdoptable(TableMetadata metadata, Stranger stranger, long head) {
    if (Stranger.isCutOff(metadata, head)) {
      return "stands on nothing that is known";
    }
    if (Stranger.isOfDropped(metadata, head)) {
      return "belongs to the table that was dropped before this one was created";
    }
    return stranger.adoptable() ? null : "does more than append";
  }

  private long repair(
      EntryKind kind,
      String deed,
      Loaded loaded,
      StagedTable staged,
      Stranger stranger,
      Map<String, String> marks) {
    // Of the table, not of the view: whoever comes before a repair is applied makes the same.
    // It may be set back twice to the same metadata, from another place each time.
    long applied = loaded.table() == null ? 0 : TableMark.applied(loaded.real().current());
    applied = stranger.lost() == null ? applied : stranger.lost().upto();
    long head = stranger.headSnapshotId() == null ? 0 : stranger.headSnapshotId();
    String txnId = Entry.derivedId(deed, TableNames.uuid(staged.base()), head + ":" + applied);
    return commit(kind, txnId, loaded, staged, marks);
  }

  private long commit(
      EntryKind kind, String txnId, Loaded loaded, StagedTable staged, Map<String, String> marks) {
    return committer
        .commitOnce(
            new CommitRequest(
                kind,
                new CommitGroup.Key(txnId, 0, CommitGroup.Origin.DERIVED),
                loaded.readTs(),
                clock.nowMs(),
                Isolation.SNAPSHOT,
                "",
                new ReadSet(),
                false,
                Map.of(loaded.identifier(), staged),
                marks,
                new Leftovers(log),
                CommitRequest.ALLOWED),
            List.of())
        .commitTs();
  }

  /** The strangers' files, appended after the newest change. */
  private void append(StagedTable staged, Loaded loaded, Stranger stranger) {
    Table source = loaded.table();
    AppendFiles append =
        new BaseTable(staged.operations(), staged.identifier().toString()).newFastAppend();
    for (int i = stranger.snapshotIds().size() - 1; i >= 0; i--) {
      checkColumns(staged, source, source.snapshot(stranger.snapshotIds().get(i)));
      Iterable<DataFile> files =
          SnapshotChanges.builderFor(source)
              .snapshot(source.snapshot(stranger.snapshotIds().get(i)))
              .build()
              .addedDataFiles();
      files.forEach(append::appendFile);
    }
    append.commit();
  }

  /** Refuse files in which the id of a column stands for something else in the log. */
  private static void checkColumns(StagedTable staged, Table source, Snapshot foreign) {
    Schema theirs = foreign.schemaId() == null ? null : source.schemas().get(foreign.schemaId());
    if (theirs == null) {
      return;
    }
    Schema logged = staged.current().schema();
    Map<Integer, Types.NestedField> written = TypeUtil.indexById(theirs.asStruct());
    TypeUtil.indexById(logged.asStruct())
        .forEach(
            (id, field) -> {
              Types.NestedField other = written.get(id);
              if (other == null) {
                return;
              }
              String ours = logged.findColumnName(id);
              String name = theirs.findColumnName(id);
              if (!ours.equals(name)) {
                throw otherColumn(staged, ours, name);
              }
              if (!ColumnIds.readsAs(other.type(), field.type())) {
                throw otherColumn(staged, ours + " " + field.type(), name + " " + other.type());
              }
            });
  }

  private static TxnException otherColumn(StagedTable staged, String ours, String theirs) {
    return TxnException.unsupported(
        String.format(
            "the column `%s` of the log is `%s` in what was written: use action => 'reject', put"
                + " what is on the branch back by hand, and drop the branch; table=`%s`",
            ours, theirs, staged.identifier()));
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
    StagedTable staged = markedAgain(loaded);
    Snapshot theirs = loaded.real().current().currentSnapshot();
    if (standsDropped) {
      staged.stage(staged.current(), TableDrop.marked(staged.current(), staged.real()));
    } else {
      SnapshotCopy.stage(staged, theirs, staged.current().currentSnapshot());
    }
    return repair(EntryKind.REPAIR, "adopt", loaded, staged, standing, adopted(standing));
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

  /** The summary keys that name what an adoption takes in, and what it gives up. */
  private static Map<String, String> adopted(Stranger stranger) {
    String ids = stranger.takenIn().stream().map(String::valueOf).collect(Collectors.joining(","));
    Map<String, String> marks = new HashMap<>();
    if (!ids.isEmpty()) {
      marks.put(TableMark.SNAPSHOT_ADOPTED, ids);
    }
    if (stranger.lost() != null) {
      marks.put(TableMark.SNAPSHOT_LOST_ABOVE, Long.toString(stranger.lost().above()));
    }
    return marks;
  }

  /** A table as of the upper of a head. */
  private record Newest(Head head, Loaded loaded) {}

  private Newest newest(TableIdentifier identifier) {
    Head head = log.loadIfExists();
    if (head.exists() && !applier.apply(head, identifier)) {
      LOG.info(LogFields.of(identifier), "entries stay unapplied before a repair");
    }
    Head newest = log.loadIfExists();
    Loaded loaded = tables.loadWithDropped(identifier, newest, newest.upper());
    Optional<Stranger> stranger = loaded.stranger();
    if (stranger.isPresent() && stranger.get().cure() != null) {
      throw stranger.get().quarantined(identifier);
    }
    if (loaded instanceof Loaded.Viewed) {
      checks.refuseElsewhere(loaded);
    }
    return new Newest(newest, loaded);
  }

  /** Who stands in the way of what is logged, and has left {@code main} as it was. */
  private Optional<Stranger> inTheWay(Newest newest) {
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
