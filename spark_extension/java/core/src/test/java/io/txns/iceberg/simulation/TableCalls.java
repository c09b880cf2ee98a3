package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.UpdatePartitionSpec;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ContentFileUtil;

/** The calls that read a table and write it; its rows are in the names of its files. */
record TableCalls(Session session) {
  /** A column that some tables have, and are partitioned by: it follows from the row. */
  private static final String PART = "part";

  private static final long FILE_BYTES = 100;

  /** Behind the first bytes of a Puffin file. */
  private static final long VECTOR_OFFSET = 4;

  void into(Map<String, Session.Call> calls) {
    calls.put("load_table", this::load);
    calls.put("plan_files", this::plan);
    calls.put("append", this::append);
    calls.put("overwrite", this::overwrite);
    calls.put("write_where", this::writeWhere);
    calls.put("rewrite", this::rewrite);
    calls.put("truncate", this::truncate);
    calls.put("delete_rows", this::deleteRows);
    calls.put("update_schema", this::updateSchema);
    calls.put("update_spec", this::updateSpec);
    calls.put("clean", this::clean);
    calls.put("create_branch", this::createBranch);
    calls.put("set_properties", this::setProperties);
  }

  private JsonNode load(JsonNode args) {
    Table table = session.catalog(args).loadTable(Json.table(args.get("table")));
    ObjectNode loaded = Json.object();
    loaded.put("table", session.number(table));
    loaded.put("location", table.location());
    loaded.put("spec_id", table.spec().specId());
    loaded.put("format_version", TableUtil.formatVersion(table));
    ObjectNode refs = loaded.putObject("refs");
    table.refs().forEach((name, ref) -> refs.put(name, ref.snapshotId()));
    loaded.put("schema", SchemaParser.toJson(table.schema()));
    loaded.set(
        "specs",
        Json.array(table.specs().values().stream().map(PartitionSpecParser::toJson).toList()));
    loaded.set(
        "sort_orders",
        Json.array(table.sortOrders().values().stream().map(SortOrderParser::toJson).toList()));
    return loaded;
  }

  private JsonNode plan(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    TableScan scan = loaded.table().newScan();
    if (args.has("where")) {
      scan = scan.filter(where(args));
    }
    loaded.scanned().clear();
    ObjectNode planned = Json.object();
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        loaded.scanned().put(task.file().location(), task);
        planned.set(
            task.file().location(),
            Json.array(task.deletes().stream().map(DeleteFile::location).toList()));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return planned;
  }

  private JsonNode append(JsonNode args) {
    Table table = session.table(args).table();
    String branch = Json.text(args, "branch");
    AppendFiles append = table.newFastAppend();
    if (branch != null) {
      append = append.toBranch(branch);
    }
    for (JsonNode file : args.get("files")) {
      append.appendFile(dataFile(table, file));
    }
    append.commit();
    return Json.none();
  }

  private JsonNode overwrite(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    // As engines do: who rewrites a file that is gone would bring its rows back.
    return replace(loaded.table().newOverwrite().validateNoConflictingDeletes(), loaded, args);
  }

  /** Where there is nothing to replace, the operation is begun, and that is all. */
  private static JsonNode replace(
      OverwriteFiles overwrite, Session.LoadedTable loaded, JsonNode args) {
    for (String path : Json.list(args.get("removed"))) {
      overwrite.deleteFile(loaded.file(path));
    }
    for (JsonNode file : args.get("added")) {
      overwrite.addFile(dataFile(loaded.table(), file));
    }
    if (!args.get("removed").isEmpty() || !args.get("added").isEmpty()) {
      overwrite.commit();
    }
    return Json.none();
  }

  /** As Spark's MERGE does: what is written follows from what was found, which may be nothing. */
  private JsonNode writeWhere(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    Snapshot found = loaded.table().currentSnapshot();
    OverwriteFiles overwrite =
        loaded
            .table()
            .newOverwrite()
            .conflictDetectionFilter(where(args))
            .validateNoConflictingData()
            .validateNoConflictingDeletes();
    if (found != null) {
      overwrite.validateFromSnapshot(found.snapshotId());
    }
    return replace(overwrite, loaded, args);
  }

