package io.txns.iceberg.table;

import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;

/**
 * A branch that reaches the files of what cannot be applied, so that orphan removal leaves them
 * (docs/spec.md, 8.5); pure.
 */
public final class OutstandingBranch {
  /** What the branch is named. */
  static final String NAME = "txns-outstanding";

  /** On a copy: the snapshot whose manifest list it has. */
  static final String COPY_OF = "txns.copy-of";

  /** On a copy: the {@code commit_ts} in ms of the entry that is not applied. */
  static final String OUTSTANDING = "txns.outstanding";

  /** How many snapshots it keeps besides the copies: what the first change stands on. */
  private static final int FOUNDATION = 1;

  private OutstandingBranch() {}

  /** A staged snapshot of an entry that is not applied, with the entry's timestamp in ms. */
  public record Staged(long commitTs, Snapshot snapshot) {}

  /**
   * What is not applied to a table.
   *
   * @param fromSnapshotId what the first change stands on; null for an empty table
   * @param staged the snapshots of all changes, ascending; at least one
   */
  public record Left(Long fromSnapshotId, List<Staged> staged) {}

  /** The id of a snapshot's copy, the same whoever makes it. */
  static long copyId(long snapshotId, long sequenceNumber) {
    String text = "txns-outstanding-" + snapshotId + "-" + sequenceNumber;
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return ByteBuffer.wrap(digest).getLong() >>> 1;
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  /**
   * Whether the branch reaches all that is outstanding of a table, and what that stands on.
   *
   * @param changes those that are not applied to it, ascending; at least one. Who knows fewer than
   *     whoever put the branch leaves it
   */
  public static boolean isKept(TableMetadata base, List<LoggedChange> changes) {
    SnapshotRef ref = base.ref(NAME);
    Snapshot at = ref == null ? null : base.snapshot(ref.snapshotId());
    long last = changes.get(changes.size() - 1).commitTs();
    if (at == null || !isCopy(at) || outstanding(at) < last) {
      return false;
    }
    if (outstanding(at) > last) {
      return true;
    }
    long applied = TableMark.applied(base);
    int copies = 0;
    Long below = null;
    History.Walk walk = History.walk(base);
    for (; at != null && isCopy(at) && outstanding(at) > applied; at = walk.parent(at)) {
      copies++;
      below = at.parentId();
    }
    Long standsOn = changes.get(0).change().fromSnapshotId();
    boolean isGone = standsOn == null || base.snapshot(standsOn) == null;
    return (isGone || standsOn.equals(below))
        && Objects.equals(ref.minSnapshotsToKeep(), copies + FOUNDATION);
  }

  /**
   * A table with the branch on copies of staged snapshots, in the place of others.
   *
   * <p>A copy has the manifest list of its snapshot, and no smaller number: whoever applies that
   * gives it a list of its own then, so that an expiry of the copy takes nothing of it. Nor a
   * greater one without need: a server takes none from who has loaded an older table.
   *
   * @param nowMs the wall clock's time
   */
  public static TableMetadata put(TableMetadata base, Left left, long nowMs) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    remove(builder, base);
    List<Staged> staged = left.staged();
    long sequenceNumber = base.lastSequenceNumber();
    Long parentId = foundation(base, left.fromSnapshotId());
    for (Staged each : staged) {
      sequenceNumber = Math.max(sequenceNumber + 1, each.snapshot().sequenceNumber());
      Snapshot copy = copy(base, each, parentId, sequenceNumber, nowMs);
      builder.addSnapshot(copy);
      parentId = copy.snapshotId();
    }
    SnapshotRef branch =
        SnapshotRef.branchBuilder(parentId)
            .minSnapshotsToKeep(staged.size() + FOUNDATION)
            .maxRefAgeMs(Long.MAX_VALUE)
            .build();
    return builder.setRef(NAME, branch).build();
  }

  /** What the first change stands on, which an expiry would take: no repair mends that. */
  private static Long foundation(TableMetadata base, Long fromSnapshotId) {
    boolean isThere = fromSnapshotId != null && base.snapshot(fromSnapshotId) != null;
    return isThere ? fromSnapshotId : History.mainId(base);
  }

  /**
   * Remove branch and copies in the swap that applies the last entry that they are of.
   *
   * <p>An expiry would take the copies' lists along, which whoever reads the table may still have.
   */
  public static void removeDone(TableMetadata.Builder builder, TableMetadata base, long commitTs) {
    boolean last =
        base.snapshots().stream()
            .filter(OutstandingBranch::isCopy)
            .allMatch(each -> outstanding(each) <= commitTs);
    if (last) {
      remove(builder, base);
    }
  }

  /** Whether a branch of copies came late: all that it reaches is applied. */
  static boolean isLeftOver(TableMetadata metadata, Snapshot head) {
    return isCopy(head) && outstanding(head) <= TableMark.applied(metadata);
  }

  /** Remove the branch, and the copies that no other ref leads to, which somebody put there. */
  private static void remove(TableMetadata.Builder builder, TableMetadata base) {
    Set<Long> copies =
        base.snapshots().stream()
            .filter(OutstandingBranch::isCopy)
            .map(Snapshot::snapshotId)
            .collect(Collectors.toSet());
    if (copies.isEmpty()) {
      return;
    }
    if (base.ref(NAME) != null && copies.contains(base.ref(NAME).snapshotId())) {
      builder.removeRef(NAME);
    }
    base.refs()
        .forEach(
            (name, ref) -> {
              if (!name.equals(NAME)) {
                copies.removeAll(History.ancestors(base, base.snapshot(ref.snapshotId())));
              }
            });
    builder.removeSnapshots(copies);
  }

  private static boolean isCopy(Snapshot snapshot) {
    return snapshot.summary() != null && snapshot.summary().containsKey(OUTSTANDING);
  }

  private static long outstanding(Snapshot copy) {
    return EntryParser.number(copy.summary().get(OUTSTANDING), OUTSTANDING);
  }

  private static Snapshot copy(
      TableMetadata base, Staged staged, Long parentId, long sequenceNumber, long nowMs) {
    Snapshot snapshot = staged.snapshot();
    SnapshotEdit edit =
        SnapshotEdit.create(copyId(snapshot.snapshotId(), sequenceNumber), snapshot.operation())
            .parent(parentId)
            .sequenceNumber(sequenceNumber)
            .timestampMs(Timestamps.acceptableMs(base, nowMs, nowMs))
            .manifestList(snapshot.manifestListLocation())
            .schemaId(base.currentSchemaId())
            .summary(
                Map.of(
                    COPY_OF,
                    Long.toString(snapshot.snapshotId()),
                    OUTSTANDING,
                    Long.toString(staged.commitTs())));
    // Its rows take no ids: they have those of their own lists, and get others when applied.
    return base.formatVersion() < 3 ? edit.build() : edit.rows(base.nextRowId(), 0).build();
  }
}
