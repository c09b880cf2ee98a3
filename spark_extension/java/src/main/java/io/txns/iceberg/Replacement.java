package io.txns.iceberg;

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
final class Replacement {
  private final TxnClock clock;
  private final TableOperations real;

  Replacement(TxnClock clock, TableOperations real) {
    this.clock = clock;
    this.real = real;
  }

  /**
   * The same replacement of {@code base}.
   *
   * @throws CommitFailedException where the files that it wrote do not fit the newer state
   */
  TableMetadata on(TableMetadata base, TableMetadata planned) {
    TableMetadata.Builder builder =
        TableMetadata.buildFrom(base)
            .removeRef(SnapshotRef.MAIN_BRANCH)
            .setCurrentSchema(
                planned.schema(), Math.max(base.lastColumnId(), planned.lastColumnId()))
            .setDefaultPartitionSpec(planned.spec())
            .setDefaultSortOrder(planned.sortOrder())
            .setLocation(planned.location());
    setProperties(builder, planned);
    TableMetadata replaced = builder.build();
    List<Snapshot> written =
        planned.changes().stream()
            .filter(MetadataUpdate.AddSnapshot.class::isInstance)
            .map(update -> ((MetadataUpdate.AddSnapshot) update).snapshot())
            .toList();
    if (written.isEmpty()) {
      return replaced;
    }
    boolean fits =
        replaced.defaultSpecId() == planned.defaultSpecId() && replaced.formatVersion() == 2;
    if (!fits) {
      throw new CommitFailedException(
          "Cannot commit: somebody wrote the table while it was replaced, run it again");
    }
    return withRows(replaced, written);
  }

  /** What the replacement asks for; what else the table had as it was planned may have changed. */
  private static void setProperties(TableMetadata.Builder builder, TableMetadata planned) {
    for (MetadataUpdate update : planned.changes()) {
      if (update instanceof MetadataUpdate.SetProperties set) {
        builder.setProperties(TableMark.withoutReserved(set.updated()));
      } else if (update instanceof MetadataUpdate.RemoveProperties remove) {
        builder.removeProperties(remove.removed());
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
      ManifestLists.write(
          real.io().newOutputFile(location),
          replaced.formatVersion(),
          snapshot.snapshotId(),
          snapshot.parentId(),
          sequenceNumber,
          null,
          snapshot.allManifests(real.io()));
      builder.addSnapshot(
          SnapshotEdit.of(snapshot)
              .sequenceNumber(sequenceNumber)
              .manifestList(location)
              .timestampMs(replaced.lastUpdatedMillis())
              .schemaId(replaced.currentSchemaId())
              .build());
    }
    long head = written.get(written.size() - 1).snapshotId();
    return builder.setBranchSnapshot(head, SnapshotRef.MAIN_BRANCH).build();
  }
}