  /** Rows of a part, or from one id to another, or both; all where nothing is said. */
  private static Expression where(JsonNode args) {
    JsonNode where = args.path("where");
    Expression part =
        where.has("part")
            ? Expressions.equal(PART, where.get("part").asLong())
            : Expressions.alwaysTrue();
    if (where.has("low") && where.get("low").equals(where.get("high"))) {
      return Expressions.and(part, Expressions.equal("id", where.get("low").asLong()));
    }
    Expression low =
        where.has("low")
            ? Expressions.greaterThanOrEqual("id", where.get("low").asLong())
            : Expressions.alwaysTrue();
    Expression high =
        where.has("high")
            ? Expressions.lessThanOrEqual("id", where.get("high").asLong())
            : Expressions.alwaysTrue();
    return Expressions.and(part, low, high);
  }

  /** As Spark's compaction does, whose files may count as old as the snapshot that it has read. */
  private JsonNode rewrite(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    Snapshot read = loaded.table().currentSnapshot();
    RewriteFiles rewrite = loaded.table().newRewrite().validateFromSnapshot(read.snapshotId());
    for (String path : Json.list(args.get("removed"))) {
      rewrite.deleteFile(loaded.file(path));
    }
    for (JsonNode file : args.get("added")) {
      rewrite.addFile(dataFile(loaded.table(), file));
    }
    if (args.get("as_old").asBoolean()) {
      rewrite.dataSequenceNumber(read.sequenceNumber());
    }
    rewrite.commit();
    return Json.none();
  }

  /** All rows of whole files, whatever the filter. */
  private JsonNode truncate(JsonNode args) {
    session.table(args).table().newDelete().deleteFromRowFilter(where(args)).commit();
    return Json.none();
  }

  private JsonNode deleteRows(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    Table table = loaded.table();
    FileScanTask task = loaded.scanned().get(args.get("file").asText());
    FileMetadata.Builder deletes = deleteFile(table, task.file(), args);
    deletes
        .withPath(args.at("/deletes/path").asText())
        .withRecordCount(args.at("/deletes/rows").asLong())
        .withFileSizeInBytes(FILE_BYTES);
    RowDelta delta = table.newRowDelta().addDeletes(deletes.build());
    if (args.has("where")) {
      delta.conflictDetectionFilter(where(args));
    }
    if (!args.get("kind").asText().equals("EQUALITY")) {
      validated(delta, table, task);
    }
    delta.commit();
    return Json.none();
  }

  private static FileMetadata.Builder deleteFile(Table table, DataFile file, JsonNode args) {
    PartitionSpec spec = table.specs().get(file.specId());
    return switch (args.get("kind").asText()) {
      case "POSITION" ->
          FileMetadata.deleteFileBuilder(spec)
              .ofPositionDeletes()
              .withPartition(file.partition())
              .withReferencedDataFile(file.location())
              .withFormat(FileFormat.PARQUET);
      case "VECTOR" ->
          FileMetadata.deleteFileBuilder(spec)
              .ofPositionDeletes()
              .withPartition(file.partition())
              .withReferencedDataFile(file.location())
              .withFormat(FileFormat.PUFFIN)
              .withContentOffset(VECTOR_OFFSET)
              .withContentSizeInBytes(FILE_BYTES);
      // Without a partition, of all files that are older, as streaming engines write it.
      case "EQUALITY" ->
          FileMetadata.deleteFileBuilder(table.specs().get(0))
              .ofEqualityDeletes(table.schema().findField("id").fieldId())
              .withFormat(FileFormat.PARQUET);
      default -> throw new IllegalArgumentException(args.toString());
    };
  }

  /** As Spark's merge-on-read does: the file is there still, and has one vector, if any. */
  private static void validated(RowDelta delta, Table table, FileScanTask task) {
    if (TableUtil.formatVersion(table) > 2) {
      task.deletes().stream().filter(ContentFileUtil::isFileScoped).forEach(delta::removeDeletes);
    }
    delta
        .validateFromSnapshot(table.currentSnapshot().snapshotId())
        .validateDataFilesExist(List.of(task.file().location()))
        .validateDeletedFiles()
        .validateNoConflictingDeleteFiles();
  }

  private static DataFile dataFile(Table table, JsonNode file) {
    DataFiles.Builder builder =
        DataFiles.builder(table.spec())
            .withPath(file.get("path").asText())
            .withRecordCount(file.get("rows").asLong())
            .withFileSizeInBytes(FILE_BYTES)
            .withFormat(FileFormat.PARQUET);
    if (table.spec().fields().stream().anyMatch(field -> field.name().equals(PART))) {
      builder.withPartition(partition(table.spec(), file.get("part").asLong()));
    }
    if (file.has("bounds")) {
      builder.withMetrics(bounded(table.schema(), file));
    }
    return builder.build();
  }

