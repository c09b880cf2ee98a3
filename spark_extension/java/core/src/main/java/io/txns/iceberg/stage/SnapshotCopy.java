package io.txns.iceberg.stage;

import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.io.FileIO;

/**
 * Puts the rows of an older or a foreign snapshot on {@code main} as a new snapshot of ours, with a
 * manifest list of its own (invariant I2).
 */
public final class SnapshotCopy {
  private static final Map<String, String> NO_ROWS =
      Map.of(
          SnapshotSummary.TOTAL_DATA_FILES_PROP, "0",
          SnapshotSummary.TOTAL_DELETE_FILES_PROP, "0",
          SnapshotSummary.TOTAL_RECORDS_PROP, "0",
          SnapshotSummary.TOTAL_FILE_SIZE_PROP, "0",
          SnapshotSummary.TOTAL_POS_DELETES_PROP, "0",
          SnapshotSummary.TOTAL_EQ_DELETES_PROP, "0");

  /** What a footing is a copy of where the table had no {@code main}. */
  private static final long NO_SNAPSHOT = -1;

  private SnapshotCopy() {}

  /**
   * Stage a copy of {@code source} on top of {@code parent}.
   *
   * @param source null for no rows
   * @param parent what main stands on in the log; null for a table without a snapshot
   */
  public static void stage(StagedTable staged, Snapshot source, Snapshot parent) {
    long snapshotId = staged.real().newSnapshotId();
    Map<String, String> restored = source == null ? Map.of() : restored(source.snapshotId());
    stage(staged, snapshotId, DataOperations.OVERWRITE, source, parent, restored);
  }

  /**
   * Stage a copy of {@code main} on {@code main}, for an adoption to stand on (docs/spec.md 9.4).
   *
   * <p>It has the rows that are there, as a compaction has; without a {@code main} it is no
   * compaction of anything, and strangers' as the state is.
   */
  public static void stageFooting(StagedTable staged, long snapshotId) {
    Snapshot main = staged.current().currentSnapshot();
    String operation = main == null ? DataOperations.OVERWRITE : DataOperations.REPLACE;
    Map<String, String> restored = restored(main == null ? NO_SNAPSHOT : main.snapshotId());
    stage(staged, snapshotId, operation, main, main, restored);
  }

  private static Map<String, String> restored(long snapshotId) {
    return Map.of(TableMark.SNAPSHOT_RESTORED, Long.toString(snapshotId));
  }

  private static void stage(
      StagedTable staged,
      long snapshotId,
      String operation,
      Snapshot source,
      Snapshot parent,
      Map<String, String> restored) {
    TableMetadata base = staged.current();
    FileIO io = staged.real().io();
    SnapshotEdit edit =
        SnapshotEdit.create(snapshotId, operation)
            .parent(parent == null ? null : parent.snapshotId())
            .timestampMs(base.lastUpdatedMillis())
            .schemaId(base.currentSchemaId())
            .summary(totals(source))
            .summary(restored)
            .listed(
                io,
                staged.operations().metadataFileLocation("snap-" + snapshotId + "-copy.avro"),
                base.formatVersion(),
                base.lastSequenceNumber() + 1,
                base.formatVersion() >= 3 ? base.nextRowId() : null,
                source == null ? List.of() : source.allManifests(io));
    staged.stage(
        base,
        TableMetadata.buildFrom(base)
            .setBranchSnapshot(edit.build(), SnapshotRef.MAIN_BRANCH)
            .build());
  }

  /** The {@code total-} keys of a snapshot's summary; zeros for none. */
  private static Map<String, String> totals(Snapshot source) {
    if (source == null) {
      return NO_ROWS;
    }
    return source.summary().entrySet().stream()
        .filter(entry -> entry.getKey().startsWith("total-"))
        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
  }
}
