package io.txns.iceberg.table;

import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.LoggedChange;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
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
    for (Snapshot at = main; at != null; at = parent(metadata, at)) {
      if (isOurs(at)) {
        if (commitTs(at) > mark.applied() || newest.is(at)) {
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
    Set<Long> ours = ancestors(metadata, newest.snapshot());
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
    if (source == null || !marks(metadata, mark)) {
      return Below.NOTHING;
    }
    Set<Long> line = ancestors(metadata, mark);
    boolean same = true;
    Snapshot meeting = source;
    while (meeting != null && !line.contains(meeting.snapshotId())) {
      same &= DataOperations.REPLACE.equals(meeting.operation()) || marks(metadata, meeting);
      meeting = parent(metadata, meeting);
    }
    List<List<Snapshot>> stretches = new ArrayList<>();
    for (Snapshot at = mark; at != null && !at.equals(meeting); at = parent(metadata, at)) {
      if (isOurs(at)) {
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
   * Whether a snapshot of the logged ancestry stands for a {@code commit_ts} at or below a {@code
   * readTs}, both in ms: by its own mark, a compaction's parent's, or the wall clock for one from
   * before the registration. Such a one is not older than that of ours which it stands on, from an
   * earlier registration: the clock of its writer may be late.
   */
  static boolean standsAtOrBelow(
      TableMetadata metadata, TableMark mark, Snapshot snapshot, long readTs) {
    Snapshot at = snapshot;
    while (!isOurs(at) && DataOperations.REPLACE.equals(at.operation())) {
      Snapshot parent = parent(metadata, at);
      if (parent == null) {
        // Expired: pyiceberg's expiry leaves no trace of a parent (schedule 19).
        return mark.applied() <= readTs;
      }
      at = parent;
    }
    if (!isOurs(at) && at.timestampMillis() > readTs) {
      return false;
    }
    while (at != null && !isOurs(at)) {
      at = parent(metadata, at);
    }
    return at == null || commitTs(at) <= readTs;
  }

  public static boolean isOurs(Snapshot snapshot) {
    return snapshot.summary() != null
        && snapshot.summary().containsKey(TableMark.SNAPSHOT_COMMIT_TS);
  }

  public static long commitTs(Snapshot snapshot) {
    return Long.parseLong(snapshot.summary().get(TableMark.SNAPSHOT_COMMIT_TS));
  }

  /** Whether a registration has marked a table above a timestamp in ms. */
  static boolean markedAbove(TableMetadata metadata, long ts) {
    return metadata.snapshots().stream()
        .anyMatch(at -> isOurs(at) && commitTs(at) > ts && marks(metadata, at));
  }

  /**
   * The {@code commit_ts} at which a table came under care for the first time.
   *
   * @return empty where its oldest snapshot of ours is not a registration's: the protocol created
   *     it, or has expired that one
   */
  static OptionalLong careTs(TableMetadata metadata) {
    return metadata.snapshots().stream()
        .filter(LoggedState::isOurs)
        .min(Comparator.comparingLong(LoggedState::commitTs))
        .filter(first -> marks(metadata, first))
        .map(first -> OptionalLong.of(commitTs(first)))
        .orElse(OptionalLong.empty());
  }

  /** Whether a snapshot is that of a registration's swap. */
  public static boolean marks(TableMetadata metadata, Snapshot snapshot) {
    return isOurs(snapshot) && registrationId(metadata, snapshot).equals(txnId(snapshot));
  }

  /** The transaction id of the registration whose swap put a snapshot there. */
  public static String registrationId(TableMetadata metadata, Snapshot snapshot) {
    return Entry.derivedId("register", metadata.uuid(), Long.toString(snapshot.snapshotId()));
  }

  /** Where main stands; null for nowhere. */
  public static Long mainId(TableMetadata metadata) {
    Snapshot main = metadata.currentSnapshot();
    return main == null ? null : main.snapshotId();
  }

  public static Snapshot parent(TableMetadata metadata, Snapshot snapshot) {
    return snapshot.parentId() == null ? null : metadata.snapshot(snapshot.parentId());
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
   * The snapshot on which the entry at {@code ts} left main, whether it is still there or not.
   *
   * <p>A change of several statements is a chain of snapshots, and may hold some of branches: they
   * all carry its {@code commit_ts}, and a stranger may put main on any of them. The history of
   * main shows first the one that the protocol put there.
   */
  private static Newest newest(TableMetadata metadata, long ts) {
    Map<Long, Snapshot> ours = new LinkedHashMap<>();
    for (Snapshot at : metadata.snapshots()) {
      if (isOurs(at) && commitTs(at) == ts) {
        ours.put(at.snapshotId(), at);
      }
    }
    List<Snapshot> shown =
        metadata.snapshotLog().stream()
            .map(entry -> ours.get(entry.snapshotId()))
            .filter(Objects::nonNull)
            .toList();
    Snapshot last =
        (shown.isEmpty() ? ours.values() : shown)
            .stream().max(Comparator.comparingLong(Snapshot::sequenceNumber)).orElse(null);
    // Forget and register may share a timestamp, but not a transaction.
    List<Snapshot> same =
        (shown.isEmpty() ? ours.values() : shown)
            .stream().filter(at -> Objects.equals(txnId(at), txnId(last))).toList();
    return shown.isEmpty()
        ? new Newest(likelyMain(metadata, same), false)
        : new Newest(same.get(0), true);
  }

  /** Which of a transaction's snapshots main was left on: the last of no other branch. */
  private static Snapshot likelyMain(TableMetadata metadata, List<Snapshot> ofTxn) {
    Set<Long> elsewhere = new HashSet<>();
    metadata
        .refs()
        .forEach(
            (name, ref) -> {
              if (ref.isBranch() && !name.equals(SnapshotRef.MAIN_BRANCH)) {
                elsewhere.addAll(ancestors(metadata, metadata.snapshot(ref.snapshotId())));
              }
            });
    return ofTxn.stream()
        .max(
            Comparator.comparing((Snapshot at) -> !elsewhere.contains(at.snapshotId()))
                .thenComparingLong(Snapshot::sequenceNumber))
        .orElse(null);
  }

  private static String txnId(Snapshot snapshot) {
    return snapshot.summary().get(TableMark.SNAPSHOT_TXN_ID);
  }

  /** The ids of a snapshot and of its ancestors; empty for null. */
  public static Set<Long> ancestors(TableMetadata metadata, Snapshot snapshot) {
    Set<Long> ids = new HashSet<>();
    for (Snapshot at = snapshot; at != null; at = parent(metadata, at)) {
      ids.add(at.snapshotId());
    }
    return ids;
  }

  private static List<Long> ids(List<Snapshot> snapshots) {
    return snapshots.stream().map(Snapshot::snapshotId).toList();
  }
}
