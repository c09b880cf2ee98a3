package io.txns.iceberg.admin;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitLoop;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Engine;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Limits;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.SnapshotCopy;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.LongStream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;

/**
 * Brings one table into the epoch of a log that was recovered (docs/spec.md 9.6, step 4).
 *
 * <p>{@code txns recover} does that for all tables that pyiceberg writes; this is for the others.
 */
public final class TableRecovery {
  private final Catalog delegate;
  private final CommitLog log;
  private final CommitLoop loop;
  private final Timeline timeline;
  private final DataTables tables;
  private final TxnClock clock;

  public TableRecovery(Services services) {
    this.delegate = services.delegate();
    this.log = services.log();
    this.loop = services.loop();
    this.timeline = services.timeline();
    this.tables = services.tables();
    this.clock = services.clock();
  }

  /**
   * Mark a table with the log's epoch, and put a footing on its {@code main}; one that has it
   * already is left as it is.
   *
   * <p>Where the log has entries that the table is passed over by, the footing stands for one that
   * gives them up, which is logged before: until the table has it, nobody of either epoch reads or
   * writes it. Where a recovery has moved what the table shows, it stands for the last of that.
   *
   * @return the log's upper, in ms
   * @throws TxnException XX001 where the log lacks what the table shows; 0A000 where no log of this
   *     name has marked it, or transactions are off and something is to be given up; 55000 where
   *     somebody has written it outside the protocol, which would become the log's
   */
  public long recover(TableIdentifier identifier) {
    TableOperations real = ((BaseTable) delegate.loadTable(identifier)).operations();
    TableMetadata base = real.current();
    Head head = log.load();
    TableMark mark =
        TableMark.of(base)
            .filter(one -> one.commitTable().equals(log.identifier()))
            .orElseThrow(
                () ->
                    TxnException.unsupported(
                        "no log of this name has marked the table: register it; table=`"
                            + identifier
                            + "`"));
    boolean belongs = mark.logId().equals(head.logId());
    Line line = Line.of(base, mark);
    List<Entry> logged =
        belongs
            ? List.of()
            : timeline.ofTable(
                head.state(), line.uuid(), line.after(head.state().settings().idRetentionMs()));
    List<Entry> moved = line.moved(logged);
    // A late registration shows nothing that the log could lack.
    boolean registered = !belongs && line.isLate() && line.late().isEmpty();
    boolean elsewhere = !moved.isEmpty() || line.showsLater(logged);
    if (!elsewhere && !registered && !tables.hasShown(base, mark, head)) {
      throw TxnException.corruptLog(
          "the log lacks what the table shows: run `txns recover` first; table=`"
              + identifier
              + "`");
    }
    if (!belongs) {
      OptionalLong lostTs = line.passedOverTs(logged);
      Map<String, String> stamp = new HashMap<>();
      lostAbove(line, moved, lostTs)
          .ifPresent(ts -> stamp.put(TableMark.SNAPSHOT_LOST_ABOVE, Long.toString(ts)));
      if (!moved.isEmpty() || lostTs.isPresent()) {
        stamp.putAll(dropped(identifier, base, mark));
      }
      if (moved.isEmpty() && lostTs.isPresent()) {
        giveUp(identifier, real, mark, head, stamp);
      } else {
        if (!moved.isEmpty()) {
          stamp.putAll(stamp(moved.get(moved.size() - 1)));
        }
        mark(identifier, real, head, stamp);
      }
    }
    return log.load().upper();
  }

  /**
   * Above which {@code commit_ts} in ms nothing is left of a table: of what passes it over, and of
   * several late ones, between which no snapshot is of its new time.
   */
  private static OptionalLong lostAbove(Line line, List<Entry> moved, OptionalLong lostTs) {
    LongStream first =
        line.isLate() && moved.size() > 1
            ? LongStream.of(moved.get(0).commitTs())
            : LongStream.empty();
    return LongStream.concat(first, lostTs.stream()).map(ts -> ts - 1).min();
  }

  private static Map<String, String> stamp(Entry entry) {
    return Map.of(
        TableMark.SNAPSHOT_COMMIT_TS,
        Long.toString(entry.commitTs()),
        TableMark.SNAPSHOT_TXN_ID,
        entry.txnId());
  }

  /**
   * What a snapshot carries besides that stands for an entry, with what a table shows.
   *
   * @throws TxnException 55000 where the table has something else, too
   */
  private static Map<String, String> dropped(
      TableIdentifier identifier, TableMetadata base, TableMark mark) {
    LoggedState state = LoggedState.of(base, mark);
    if (state.stranger().isPresent() || state.snapshot() == null) {
      String last = state.snapshot() == null ? "gone" : state.snapshot().snapshotId() + "";
      throw TxnException.quarantined(
          identifier,
          "the log has another transaction in the place of one that the table shows, and somebody"
              + " wrote it outside the protocol since; last=`"
              + last
              + "`",
          "roll `main` back to that snapshot with plain Iceberg, keeping what was written on a"
              + " branch, and run this again");
    }
    return TableMark.isDropped(state.snapshot())
        ? Map.of(TableMark.SNAPSHOT_DROPPED, "true")
        : Map.of();
  }

  /** Mark a table, with a footing on its main that may stand for an entry. */
  private void mark(
      TableIdentifier identifier, TableOperations real, Head head, Map<String, String> stamp) {
    long footing = real.newSnapshotId();
    Timestamps.commit(
        real,
        real.current(),
        clock.nowMs(),
        seen ->
            TableMetadata.buildFrom(footing(identifier, real, seen, footing, clock, stamp))
                .setProperties(marks(seen, head, stamp.get(TableMark.SNAPSHOT_COMMIT_TS)))
                .build());
  }

