package io.txns.iceberg.table;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.History;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Commits on a data table that did not go through the protocol.
 *
 * @param headSnapshotId the newest of them: where {@code main} stands; null where they took main
 *     away
 * @param snapshotIds those that changed rows, newest first; empty for a rollback
 * @param adoptable whether all of them only append
 * @param reason what was found, for people
 * @param lost what of the log the table lacks, where somebody has set it back; else null
 * @param below where they left {@code main} besides, before a registration marked the table again;
 *     newest first
 * @param cure what ends it, where no repair does; else null
 */
public record Stranger(
    Long headSnapshotId,
    List<Long> snapshotIds,
    boolean adoptable,
    String reason,
    Lost lost,
    List<Long> below,
    String cure) {

  private static final String NAME_TAKEN = "another table stands under the name of a logged one";
  private static final String AWAY =
      "no repair ends that: rename that one away with plain Iceberg, and the logged one back where"
          + " somebody has moved it, then CALL system.apply()";

  /** Why nothing that the log has of a table is laid over it, or applied. */
  public static final String NEVER_UNDER_CARE =
      "the log has a change of a table that was never under this commit table's care";

  /** Why a table stays as it is until a repair. */
  public static final String MARK_TAKEN = "somebody took the protocol's mark from the table";

  /** What takes an entry away that names such a table. */
  public static String untouched(long commitTs) {
    return String.format(
        "nothing is applied to it; `txns recover --void %d` takes the entry out of the log; look"
            + " who has written the commit table: whoever may is trusted",
        commitTs);
  }

  /** Entries above one {@code commit_ts}, above which nothing can be read, and up to another. */
  public record Lost(long above, long upto) {}

  /** What stands for a change that the log has of a table which shows nothing of care. */
  static Stranger ofNoCare(TableMetadata metadata, long commitTs) {
    Long main = History.mainId(metadata);
    String cure = untouched(commitTs);
    return new Stranger(main, List.of(), false, NEVER_UNDER_CARE, null, List.of(), cure);
  }

  Stranger(Long headSnapshotId, List<Long> snapshotIds, boolean adoptable, String reason) {
    this(headSnapshotId, snapshotIds, adoptable, reason, null, List.of(), null);
  }

  /** Another table than the logged one, which stands under its name. */
  public static Stranger ofTakenName(TableMetadata other) {
    Long head = History.mainId(other);
    return new Stranger(head, List.of(), false, NAME_TAKEN, null, List.of(), AWAY);
  }

  /** Somebody who has written another branch than {@code main}, and taken what a change needs. */
  public static Stranger elsewhere(TableMetadata metadata, String reason) {
    return new Stranger(History.mainId(metadata), List.of(), false, reason);
  }

  /** The error for who changes a table; the caller has looked at {@link #adoptable}. */
  public TxnException quarantined(TableIdentifier table) {
    return cure == null
        ? TxnException.quarantined(table, reason)
        : TxnException.quarantined(table, reason, cure);
  }

  /** The same, with where they left {@code main} besides. */
  Stranger withBelow(List<Long> heads) {
    return new Stranger(
        headSnapshotId, snapshotIds, adoptable, reason, lost, List.copyOf(heads), cure);
  }

  /** The same, who made a logged change impossible besides. */
  Stranger impossible(String why) {
    return new Stranger(headSnapshotId, snapshotIds, false, why, lost, below, cure);
  }

  /** The snapshots that show all that strangers did, each the newest of a stretch. */
  List<Long> heads() {
    return Stream.concat(Stream.ofNullable(headSnapshotId), below.stream()).toList();
  }

  /**
   * What stands between a branch's head and the history of main, and was not adopted; empty for no
   * rows.
   */
  public static Optional<Stranger> above(TableMetadata metadata, long headSnapshotId) {
    Set<Long> main = History.ancestors(metadata, metadata.currentSnapshot());
    Set<Long> adopted =
        metadata.snapshots().stream()
            .flatMap(snapshot -> TableMark.adopted(snapshot).stream())
            .collect(Collectors.toSet());
    List<Snapshot> foreign = new ArrayList<>();
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.snapshot(headSnapshotId);
    while (at != null && !OurSnapshots.isOurs(at) && !main.contains(at.snapshotId())) {
      if (!DataOperations.REPLACE.equals(at.operation()) && !adopted.contains(at.snapshotId())) {
        foreign.add(at);
      }
      at = walk.parent(at);
    }
    return foreign.isEmpty() ? Optional.empty() : Optional.of(of(headSnapshotId, foreign));
  }

  /** Whether a branch stands on nothing that is known: whose rows it has nobody can tell. */
  public static boolean isCutOff(TableMetadata metadata, long headSnapshotId) {
    return standsOn(metadata, headSnapshotId) == null;
  }

  /** Whether a branch stands on a table that was dropped before it was created again. */
  public static boolean isOfDropped(TableMetadata metadata, long headSnapshotId) {
    Snapshot at = standsOn(metadata, headSnapshotId);
    return at != null
        && TableMark.of(metadata)
            .filter(mark -> OurSnapshots.standsAtOrBelow(metadata, mark, at, mark.created() - 1))
            .isPresent();
  }

  /** The first snapshot of a branch that is ours or main's; null for none. */
  public static Snapshot standsOn(TableMetadata metadata, long headSnapshotId) {
    Set<Long> main = History.ancestors(metadata, metadata.currentSnapshot());
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.snapshot(headSnapshotId);
    while (at != null && !OurSnapshots.isOurs(at) && !main.contains(at.snapshotId())) {
      at = walk.parent(at);
    }
    return at;
  }

  /**
   * What came back instead of a table that has all that the log has of it.
   *
   * @param upto the {@code commit_ts} up to which it lacks entries; null, which gives none, for one
   *     that has all
   */
  static Optional<Stranger> ofSetBack(TableMetadata metadata, Long upto) {
    if (upto == null) {
      return Optional.empty();
    }
    long applied = TableMark.applied(metadata);
    String reason =
        String.format(
            "the table was set back outside the protocol, by older metadata or a backup: rows of"
                + " the log are missing from it; applied=`%d` lost=`%d`",
            applied, upto);
    Lost lost = new Lost(applied, upto);
    Long head = History.mainId(metadata);
    return Optional.of(new Stranger(head, List.of(), false, reason, lost, List.of(), null));
  }

  /** What an adoption names: the snapshots with rows, or where main stands. */
  public List<Long> takenIn() {
    return snapshotIds.isEmpty() && headSnapshotId != null ? List.of(headSnapshotId) : snapshotIds;
  }

  /** What is left when some of the snapshots have been taken in; empty for none. */
  Optional<Stranger> without(List<Long> adopted) {
    List<Long> left = snapshotIds.stream().filter(id -> !adopted.contains(id)).toList();
    // A rollback has no snapshots, and nothing takes it in.
    return left.isEmpty() && !snapshotIds.isEmpty()
        ? Optional.empty()
        : Optional.of(new Stranger(headSnapshotId, left, adoptable, reason, lost, below, cure));
  }

  /** Strangers' snapshots that changed rows, newest first. */
  static Stranger of(long headSnapshotId, List<Snapshot> foreign) {
    boolean adoptable =
        foreign.stream().allMatch(at -> DataOperations.APPEND.equals(at.operation()));
    Snapshot newest = foreign.get(0);
    return new Stranger(
        headSnapshotId,
        foreign.stream().map(Snapshot::snapshotId).toList(),
        adoptable,
        String.format(
            "somebody wrote the table outside the protocol (%s by snapshot %d)",
            newest.operation(), newest.snapshotId()));
  }
}
