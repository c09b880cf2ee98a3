package io.txns.iceberg.table;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.History;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** The branches on which what strangers did is kept, open for adoption; pure. */
public final class ForeignBranches {
  private ForeignBranches() {}

  /**
   * Set the branches of strangers in the swap that applies a change.
   *
   * <p>Kept is what a stranger put on {@code main} since the change was logged, and what a repair
   * takes back from them on other branches; what the change itself takes in needs no branch, and
   * loses the one that somebody who did not know of it has made.
   *
   * @param base the table before the logged run is put on main
   * @param stranger who stands there
   * @param repaired whether a repair is logged after the change
   */
  public static void set(
      TableMetadata.Builder builder,
      TableMetadata base,
      UpdateTableRequest request,
      Optional<Stranger> stranger,
      boolean repaired) {
    List<Long> adopted = adopted(request);
    if (repaired) {
      keepMoved(builder, base, request.requirements());
    }
    removeAdopted(builder, base, adopted);
    stranger
        .filter(one -> keeps(one, request))
        .ifPresent(one -> one.heads().forEach(head -> keep(builder, base, head)));
  }

  /**
   * The snapshots that a change leaves, whatever it expires: those of strangers that are open, on
   * main above ours or on a branch that it does not remove, and what they stand on. They may have
   * come there since it was staged.
   */
  public static Set<Long> open(TableMetadata base, List<MetadataUpdate> updates) {
    Set<Long> open = new HashSet<>();
    if (updates.stream().noneMatch(MetadataUpdate.RemoveSnapshots.class::isInstance)) {
      return open;
    }
    onBranches(base, updates).values().forEach(open::addAll);
    TableMark.of(base)
        .flatMap(mark -> LoggedState.of(base, mark).stranger())
        .ifPresent(stranger -> addLine(open, base, base.currentSnapshot(), Set.of()));
    return open;
  }

  /** The open snapshots of each branch that a change does not remove, and what they stand on. */
  private static Map<String, Set<Long>> onBranches(
      TableMetadata base, List<MetadataUpdate> updates) {
    Map<String, Set<Long>> open = new TreeMap<>();
    Set<Long> main = History.ancestors(base, base.currentSnapshot());
    for (Map.Entry<String, SnapshotRef> ref : base.refs().entrySet()) {
      boolean goes =
          updates.stream()
              .anyMatch(
                  update ->
                      update instanceof MetadataUpdate.RemoveSnapshotRef gone
                          && gone.name().equals(ref.getKey()));
      if (ref.getKey().startsWith(TableMark.FOREIGN_BRANCH) && !goes) {
        Set<Long> line = open.computeIfAbsent(ref.getKey(), name -> new HashSet<>());
        addLine(line, base, base.snapshot(ref.getValue().snapshotId()), main);
      }
    }
    return open;
  }

  /** Adds a line of strangers' down to what it stands on, the first that is ours or known. */
  private static void addLine(
      Set<Long> ids, TableMetadata metadata, Snapshot head, Set<Long> known) {
    History.Walk walk = History.walk(metadata);
    for (Snapshot at = head; at != null; at = walk.parent(at)) {
      ids.add(at.snapshotId());
      if (OurSnapshots.isOurs(at) || known.contains(at.snapshotId())) {
        return;
      }
    }
  }

