package io.txns.iceberg;

import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.apache.iceberg.types.Types.NestedField.required;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.DVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.encryption.EncryptionKeyMetadata;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Types;

/** A table by days: of each day two rows, in a file of their own; and files for it. */
public final class Days {
  public static final Schema SCHEMA =
      new Schema(
          required(1, "id", Types.LongType.get()),
          required(2, "day", Types.LongType.get()),
          optional(3, "amount", Types.LongType.get()));
  public static final PartitionSpec BY_DAY =
      PartitionSpec.builderFor(SCHEMA).identity("day").build();

  private Days() {}

  /** Create it, with rows 10 and 11 of day 1, 20 and 21 of day 2. */
  public static Table create(Lake lake, String name, Map<String, String> properties) {
    Catalog plain = lake.catalog();
    Lake.createNamespace(plain, Lake.id(name).namespace());
    Table table =
        plain
            .buildTable(Lake.id(name), SCHEMA)
            .withPartitionSpec(BY_DAY)
            .withProperties(properties)
            .create();
    for (long day = 1; day <= 2; day++) {
      table.newAppend().appendFile(file(table, day, 10 * day, 10 * day + 1)).commit();
    }
    return table;
  }

  public static Expression day(long day) {
    return Expressions.equal("day", day);
  }

  private static EncryptedOutputFile output(Table table) {
    String name = UUID.randomUUID() + ".parquet";
    return EncryptedFiles.encryptedOutput(
        table.io().newOutputFile(table.locationProvider().newDataLocation(name)),
        EncryptionKeyMetadata.EMPTY);
  }

  private static PartitionData partition(Table table, long day) {
    PartitionData partition = new PartitionData(table.spec().partitionType());
    partition.set(0, day);
    return partition;
  }

  /** Write a data file of a day's rows; nothing points to it yet. */
  public static DataFile file(Table table, long day, long... ids) {
    try (DataWriter<Record> writer =
        FormatModelRegistry.<Record, Schema>dataWriteBuilder(
                FileFormat.PARQUET, Record.class, output(table))
            .schema(table.schema())
            .spec(table.spec())
            .partition(partition(table, day))
            .build()) {
      for (long id : ids) {
        GenericRecord row = GenericRecord.create(table.schema());
        row.setField("id", id);
        row.setField("day", day);
        writer.write(row);
      }
      writer.close();
      return writer.toDataFile();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Write a delete file of a day that marks the first row of some data files. */
  public static DeleteFile marks(Table table, long day, List<DataFile> files) {
    try (PositionDeleteWriter<Record> writer =
        FormatModelRegistry.<Record>positionDeleteWriteBuilder(FileFormat.PARQUET, output(table))
            .metricsConfig(MetricsConfig.forPositionDelete())
            .spec(table.spec())
            .partition(partition(table, day))
            .build()) {
      List<String> paths = new ArrayList<>(files.stream().map(DataFile::location).toList());
      paths.sort(null);
      PositionDelete<Record> mark = PositionDelete.create();
      for (String path : paths) {
        writer.write(mark.set(path, 0L));
      }
      writer.close();
      return writer.toDeleteFile();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Write deletion vectors that mark the first row of some data files, into one file. */
  public static List<DeleteFile> vectors(Table table, List<DataFile> files) {
    return vectors(table, files, 0);
  }

  /** Write one that marks some rows of a data file. */
  public static DeleteFile vector(Table table, DataFile file, long... positions) {
    return vectors(table, List.of(file), positions).get(0);
  }

  private static List<DeleteFile> vectors(Table table, List<DataFile> files, long... positions) {
    OutputFileFactory factory =
        OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).build();
    DVFileWriter writer = new BaseDVFileWriter(factory, path -> null);
    try (writer) {
      for (DataFile file : files) {
        PartitionSpec spec = table.specs().get(file.specId());
        for (long position : positions) {
          writer.delete(file.location(), position, spec, file.partition());
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return writer.result().deleteFiles();
  }

  /** Write a delete file of a day that takes rows by their ids. */
  public static DeleteFile equality(Table table, long day, long... ids) {
    Schema keys = table.schema().select("id");
    try (EqualityDeleteWriter<Record> writer =
        FormatModelRegistry.<Record, Schema>equalityDeleteWriteBuilder(
                FileFormat.PARQUET, Record.class, output(table))
            .schema(keys)
            .equalityFieldIds(1)
            .spec(table.spec())
            .partition(partition(table, day))
            .build()) {
      for (long id : ids) {
        GenericRecord row = GenericRecord.create(keys);
        row.setField("id", id);
        writer.write(row);
      }
      writer.close();
      return writer.toDeleteFile();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Read the files of a day, as a scan with that filter plans them. */
  public static List<DataFile> files(Table table, Expression filter) {
    List<DataFile> files = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().filter(filter).planFiles()) {
      tasks.forEach(task -> files.add(task.file()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return files;
  }
}
