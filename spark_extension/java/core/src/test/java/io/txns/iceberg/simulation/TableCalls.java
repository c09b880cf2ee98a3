package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.UpdatePartitionSpec;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Types;

/** The calls that read a table and write it; its rows are in the names of its files. */
record TableCalls(Session session) {
  private static final long FILE_BYTES = 100;

  void into(Map<String, Session.Call> calls) {
    calls.put("load_table", this::load);
    calls.put("plan_files", this::plan);
    calls.put("append", this::append);
    calls.put("overwrite", this::overwrite);
    calls.put("write_key", this::writeKey);
    calls.put("rewrite", this::rewrite);
    calls.put("truncate", this::truncate);
    calls.put("delete_row", this::deleteRow);
    calls.put("update_schema", this::updateSchema);
    calls.put("update_spec", this::updateSpec);
    calls.put("create_branch", this::createBranch);
    calls.put("set_properties", this::setProperties);
  }

  private JsonNode load(JsonNode args) {
    Table table = session.catalog(args).loadTable(Json.table(args.get("table")));
    ObjectNode loaded = Json.object();
    loaded.put("table", session.number(table));
    loaded.put("location", table.location());
    loaded.put("spec_id", table.spec().specId());
    ObjectNode refs = loaded.putObject("refs");
    table.refs().forEach((name, ref) -> refs.put(name, ref.snapshotId()));
    loaded.put("schema", SchemaParser.toJson(table.schema()));
    loaded.set(
        "specs",
        Json.array(table.specs().values().stream().map(PartitionSpecParser::toJson).toList()));
    return loaded;
  }

  private JsonNode plan(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    TableScan scan = loaded.table().newScan();
    if (args.has("key")) {
      scan = scan.filter(isKey(args));
    }
    loaded.planned().clear();
    ObjectNode planned = Json.object();
    try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
      for (FileScanTask task : tasks) {
        loaded.planned().put(task.file().location(), task.file());
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
      overwrite.deleteFile(loaded.planned().get(path));
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
  private JsonNode writeKey(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    Snapshot found = loaded.table().currentSnapshot();
    OverwriteFiles overwrite =
        loaded
            .table()
            .newOverwrite()
            .conflictDetectionFilter(isKey(args))
            .validateNoConflictingData()
            .validateNoConflictingDeletes();
    if (found != null) {
      overwrite.validateFromSnapshot(found.snapshotId());
    }
    return replace(overwrite, loaded, args);
  }

  private static Expression isKey(JsonNode args) {
    return Expressions.equal("id", args.get("key").asLong());
  }

  private JsonNode rewrite(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    RewriteFiles rewrite = loaded.table().newRewrite();
    for (String path : Json.list(args.get("removed"))) {
      rewrite.deleteFile(loaded.planned().get(path));
    }
    for (JsonNode file : args.get("added")) {
      rewrite.addFile(dataFile(loaded.table(), file));
    }
    rewrite.commit();
    return Json.none();
  }

  private JsonNode truncate(JsonNode args) {
    session.table(args).table().newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit();
    return Json.none();
  }

  /** As Spark's merge-on-read does: the file that loses a row has to be there still. */
  private JsonNode deleteRow(JsonNode args) {
    Session.LoadedTable loaded = session.table(args);
    Table table = loaded.table();
    DataFile file = loaded.planned().get(args.get("file").asText());
    DeleteFile deletes =
        FileMetadata.deleteFileBuilder(table.specs().get(file.specId()))
            .ofPositionDeletes()
            .withPartition(file.partition())
            .withReferencedDataFile(file.location())
            .withPath(args.get("deletes").asText())
            .withRecordCount(1)
            .withFileSizeInBytes(FILE_BYTES)
            .withFormat(FileFormat.PARQUET)
            .build();
    table
        .newRowDelta()
        .addDeletes(deletes)
        .validateFromSnapshot(table.currentSnapshot().snapshotId())
        .validateDataFilesExist(List.of(file.location()))
        .validateDeletedFiles()
        .validateNoConflictingDeleteFiles()
        .commit();
    return Json.none();
  }

  private static DataFile dataFile(Table table, JsonNode file) {
    return DataFiles.builder(table.spec())
        .withPath(file.get("path").asText())
        .withRecordCount(file.get("rows").asLong())
        .withFileSizeInBytes(FILE_BYTES)
        .withFormat(FileFormat.PARQUET)
        .build();
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