  private static Map<String, String> marks(TableMetadata base, Head head, String commitTs) {
    Map<String, String> marks = new HashMap<>();
    marks.put(TableMark.LOG_ID, head.logId());
    String taken = commitTs != null ? commitTs : Long.toString(head.upper());
    if (commitTs != null || Limits.isLate(TableMark.applied(base))) {
      marks.put(TableMark.APPLIED, taken);
    }
    if (TableMark.of(base).filter(mark -> Limits.isLate(mark.created())).isPresent()) {
      marks.put(TableMark.CREATED, taken);
    }
    return marks;
  }

  /**
   * Log that a table gives up what passes it over; then mark it, and carry that out, in one swap.
   *
   * <p>Whoever dies in between leaves an entry that the next one finds under its id.
   *
   * @param stamp what the entry's snapshot says besides
   */
  private void giveUp(
      TableIdentifier identifier,
      TableOperations real,
      TableMark mark,
      Head head,
      Map<String, String> stamp) {
    TableMetadata base = real.current();
    TableMetadata seen = Timestamps.notAhead(base, clock.nowMs());
    StagedTable staged = staged(identifier, real, seen);
    SnapshotCopy.stageFooting(staged, real.newSnapshotId());
    String state = History.mainId(base) + ":" + mark.applied() + ":" + base.lastSequenceNumber();
    String txnId = Entry.derivedId("recover", TableNames.uuid(base), state);
    CommitGroup.Key key = new CommitGroup.Key(txnId, mark.applied(), CommitGroup.Origin.DERIVED);
    Leftovers leftovers = new Leftovers(log);
    Entry entry =
        loop.append(key, (at, commitTs) -> entry(staged, txnId, stamp, at, commitTs, leftovers));
    if (entry.payload().equals(Entry.Payload.NONE)) { // the table has shown it, so it is archived
      throw TxnException.incomplete(
          identifier, "somebody set the table back since it was recovered");
    }
    LoggedChange logged = new LoggedChange(entry, entry.changes().get(0));
    Snapshot stood = AddedSnapshots.of(log.request(logged).updates()).get(0);
    SnapshotRef main = staged.current().ref(SnapshotRef.MAIN_BRANCH);
    Timestamps.commit(
        real,
        base,
        clock.nowMs(),
        now -> carriedOut(now, stood, main, marks(now, head, Long.toString(entry.commitTs()))));
  }

  private Entry entry(
      StagedTable staged,
      String txnId,
      Map<String, String> stamp,
      Head head,
      long commitTs,
      Leftovers leftovers) {
    ChangeBuilder.Built built = ChangeBuilder.build(staged, txnId, commitTs, stamp);
    String json =
        CommitTransactionRequestParser.toJson(
            new CommitTransactionRequest(List.of(built.request())));
    return new Entry(
        EntryKind.REPAIR,
        commitTs,
        head.upper(),
        commitTs,
        head.state().tidiedUpto(),
        head.upper(),
        txnId,
        Isolation.SNAPSHOT,
        Engine.name(),
        "",
        List.of(built.change()),
        leftovers.store(head, txnId, json, clock.nowMs()));
  }

  private TableMetadata carriedOut(
      TableMetadata base, Snapshot stood, SnapshotRef main, Map<String, String> marks) {
    long commitTs = OurSnapshots.commitTs(stood);
    Snapshot timed =
        SnapshotEdit.of(stood)
            .timestampMs(Timestamps.acceptableMs(base, commitTs, clock.nowMs()))
            .build();
    SnapshotRef here = SnapshotRef.builderFrom(main, stood.snapshotId()).build();
    return TableMetadata.buildFrom(base)
        .addSnapshot(timed)
        .setRef(SnapshotRef.MAIN_BRANCH, Retention.of(here))
        .setProperties(marks)
        .build();
  }

  private static StagedTable staged(
      TableIdentifier identifier, TableOperations real, TableMetadata base) {
    return new StagedTable(
        identifier, real, Overlay.inMemory(base, base.metadataFileLocation()), false);
  }

  /** A table with a copy of {@code main} on its {@code main}, which nothing of before stands on. */
  static TableMetadata footing(
      TableIdentifier identifier,
      TableOperations real,
      TableMetadata base,
      long snapshotId,
      TxnClock clock) {
    return footing(identifier, real, base, snapshotId, clock, Map.of());
  }

  /**
   * The same.
   *
   * @param stamp what its summary says besides, where it is one of ours
   */
  private static TableMetadata footing(
      TableIdentifier identifier,
      TableOperations real,
      TableMetadata base,
      long snapshotId,
      TxnClock clock,
      Map<String, String> stamp) {
    StagedTable staged = staged(identifier, real, base);
    SnapshotCopy.stageFooting(staged, snapshotId);
    String commitTs = stamp.get(TableMark.SNAPSHOT_COMMIT_TS);
    long wantedMs = commitTs == null ? clock.nowMs() : Long.parseLong(commitTs);
    Snapshot footing =
        SnapshotEdit.of(staged.current().currentSnapshot())
            .timestampMs(Timestamps.acceptableMs(base, wantedMs, clock.nowMs()))
            .summary(stamp)
            .build();
    SnapshotRef main = staged.current().ref(SnapshotRef.MAIN_BRANCH);
    return TableMetadata.buildFrom(base)
        .addSnapshot(footing)
        .setRef(SnapshotRef.MAIN_BRANCH, Retention.of(main))
        .build();
  }
}
