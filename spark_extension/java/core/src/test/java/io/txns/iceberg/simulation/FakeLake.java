package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequestParser;
import org.apache.iceberg.types.Types;

/** Files and pointers, as little as the steps need: the Python half of the simulation in a test. */
final class FakeLake {
  static final long START_MS = 1_750_000_000_000L;

  private final Map<String, byte[]> files = new TreeMap<>();
  private final Map<List<String>, String> pointers = new TreeMap<>(FakeLake::compare);
  private final TreeSet<List<String>> namespaces = new TreeSet<>(FakeLake::compare);
  private int commits;

  private static int compare(List<String> one, List<String> other) {
    return String.join(".", one).compareTo(String.join(".", other));
  }

  /** A table that somebody has created outside the protocol. */
  void createPlain(String namespace, String name) {
    Schema schema = new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));
    String location = SwapCatalog.WAREHOUSE + "/" + namespace + "/" + name;
    TableMetadata metadata =
        TableMetadata.newTableMetadata(
            schema,
            PartitionSpec.unpartitioned(),
            SortOrder.unsorted(),
            location,
            Map.of("format-version", "2"));
    ObjectNode json = json(metadata);
    json.put("table-uuid", "00000000-0000-4000-8000-00000000000" + pointers.size());
    namespaces.add(List.of(namespace));
    files.put(location + "/metadata/0.json", json.toString().getBytes(StandardCharsets.UTF_8));
    pointers.put(List.of(namespace, name), location + "/metadata/0.json");
  }

  /** The same in each run: it has no time of the machine's. */
  private static ObjectNode json(TableMetadata metadata) {
    ObjectNode json = (ObjectNode) Json.parse(TableMetadataParser.toJson(metadata));
    long newest = START_MS;
    for (Snapshot snapshot : metadata.snapshots()) {
      newest = Math.max(newest, snapshot.timestampMillis());
    }
    return json.put("last-updated-ms", newest);
  }

  boolean hasTable(String... name) {
    return pointers.containsKey(List.of(name));
  }

  /** The files below a location. */
  List<String> files(String location) {
    return files.keySet().stream().filter(one -> one.startsWith(location)).toList();
  }

  /** What is told to whoever takes a step, once it has happened. */
  ObjectNode answer(JsonNode step) {
    ObjectNode told = Json.object();
    try {
      told.set("answer", effect(step));
    } catch (StepFailed e) {
      told.putObject("raise").put("type", e.type()).put("message", e.getMessage());
    }
    return told;
  }

  private JsonNode effect(JsonNode step) {
    return switch (step.get("step").asText()) {
      case "sleep" -> Json.none();
      case "read", "exists", "write", "delete" -> file(step, step.get("location").asText());
      case "list", "namespace", "namespaces", "create-namespace" ->
          namespace(step, Json.list(step.get("namespace")));
      default -> table(step, Json.list(step.get("table")));
    };
  }

  private JsonNode file(JsonNode step, String location) {
    switch (step.get("step").asText()) {
      case "exists" -> {
        return JsonNodeFactory.instance.booleanNode(files.containsKey(location));
      }
      case "write" -> {
        files.put(location, Base64.getDecoder().decode(step.get("content").asText()));
        return Json.none();
      }
      default -> {
        byte[] content = files.get(location);
        check(content != null, "FileNotFound", location);
        if (step.get("step").asText().equals("delete")) {
          files.remove(location);
          return Json.none();
        }
        return JsonNodeFactory.instance.textNode(Base64.getEncoder().encodeToString(content));
      }
    }
  }

  private JsonNode namespace(JsonNode step, List<String> name) {
    boolean exists = namespaces.contains(name);
    switch (step.get("step").asText()) {
      case "namespace" -> {
        return exists ? Json.object() : Json.none();
      }
      case "namespaces" -> {
        ArrayNode names = Json.array();
        namespaces.stream()
            .filter(one -> one.subList(0, one.size() - 1).equals(name))
            .forEach(one -> names.add(Json.array(one)));
        return names;
      }
      case "create-namespace" -> {
        check(namespaces.add(name), "AlreadyExists", "namespace " + name);
        return Json.none();
      }
      default -> {
        check(exists, "NoSuchNamespace", name);
        ArrayNode names = Json.array();
        pointers.keySet().stream()
            .filter(table -> table.subList(0, table.size() - 1).equals(name))
            .forEach(table -> names.add(Json.array(table)));
        return names;
      }
    }
  }

  private JsonNode table(JsonNode step, List<String> name) {
    String pointer = pointers.get(name);
    switch (step.get("step").asText()) {
      case "load" -> {
        check(pointer != null, "NoSuchTable", name);
        return stored(pointer);
      }
      case "swap" -> {
        swap(name, Json.text(step, "expected"), step.get("location").asText());
      }
      case "commit" -> {
        return commit(name, step.get("request"));
      }
      case "drop" -> {
        check(pointer != null, "NoSuchTable", name);
        pointers.remove(name);
      }
      default -> {
        check(pointer != null, "NoSuchTable", name);
        check(!pointers.containsKey(Json.list(step.get("to"))), "AlreadyExists", name);
        pointers.put(Json.list(step.get("to")), pointers.remove(name));
      }
    }
    return Json.none();
  }

  private void swap(List<String> name, String expected, String location) {
    String type = expected == null ? "AlreadyExists" : "CommitFailed";
    check(Objects.equals(pointers.get(name), expected), type, name);
    pointers.put(name, location);
  }

  private JsonNode commit(List<String> name, JsonNode body) {
    UpdateTableRequest request = UpdateTableRequestParser.fromJson(body.toString());
    String pointer = pointers.get(name);
    TableMetadata base = pointer == null ? null : metadata(pointer);
    try {
      request.requirements().forEach(one -> one.validate(base));
    } catch (CommitFailedException e) {
      throw new StepFailed("CommitFailed", e.getMessage());
    }
    TableMetadata.Builder builder =
        base == null ? TableMetadata.buildFromEmpty() : TableMetadata.buildFrom(base);
    request.updates().forEach(one -> one.applyTo(builder));
    TableMetadata made = builder.build();
    String location = made.location() + "/metadata/" + ++commits + ".json";
    files.put(location, json(made).toString().getBytes(StandardCharsets.UTF_8));
    pointers.put(name, location);
    return stored(location);
  }

  private TableMetadata metadata(String location) {
    String json = new String(files.get(location), StandardCharsets.UTF_8);
    return TableMetadataParser.fromJson(location, json);
  }

  private JsonNode stored(String location) {
    String json = new String(files.get(location), StandardCharsets.UTF_8);
    return Json.object().put("location", location).put("metadata", json);
  }

  private static void check(boolean holds, String type, Object what) {
    if (!holds) {
      throw new StepFailed(type, "simulated: " + what);
    }
  }
}
