package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.types.Types;

/** The calls that create tables, drop, rename and list them. */
record CatalogCalls(Session session) {
  private static final Schema SCHEMA =
      new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));

  void into(Map<String, Session.Call> calls) {
    calls.put("create_table", this::create);
    calls.put("drop_table", this::drop);
    calls.put("rename_table", this::rename);
    calls.put("list_tables", this::list);
  }

  private JsonNode create(JsonNode args) {
    session
        .catalog(args)
        .buildTable(Json.table(args.get("table")), SCHEMA)
        .withProperty("format-version", "2")
        .create();
    return Json.none();
  }

  private JsonNode drop(JsonNode args) {
    TableIdentifier table = Json.table(args.get("table"));
    if (!session.catalog(args).dropTable(table)) {
      throw new NoSuchTableException("Table does not exist: %s", table);
    }
    return Json.none();
  }

  private JsonNode rename(JsonNode args) {
    session.catalog(args).renameTable(Json.table(args.get("table")), Json.table(args.get("to")));
    return Json.none();
  }

  private JsonNode list(JsonNode args) {
    ArrayNode names = Json.array();
    session
        .catalog(args)
        .listTables(Json.namespace(args.get("namespace")))
        .forEach(table -> names.add(Json.name(table)));
    return names;
  }
}
