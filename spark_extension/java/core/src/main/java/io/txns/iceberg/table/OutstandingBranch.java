package io.txns.iceberg.table;

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

  /** The id of a snapshot's copy, the same whoever makes it. */
  static long copyId(long snapshotId) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256")
              .digest(("txns-outstanding-" + snapshotId).getBytes(StandardCharsets.UTF_8));
      return ByteBuffer.wrap(digest).getLong() >>> 1;
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  /**
   * Whether the branch reaches all that is outstanding of a table, as far as its newest copy tells.
   *
   * @param lastTs the {@code commit_ts} of the newest change that is not applied to it; who knows
   *     fewer changes than whoever put the branch leaves it
   */
  public static boolean isKept(TableMetadata base, long lastTs) {
    SnapshotRef ref = base.ref(NAME);
    Snapshot at = ref == null ? null : base.snapshot(ref.snapshotId());
    if (at == null || !isCopy(at) || outstanding(at) < lastTs) {
      return false;
    }
    int copies = 0;
    for (; at != null && isCopy(at); at = History.parent(base, at)) {
      copies++;
    }
    return Objects.equals(ref.minSnapshotsToKeep(), copies + FOUNDATION);
  }

  /**
   * A table with the branch on copies of staged snapshots, in the place of others.
   *
   * <p>A copy has the manifest list of its snapshot, and a number above it: whoever applies the
   * snapshot gives it a list of its own then, so that an expiry of the copy takes nothing of it.
   *
   * @param staged what is not applied, ascending; at least one
   * @param nowMs the wall clock's time
   */
  public static TableMetadata put(TableMetadata base, List<Staged> staged, long nowMs) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    remove(builder, base);
    long sequenceNumber =
        staged.stream()
            .mapToLong(each -> each.snapshot().sequenceNumber())
            .reduce(base.lastSequenceNumber(), Math::max);
    Long parentId = foundation(base, staged.get(0).snapshot());
    for (Staged each : staged) {
      sequenceNumber++;
      builder.addSnapshot(copy(base, each, parentId, sequenceNumber, nowMs));
      parentId = copyId(each.snapshot().snapshotId());
    }
    SnapshotRef branch =
        SnapshotRef.branchBuilder(parentId)
            .minSnapshotsToKeep(staged.size() + FOUNDATION)
            .maxRefAgeMs(Long.MAX_VALUE)
            .build();
    return builder.setRef(NAME, branch).build();
  }

  /** What the first change stands on, which an expiry would take: no repair mends that. */
  private static Long foundation(TableMetadata base, Snapshot first) {
    Long parentId = first.parentId();
    return parentId != null && base.snapshot(parentId) != null ? parentId : History.mainId(base);
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

  private static void remove(TableMetadata.Builder builder, TableMetadata base) {
    Set<Long> copies =
        base.snapshots().stream()
            .filter(OutstandingBranch::isCopy)
            .map(Snapshot::snapshotId)
            .collect(Collectors.toSet());
    if (base.ref(NAME) != null && copies.contains(base.ref(NAME).snapshotId())) {
      builder.removeRef(NAME);
    }
    if (!copies.isEmpty()) {
      builder.removeSnapshots(copies);
    }
  }

  private static boolean isCopy(Snapshot snapshot) {
    return snapshot.summary() != null && snapshot.summary().containsKey(OUTSTANDING);
  }

  private static long outstanding(Snapshot copy) {
    return Long.parseLong(copy.summary().get(OUTSTANDING));
  }

  private static Snapshot copy(
      TableMetadata base, Staged staged, Long parentId, long sequenceNumber, long nowMs) {
    Snapshot snapshot = staged.snapshot();
    SnapshotEdit edit =
        SnapshotEdit.create(copyId(snapshot.snapshotId()), snapshot.operation())
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
