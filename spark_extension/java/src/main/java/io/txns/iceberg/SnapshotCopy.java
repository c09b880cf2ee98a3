package io.txns.iceberg;

import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;

/**
 * Puts the rows of an older or a foreign snapshot on {@code main} as a new snapshot of ours, with a
 * manifest list of its own (invariant I2).
 */
final class SnapshotCopy {
  private SnapshotCopy() {}

  /**
   * Stage a copy of {@code source} on top of {@code parent}.
   *
   * @param parent what main stands on in the log; null for a table without a snapshot
   */
  static void stage(StagedTable staged, Snapshot source, Snapshot parent) {
    TableMetadata base = staged.current();
    long snapshotId = staged.real().newSnapshotId();
    long sequenceNumber = base.lastSequenceNumber() + 1;
    Long parentId = parent == null ? null : parent.snapshotId();
    Long firstRowId = base.formatVersion() >= 3 ? base.nextRowId() : null;
    String location = staged.operations().metadataFileLocation("snap-" + snapshotId + "-copy.avro");
    long rows =
        ManifestLists.write(
            staged.real().io().newOutputFile(location),
            base.formatVersion(),
            snapshotId,
            parentId,
            sequenceNumber,
            firstRowId,
            source.allManifests(staged.real().io()));
    Map<String, String> totals =
        source.summary().entrySet().stream()
            .filter(entry -> entry.getKey().startsWith("total-"))
            .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    SnapshotEdit edit =
        SnapshotEdit.create(snapshotId, DataOperations.OVERWRITE)
            .parent(parentId)
            .sequenceNumber(sequenceNumber)
            .timestampMs(base.lastUpdatedMillis())
            .manifestList(location)
            .schemaId(source.schemaId())
            .summary(totals);
    if (firstRowId != null) {
      edit.rows(firstRowId, rows);
    }
    staged.stage(
        base,
        TableMetadata.buildFrom(base)
            .setBranchSnapshot(edit.build(), SnapshotRef.MAIN_BRANCH)
            .build());
  }
}
