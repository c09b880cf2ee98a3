package io.txns.iceberg.stage;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CommitFailedException;

/**
 * A planned CREATE OR REPLACE or RTAS, on a newer state of its table.
 *
 * <p>Its updates were made for the state that it was planned on: laid over another one they would
 * leave half of what somebody else put there since. What it replaces the table by stays: columns
 * with the ids that stand in its files, and its rows.
 */
public final class Replacement {
  private final TxnClock clock;
  private final TableOperations real;

  public Replacement(TxnClock clock, TableOperations real) {
    this.clock = clock;
    this.real = real;
  }

  /**
   * The same replacement of {@code base}.
   *
   * @param plannedOn the state that it was planned on
   * @throws CommitFailedException where its ids, or the files that it wrote, do not fit the newer
   *     state
   */
  public TableMetadata on(TableMetadata base, TableMetadata plannedOn, TableMetadata planned) {
    if (!idsAreFree(base, plannedOn, planned)) {
      throw moved();
    }
    TableMetadata replaced = laidOn(base, planned);
    List<Snapshot> written = AddedSnapshots.of(planned.changes());
    if (written.isEmpty()) {
      return replaced;
    }
    boolean fits =
        replaced.defaultSpecId() == planned.defaultSpecId() && replaced.formatVersion() == 2;
    if (!fits) {
      throw moved();
    }
    return withRows(replaced, written);
  }

  /** What a replacement without rows makes of another state than it was planned on. */
  static TableMetadata laidOn(TableMetadata base, TableMetadata planned) {
    TableMetadata.Builder builder =
        upgraded(base, planned)
            .removeRef(SnapshotRef.MAIN_BRANCH)
            .setCurrentSchema(
                planned.schema(), Math.max(base.lastColumnId(), planned.lastColumnId()))
            .setDefaultPartitionSpec(planned.spec())
            .setDefaultSortOrder(planned.sortOrder());
    setAsked(builder, planned);
    return builder.build();
  }

  /** What somebody else has made of the table leaves no room for a replacement of it. */
  public static CommitFailedException moved() {
    return new CommitFailedException(
        "Cannot commit: somebody wrote the table while it was replaced, run it again");
  }

  /**
   * Whether nobody has taken ids of columns and partition fields that a replacement has planned to
   * take: rows of before, on a branch or in the history, would show what they have in another's.
   */
  private static boolean idsAreFree(
      TableMetadata base, TableMetadata plannedOn, TableMetadata planned) {
    return isFree(base.lastColumnId(), plannedOn.lastColumnId(), planned.lastColumnId())
        && isFree(
            base.lastAssignedPartitionId(),
            plannedOn.lastAssignedPartitionId(),
            planned.lastAssignedPartitionId());
  }

  private static boolean isFree(int last, int lastWhenPlanned, int lastPlanned) {
    return lastPlanned == lastWhenPlanned || last == lastWhenPlanned;
  }

  /** First of all in the format that was asked for, which what it plans may need. */
  private static TableMetadata.Builder upgraded(TableMetadata base, TableMetadata planned) {
    int asked =
        planned.changes().stream()
            .filter(MetadataUpdate.UpgradeFormatVersion.class::isInstance)
            .map(update -> ((MetadataUpdate.UpgradeFormatVersion) update).formatVersion())
            .reduce(base.formatVersion(), Math::max);
    return TableMetadata.buildFrom(base).upgradeFormatVersion(asked);
  }

  /** What the replacement asks for; what else the table had as it was planned may have changed. */
  private static void setAsked(TableMetadata.Builder builder, TableMetadata planned) {
    for (MetadataUpdate update : planned.changes()) {
      if (update instanceof MetadataUpdate.SetProperties set) {
        builder.setProperties(TableMark.withoutReserved(set.updated()));
      } else if (update instanceof MetadataUpdate.RemoveProperties remove) {
        builder.removeProperties(remove.removed());
      } else if (update instanceof MetadataUpdate.SetLocation set) {
        builder.setLocation(set.location());
      }
    }
  }

  private TableMetadata withRows(TableMetadata replaced, List<Snapshot> written) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(replaced);
    long sequenceNumber = replaced.lastSequenceNumber();
    for (Snapshot snapshot : written) {
      sequenceNumber++;
      String location =
          real.metadataFileLocation(
              String.format(
                  "snap-%d-%d-%s.avro", snapshot.snapshotId(), sequenceNumber, clock.newTxnId()));
      builder.addSnapshot(
          SnapshotEdit.of(snapshot)
              .timestampMs(replaced.lastUpdatedMillis())
              .schemaId(replaced.currentSchemaId())
              .listed(
                  real.io(),
                  location,
                  replaced.formatVersion(),
                  sequenceNumber,
                  null,
                  snapshot.allManifests(real.io()))
              .build());
    }
    long head = written.get(written.size() - 1).snapshotId();
    return builder.setBranchSnapshot(head, SnapshotRef.MAIN_BRANCH).build();
  }
}