  /**
   * Refuse an expiry that an engine has planned on a view, which shows what is open on no branch:
   * it would delete the files.
   *
   * @param real the table as the catalog had it then; null where it had none
   * @throws TxnException Unsupported for what a branch has, which nobody takes from it by itself;
   *     40001 for what who writes next adopts
   */
  public static void refuseExpiry(
      TableIdentifier table, TableOperations real, List<MetadataUpdate> updates) {
    TableMetadata planned = real == null ? null : real.current();
    Set<Long> named =
        updates.stream()
            .filter(MetadataUpdate.RemoveSnapshots.class::isInstance)
            .flatMap(update -> ((MetadataUpdate.RemoveSnapshots) update).snapshotIds().stream())
            .collect(Collectors.toSet());
    if (planned == null || named.isEmpty()) {
      return;
    }
    onBranches(planned, updates)
        .forEach(
            (branch, line) -> {
              if (!Collections.disjoint(line, named)) {
                throw keptOn(table, branch);
              }
            });
    if (!Collections.disjoint(open(planned, updates), named)) {
      throw TxnException.conflict(
          table,
          "",
          Winner.NOBODY,
          TableMark.applied(planned),
          "it expires rows that were appended outside the protocol, and that nobody had adopted when"
              + " it was planned");
    }
  }

  private static TxnException keptOn(TableIdentifier table, String branch) {
    return TxnException.unsupported(
        String.format(
            "it expires snapshots of rows that were appended outside the protocol, which a branch"
                + " keeps for their adoption: adopt them, or drop the branch first; branch=`%s`"
                + " table=`%s`",
            branch, table));
  }

  /** Whether a change that is applied puts aside what a stranger has: not all that it takes in. */
  public static boolean keeps(Stranger stranger, UpdateTableRequest request) {
    return !adopted(request).containsAll(stranger.snapshotIds());
  }

  /** The strangers' snapshots that a change takes in. */
  static List<Long> adopted(UpdateTableRequest request) {
    return AddedSnapshots.of(request.updates()).stream()
        .flatMap(snapshot -> TableMark.adopted(snapshot).stream())
        .toList();
  }

  private static void removeAdopted(
      TableMetadata.Builder builder, TableMetadata base, List<Long> adopted) {
    for (Map.Entry<String, SnapshotRef> ref : base.refs().entrySet()) {
      if (ref.getKey().startsWith(TableMark.FOREIGN_BRANCH)
          && !adopted.isEmpty()
          && Stranger.above(base, ref.getValue().snapshotId())
              .filter(kept -> adopted.containsAll(kept.snapshotIds()))
              .isPresent()) {
        builder.removeRef(ref.getKey());
      }
    }
  }

  /** Keep where strangers left branches that a repaired change takes back from them. */
  private static void keepMoved(
      TableMetadata.Builder builder, TableMetadata base, List<UpdateRequirement> requirements) {
    for (UpdateRequirement requirement : Rewound.unmet(base, requirements).keySet()) {
      if (requirement instanceof UpdateRequirement.AssertRefSnapshotID moved
          && base.ref(moved.refName()) != null) {
        keep(builder, base, base.ref(moved.refName()).snapshotId());
      }
    }
  }

  /** What stands above a registration's mark and below it are two: each ends at one of ours. */
  private static void keep(TableMetadata.Builder builder, TableMetadata base, long head) {
    String name = TableMark.FOREIGN_BRANCH + head;
    if (base.ref(name) == null) {
      builder.setRef(name, branch(base, head));
    }
  }

  /**
   * A branch of strangers, of which an expiry takes nothing that tells whose rows it has: down to
   * the first snapshot that ours stand on.
   */
  private static SnapshotRef branch(TableMetadata metadata, long headSnapshotId) {
    Set<Long> logged = new HashSet<>();
    for (Snapshot ours : metadata.snapshots()) {
      History.Walk walk = History.walk(metadata);
      Snapshot at = OurSnapshots.isOurs(ours) ? ours : null;
      while (at != null && logged.add(at.snapshotId())) {
        at = walk.parent(at);
      }
    }
    int length = 1;
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.snapshot(headSnapshotId);
    while (at != null && !logged.contains(at.snapshotId())) {
      length++;
      at = walk.parent(at);
    }
    return SnapshotRef.branchBuilder(headSnapshotId)
        .minSnapshotsToKeep(length)
        .maxRefAgeMs(Long.MAX_VALUE)
        .build();
  }
}