  private static PartitionData partition(PartitionSpec spec, long part) {
    PartitionData partition = new PartitionData(spec.partitionType());
    for (int at = 0; at < spec.fields().size(); at++) {
      if (spec.fields().get(at).name().equals(PART)) {
        partition.set(at, part);
      }
    }
    return partition;
  }

  /** The least and the greatest value of each column that is told. */
  private static Metrics bounded(Schema schema, JsonNode file) {
    long rows = file.get("rows").asLong();
    Map<Integer, Long> counts = new HashMap<>();
    Map<Integer, Long> nulls = new HashMap<>();
    Map<Integer, ByteBuffer> lower = new HashMap<>();
    Map<Integer, ByteBuffer> upper = new HashMap<>();
    for (JsonNode bound : file.get("bounds")) {
      int id = schema.findField(bound.get("column").asText()).fieldId();
      counts.put(id, rows);
      nulls.put(id, 0L);
      lower.put(id, Conversions.toByteBuffer(Types.LongType.get(), bound.get("low").asLong()));
      upper.put(id, Conversions.toByteBuffer(Types.LongType.get(), bound.get("high").asLong()));
    }
    return new Metrics(rows, null, counts, nulls, null, lower, upper);
  }

  private JsonNode updateSchema(JsonNode args) {
    UpdateSchema update = session.table(args).table().updateSchema();
    for (JsonNode change : args.get("changes")) {
      String name = change.get("name").asText();
      String to = Json.text(change, "to");
      update =
          switch (change.get("change").asText()) {
            case "add" -> update.addColumn(name, Types.fromPrimitiveString(to));
            case "rename" -> update.renameColumn(name, to);
            case "drop" -> update.deleteColumn(name);
            case "widen" -> update.updateColumn(name, Types.fromPrimitiveString(to));
            case "describe" -> update.updateColumnDoc(name, to);
            case "move" -> update.moveFirst(name);
            default -> throw new IllegalArgumentException(change.toString());
          };
    }
    update.commit();
    return Json.none();
  }

  private JsonNode updateSpec(JsonNode args) {
    UpdatePartitionSpec update = session.table(args).table().updateSpec();
    for (JsonNode change : args.get("changes")) {
      String name = change.get("name").asText();
      update =
          switch (change.get("change").asText()) {
            case "add" ->
                update.addField(
                    name,
                    Expressions.bucket(
                        change.get("source").asText(), change.get("buckets").asInt()));
            case "remove" -> update.removeField(name);
            default -> throw new IllegalArgumentException(change.toString());
          };
    }
    update.commit();
    return Json.none();
  }

  /** Remove schemas and specs that no snapshot has, as maintenance does. */
  private JsonNode clean(JsonNode args) {
    TableOperations operations = ((HasTableOperations) session.table(args).table()).operations();
    TableMetadata base = operations.current();
    Set<Integer> schemas = new HashSet<>(base.schemasById().keySet());
    Set<Integer> specs = new HashSet<>(base.specsById().keySet());
    schemas.remove(base.currentSchemaId());
    specs.remove(base.defaultSpecId());
    for (Snapshot snapshot : base.snapshots()) {
      schemas.remove(snapshot.schemaId());
      if (!specs.isEmpty()) {
        snapshot.allManifests(operations.io()).forEach(one -> specs.remove(one.partitionSpecId()));
      }
    }
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    if (!schemas.isEmpty()) {
      new MetadataUpdate.RemoveSchemas(schemas).applyTo(builder);
    }
    if (!specs.isEmpty()) {
      new MetadataUpdate.RemovePartitionSpecs(specs).applyTo(builder);
    }
    if (!schemas.isEmpty() || !specs.isEmpty()) {
      operations.commit(base, builder.build());
    }
    return Json.none();
  }

  private JsonNode createBranch(JsonNode args) {
    session
        .table(args)
        .table()
        .manageSnapshots()
        .createBranch(args.get("name").asText(), args.get("snapshot").asLong())
        .commit();
    return Json.none();
  }

  private JsonNode setProperties(JsonNode args) {
    UpdateProperties update = session.table(args).table().updateProperties();
    Json.map(args.get("properties")).forEach(update::set);
    update.commit();
    return Json.none();
  }
}
