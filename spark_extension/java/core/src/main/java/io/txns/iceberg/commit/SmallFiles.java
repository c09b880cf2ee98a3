package io.txns.iceberg.commit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.CloseableIterable;

/** The small files of the archive, which a tidy merges into the one that it writes. */
final class SmallFiles {
  /** Files of the archive below this size are merged into the next one, once there are enough. */
  private static final long BYTES = 256 * 1024;

  /** How many there are then: to merge each time would write all of them at each tidy. */
  static final int ENOUGH = 4;

  private SmallFiles() {}

  /** Those of a commit table of which no row is deleted, once there are enough. */
  static List<DataFile> toMerge(Table table) {
    List<DataFile> small = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      for (FileScanTask task : tasks) {
        if (task.file().fileSizeInBytes() < BYTES && task.deletes().isEmpty()) {
          small.add(task.file());
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot list the files of the archive", e);
    }
    return small.size() < ENOUGH ? List.of() : small;
  }

  /** All their rows, in any order, as a list to which others are added. */
  static List<Record> rowsOf(Table table, List<DataFile> files) {
    List<Record> rows = new ArrayList<>();
    for (DataFile file : files) {
      try (CloseableIterable<Record> records =
          FormatModelRegistry.<Record, Schema>readBuilder(
                  file.format(), Record.class, table.io().newInputFile(file))
              .project(table.schema())
              .build()) {
        records.forEach(rows::add);
      } catch (IOException e) {
        throw new UncheckedIOException("cannot read the archive", e);
      }
    }
    return rows;
  }
}
