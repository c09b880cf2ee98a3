package io.txns.iceberg.table;

import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.History;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * Where the protocol left {@code main} of a data table, and who has been there since; pure.
 *
 * @param snapshot the newest snapshot with the rows that the log knows: the last one that the
 *     protocol put there, or a stranger's compaction of it; null where it has been expired
 * @param stranger what strangers did above it
 */
public record LoggedState(Snapshot snapshot, Optional<Stranger> stranger) {
  private static final String MOVED = "somebody moved main off the protocol's last snapshot";

  /** The logged state of a registered table to which nothing is left to apply. */
  public static LoggedState of(TableMetadata metadata, TableMark mark) {
    return of(metadata, mark, List.of());
  }

  /**
   * Find the logged state of a registered table.
   *
   * <p>A stranger's {@code replace} holds the same rows and is tolerated. Expiry may have cut the
   * ancestry below a run of such replaces: then the run's rows are those of {@code txns.applied}.
   *
   * @param run what was logged and is not applied to it, ascending: strangers may stand between
   *     what it was staged on and a mark that somebody has put there since
   */
  public static LoggedState of(TableMetadata metadata, TableMark mark, List<LoggedChange> run) {
    Snapshot main = metadata.currentSnapshot();
    Newest newest = newest(metadata, mark.applied());
    if (main == null) { // the protocol puts a snapshot there before it marks a table
      String reason = "somebody replaced the table by an empty one outside the protocol";
      return new LoggedState(
          newest.snapshot(), Optional.of(new Stranger(null, List.of(), false, reason)));
    }
    Snapshot sameRows = null;
    List<Snapshot> foreign = new ArrayList<>();
    boolean rolledBack = false;
    History.Walk walk = History.walk(metadata);
    for (Snapshot at = main; at != null; at = walk.parent(at)) {
      if (OurSnapshots.isOurs(at)) {
        if (OurSnapshots.commitTs(at) > mark.applied() || newest.is(at)) {
          // What was made of a marker holds its rows, none, but says nothing of the drop.
          boolean ours = sameRows == null || TableMark.isDropped(at);
          Below below = belowMark(metadata, at, run);
          return new LoggedState(ours ? at : sameRows, found(main, foreign, below));
        }
        rolledBack = true; // an older one of ours, or one inside the newest transaction
        break;
      }
      if (DataOperations.REPLACE.equals(at.operation())) {
        sameRows = sameRows == null ? at : sameRows;
      } else {
        sameRows = null;
        foreign.add(at);
      }
    }
    if (!rolledBack && !newest.wasMain() && sameRows != null) {
      return new LoggedState(sameRows, found(main, foreign, Below.NOTHING));
    }
    // A rollback to before the registration stands on what main's history holds already.
    Set<Long> ours = History.ancestors(metadata, newest.snapshot());
    foreign.removeIf(at -> ours.contains(at.snapshotId()));
    return new LoggedState(
        newest.snapshot(),
        Optional.of(new Stranger(main.snapshotId(), ids(foreign), false, MOVED)));
  }

  /**
   * What strangers did below the mark of a registration, since a run was staged.
   *
   * @param stretches their snapshots that changed rows, newest first; apart where one of ours
   *     stands between
   * @param moved whether they took {@code main} off what the run was staged on, and rows with it
   */
  private record Below(List<List<Snapshot>> stretches, boolean moved) {
    static final Below NOTHING = new Below(List.of(), false);
  }

  /** What strangers did above the protocol's last snapshot, and below its mark. */
  private static Optional<Stranger> found(Snapshot main, List<Snapshot> above, Below below) {
    List<List<Snapshot>> stretches = new ArrayList<>(below.stretches());
    stretches.add(0, above);
    stretches.removeIf(List::isEmpty);
    if (stretches.isEmpty() && !below.moved()) {
      return Optional.empty();
    }
    List<Snapshot> found = stretches.stream().flatMap(List::stream).toList();
    List<Long> heads =
        new ArrayList<>(stretches.stream().map(at -> at.get(0).snapshotId()).toList());
    if (heads.isEmpty()) {
      heads.add(main.snapshotId());
    } else if (!above.isEmpty()) {
      heads.set(0, main.snapshotId());
    }
    long head = heads.remove(0);
    Stranger stranger =
        below.moved() ? new Stranger(head, ids(found), false, MOVED) : Stranger.of(head, found);
    return Optional.of(stranger.withBelow(heads));
  }

