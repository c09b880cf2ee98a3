package io.txns.iceberg.meta;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.InternalData;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.io.FileAppender;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.types.Types.NestedField;

/**
 * Writes manifest lists, as the table specification of Iceberg lays them down.
 *
 * <p>Iceberg's own writer of them is not public, and invariant I2 wants a list for every snapshot
 * that a renumbered, adopted or marker snapshot can call its own.
 */
final class ManifestLists {
  private ManifestLists() {}

  /**
   * Write a manifest list.
   *
   * @param file where to; replaced when it exists
   * @param formatVersion the table's format version, 2 or 3
   * @param snapshotId the snapshot that the list belongs to
   * @param parentId its parent, or null
   * @param sequenceNumber its sequence number
   * @param firstRowId the first row id that it may hand out; format 3 only, otherwise null
   * @param manifests what to list; a manifest that {@code snapshotId} itself added gets the new
   *     sequence number, and on format 3 new row ids, as one gets that has none: from before the
   *     table was upgraded
   * @param rowIds first row ids that manifests have by now, by their paths; null where they have
   *     none yet, whatever they say themselves
   * @return how many row ids were handed out; 0 below format 3
   */
  static long write(
      OutputFile file,
      int formatVersion,
      long snapshotId,
      Long parentId,
      long sequenceNumber,
      Long firstRowId,
      List<ManifestFile> manifests,
      Map<String, Long> rowIds) {
    Map<String, String> meta = new LinkedHashMap<>();
    meta.put("snapshot-id", Long.toString(snapshotId));
    meta.put("parent-snapshot-id", String.valueOf(parentId));
    meta.put("sequence-number", Long.toString(sequenceNumber));
    if (formatVersion >= 3) {
      meta.put("first-row-id", String.valueOf(firstRowId));
    }
    meta.put("format-version", Integer.toString(formatVersion));
    Row row = new Row(formatVersion, snapshotId, sequenceNumber, firstRowId, rowIds);
    try (FileAppender<StructLike> appender =
        InternalData.write(FileFormat.AVRO, file)
            .schema(schema(formatVersion))
            .named("manifest_file")
            .meta(meta)
            .overwrite()
            .build()) {
      for (ManifestFile manifest : manifests) {
        appender.add(row.wrap(manifest));
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write a manifest list: " + file.location(), e);
    }
    return firstRowId == null ? 0 : row.nextRowId - firstRowId;
  }

  private static Schema schema(int formatVersion) {
    List<NestedField> fields =
        new ArrayList<>(
            List.of(
                ManifestFile.PATH,
                ManifestFile.LENGTH,
                ManifestFile.SPEC_ID,
                ManifestFile.MANIFEST_CONTENT.asRequired(),
                ManifestFile.SEQUENCE_NUMBER.asRequired(),
                ManifestFile.MIN_SEQUENCE_NUMBER.asRequired(),
                ManifestFile.SNAPSHOT_ID,
                ManifestFile.ADDED_FILES_COUNT.asRequired(),
                ManifestFile.EXISTING_FILES_COUNT.asRequired(),
                ManifestFile.DELETED_FILES_COUNT.asRequired(),
                ManifestFile.ADDED_ROWS_COUNT.asRequired(),
                ManifestFile.EXISTING_ROWS_COUNT.asRequired(),
                ManifestFile.DELETED_ROWS_COUNT.asRequired(),
                ManifestFile.PARTITION_SUMMARIES,
                ManifestFile.KEY_METADATA));
    if (formatVersion >= 3) {
      fields.add(ManifestFile.FIRST_ROW_ID);
    }
    return new Schema(fields);
  }

  /** One line of the list: a manifest, with what the snapshot hands out put in. */
  private static final class Row implements StructLike {
    private final int formatVersion;
    private final long snapshotId;
    private final long sequenceNumber;
    private final Map<String, Long> rowIds;
    private Long nextRowId;
    private ManifestFile manifest;
    private Long firstRowId;

    private Row(
        int formatVersion,
        long snapshotId,
        long sequenceNumber,
        Long firstRowId,
        Map<String, Long> rowIds) {
      this.formatVersion = formatVersion;
      this.snapshotId = snapshotId;
      this.sequenceNumber = sequenceNumber;
      this.nextRowId = firstRowId;
      this.rowIds = rowIds;
    }

    private Row wrap(ManifestFile next) {
      this.manifest = next;
      this.firstRowId =
          rowIds.containsKey(next.path()) ? rowIds.get(next.path()) : next.firstRowId();
      boolean given = next.content() == ManifestContent.DATA && nextRowId != null;
      if (given && (own() || firstRowId == null)) {
        this.firstRowId = nextRowId;
        this.nextRowId += next.existingRowsCount() + next.addedRowsCount();
      }
      return this;
    }

    private boolean own() {
      return manifest.snapshotId() != null && manifest.snapshotId() == snapshotId;
    }

    /** New data of this snapshot takes its number; older files in its manifests keep theirs. */
    private long minSequenceNumber() {
      return own()
              && (manifest.existingFilesCount() == null || manifest.existingFilesCount() == 0)
              && (manifest.deletedFilesCount() == null || manifest.deletedFilesCount() == 0)
          ? sequenceNumber
          : Math.min(manifest.minSequenceNumber(), sequenceNumber);
    }

    @Override
    public int size() {
      return formatVersion >= 3 ? 16 : 15;
    }

    @Override
    public <T> T get(int position, Class<T> javaClass) {
      return javaClass.cast(value(position));
    }

    private Object value(int position) {
      return switch (position) {
        case 0 -> manifest.path();
        case 1 -> manifest.length();
        case 2 -> manifest.partitionSpecId();
        case 3 -> manifest.content().id();
        case 4 -> own() ? (Long) sequenceNumber : (Long) manifest.sequenceNumber();
        case 5 -> minSequenceNumber();
        case 6 -> manifest.snapshotId();
        case 7 -> manifest.addedFilesCount();
        case 8 -> manifest.existingFilesCount();
        case 9 -> manifest.deletedFilesCount();
        case 10 -> manifest.addedRowsCount();
        case 11 -> manifest.existingRowsCount();
        case 12 -> manifest.deletedRowsCount();
        case 13 -> manifest.partitions();
        case 14 -> manifest.keyMetadata();
        case 15 -> firstRowId;
        default -> throw new IllegalArgumentException("no such column: " + position);
      };
    }

    @Override
    public <T> void set(int position, T value) {
      throw new IllegalStateException("a line of a manifest list is written once");
    }
  }
}
