package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;

/** The steps of both catalogs; each throws {@link StepFailed} where it fails. */
final class CatalogSteps {
  private CatalogSteps() {}

  /** What a catalog says of a table: its newest metadata file, and what that holds. */
  record Stored(String location, String metadata) {
    private Stored(JsonNode answer) {
      this(answer.path("location").asText(), answer.path("metadata").asText());
    }

    TableMetadata parsed() {
      return TableMetadataParser.fromJson(location, metadata);
    }
  }

  static Stored load(TableIdentifier table) {
    return new Stored(step("load", of(table)));
  }

  /**
   * @param expected where the table's pointer has to stand; null where there is to be none
   */
  static void swap(TableIdentifier table, String expected, String location) {
    step("swap", of(table).put("expected", expected).put("location", location));
  }

  /** The files that the rows of some tables name, of those that there are: all of one moment. */
  static Map<TableIdentifier, String> rows(Collection<TableIdentifier> tables) {
    ArrayNode names = Json.array();
    tables.forEach(table -> names.add(Json.name(table)));
    ObjectNode fields = Json.object();
    fields.set("tables", names);
    JsonNode locations = step("rows", fields);
    Map<TableIdentifier, String> located = new LinkedHashMap<>();
    int number = 0;
    for (TableIdentifier table : tables) {
      JsonNode location = locations.get(number++);
      if (!location.isNull()) {
        located.put(table, location.asText());
      }
    }
    return located;
  }

  /** One of several pointers that move together; {@code expected} as in {@link #swap}. */
  record Move(TableIdentifier table, String expected, String location) {}

  static void swapAll(List<Move> moves) {
    ArrayNode all = Json.array();
    for (Move move : moves) {
      all.add(of(move.table()).put("expected", move.expected()).put("location", move.location()));
    }
    ObjectNode fields = Json.object();
    fields.set("moves", all);
    step("swap-all", fields);
  }

  static Stored commit(TableIdentifier table, JsonNode request) {
    ObjectNode fields = of(table);
    fields.set("request", request);
    return new Stored(step("commit", fields));
  }

  static void drop(TableIdentifier table) {
    step("drop", of(table));
  }

  static void rename(TableIdentifier from, TableIdentifier to) {
    ObjectNode fields = of(from);
    fields.set("to", Json.name(to));
    step("rename", fields);
  }

  static List<TableIdentifier> list(Namespace namespace) {
    List<TableIdentifier> names = new ArrayList<>();
    step("list", of(namespace)).forEach(name -> names.add(Json.table(name)));
    return names;
  }

  /** Its properties, or null where there is none. */
  static Map<String, String> namespace(Namespace namespace) {
    JsonNode answer = step("namespace", of(namespace));
    return answer.isObject() ? Json.map(answer) : null;
  }

  /** The namespaces right below another one; that of all is empty. */
  static List<Namespace> namespaces(Namespace parent) {
    List<Namespace> names = new ArrayList<>();
    step("namespaces", of(parent)).forEach(name -> names.add(Json.namespace(name)));
    return names;
  }

  static void createNamespace(Namespace namespace) {
    step("create-namespace", of(namespace));
  }

  private static ObjectNode of(TableIdentifier table) {
    ObjectNode fields = Json.object();
    fields.set("table", Json.name(table));
    return fields;
  }

  private static ObjectNode of(Namespace namespace) {
    ObjectNode fields = Json.object();
    fields.set("namespace", Json.name(namespace));
    return fields;
  }

  private static JsonNode step(String kind, ObjectNode fields) {
    return SimulatedThread.current().step(kind, fields);
  }
}