  /**
   * What strangers did between what a run was staged on and the mark of a registration above. They
   * took the mark from before, and somebody registered the table again, while a transaction was
   * open. What is staged on the mark, or above it, has nothing of them in between.
   */
  private static Below belowMark(TableMetadata metadata, Snapshot mark, List<LoggedChange> run) {
    Long sourceId = run.isEmpty() ? null : run.get(0).change().fromSnapshotId();
    Snapshot source = sourceId == null ? null : metadata.snapshot(sourceId);
    if (source == null || !OurSnapshots.marks(metadata, mark)) {
      return Below.NOTHING;
    }
    Set<Long> line = History.ancestors(metadata, mark);
    boolean same = true;
    Snapshot meeting = source;
    History.Walk down = History.walk(metadata);
    while (meeting != null && !line.contains(meeting.snapshotId())) {
      same &=
          DataOperations.REPLACE.equals(meeting.operation())
              || OurSnapshots.marks(metadata, meeting);
      meeting = down.parent(meeting);
    }
    List<List<Snapshot>> stretches = new ArrayList<>();
    History.Walk walk = History.walk(metadata);
    for (Snapshot at = mark; at != null && !at.equals(meeting); at = walk.parent(at)) {
      if (OurSnapshots.isOurs(at)) {
        stretches.add(new ArrayList<>());
      } else if (!DataOperations.REPLACE.equals(at.operation())) {
        stretches.get(stretches.size() - 1).add(at);
      }
    }
    stretches.removeIf(List::isEmpty);
    boolean moved = meeting == null || !same && !mark.equals(meeting);
    return new Below(stretches, moved);
  }

  /**
   * On which snapshot an entry left {@code main}.
   *
   * @param wasMain whether the history of main says so: else it may be one of a branch, whose
   *     neighbour on main has been expired
   */
  private record Newest(Snapshot snapshot, boolean wasMain) {
    boolean is(Snapshot other) {
      return snapshot != null && snapshot.snapshotId() == other.snapshotId();
    }
  }

  /**
   * The snapshot on which the newest change that a table shows left main; null where it shows none:
   * it was registered since, or that snapshot is gone.
   */
  static Snapshot shownBy(TableMetadata metadata, TableMark mark) {
    Snapshot shown = newest(metadata, mark.applied()).snapshot();
    return shown == null || OurSnapshots.marks(metadata, shown) ? null : shown;
  }

  /**
   * The snapshot on which the entry at {@code ts} left main, whether it is still there or not.
   *
   * <p>A change of several statements is a chain of snapshots, and may hold some of branches: a
   * stranger may put main on any of them, and expire the one that it was left on. Forget and
   * register may share a timestamp: the later one counts.
   */
  private static Newest newest(TableMetadata metadata, long ts) {
    Snapshot main = metadata.currentSnapshot();
    // Numbers only grow: of the newest snapshot nobody has to ask for a later one.
    boolean isNewest =
        main != null
            && main.sequenceNumber() > 0
            && main.sequenceNumber() == metadata.lastSequenceNumber();
    Snapshot last =
        isNewest && leavesMain(main, ts)
            ? main
            : metadata.snapshots().stream()
                .filter(at -> leavesMain(at, ts))
                .max(Comparator.comparingLong(Snapshot::sequenceNumber))
                .orElse(null);
    boolean shown =
        last != null
            && metadata.snapshotLog().stream()
                .anyMatch(entry -> entry.snapshotId() == last.snapshotId());
    return new Newest(last, shown);
  }

  /** Whether the entry at {@code ts} left main on a snapshot. */
  private static boolean leavesMain(Snapshot at, long ts) {
    return OurSnapshots.isOurs(at)
        && !OurSnapshots.isPassing(at)
        && OurSnapshots.commitTs(at) == ts;
  }

  private static List<Long> ids(List<Snapshot> snapshots) {
    return snapshots.stream().map(Snapshot::snapshotId).toList();
  }
}
