package io.txns.iceberg.simulation;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;

/** Names and maps as the lines of the protocol have them. */
final class Json {
  static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  static ObjectNode object() {
    return JsonNodeFactory.instance.objectNode();
  }

  static ArrayNode array() {
    return JsonNodeFactory.instance.arrayNode();
  }

  static JsonNode none() {
    return JsonNodeFactory.instance.nullNode();
  }

  static JsonNode parse(String text) {
    try {
      return MAPPER.readTree(text);
    } catch (JsonProcessingException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The same, where it may be left out, or null. */
  static String text(JsonNode parent, String field) {
    JsonNode value = parent.path(field);
    return value.isMissingNode() || value.isNull() ? null : value.asText();
  }

  static Map<String, String> map(JsonNode object) {
    Map<String, String> map = new LinkedHashMap<>();
    object.properties().forEach(one -> map.put(one.getKey(), one.getValue().asText()));
    return map;
  }

  static ObjectNode object(Map<String, String> map) {
    ObjectNode object = object();
    map.forEach(object::put);
    return object;
  }

  static List<String> list(JsonNode array) {
    List<String> list = new ArrayList<>();
    array.forEach(one -> list.add(one.asText()));
    return list;
  }

  static ArrayNode array(Iterable<String> list) {
    ArrayNode array = array();
    list.forEach(array::add);
    return array;
  }

  static ArrayNode name(Namespace namespace) {
    return array(Arrays.asList(namespace.levels()));
  }

  static ArrayNode name(TableIdentifier table) {
    return name(table.namespace()).add(table.name());
  }

  static Namespace namespace(JsonNode name) {
    return Namespace.of(list(name).toArray(String[]::new));
  }

  static TableIdentifier table(JsonNode name) {
    return TableIdentifier.of(list(name).toArray(String[]::new));
  }
}
