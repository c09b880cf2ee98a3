package io.txns.iceberg.log;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What a payload looks like, looked at before a library reads it (docs/spec.md 7.1); pure.
 *
 * <p>Libraries read more than they write, each something else: a number that is a text, a word in
 * capitals, a field that is missing. What one takes another may not, or may take for something
 * else.
 */
final class PayloadShape {
  /** Looks at one value. */
  private interface Look {
    void at(JsonNode value, String at) throws IOException;
  }

  private static final Pattern UUID =
      Pattern.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}");
  private static final Pattern TYPE =
      Pattern.compile(
          "boolean|int|long|float|double|date|time|timestamp|timestamptz|timestamp_ns"
              + "|timestamptz_ns|string|uuid|binary|unknown|variant|fixed\\[[0-9]{1,9}\\]"
              + "|decimal\\(([1-9]|[12][0-9]|3[0-8]), ?[0-9]{1,2}\\)|geometry(\\([^()]*\\))?"
              + "|geography(\\([^()]*\\))?");
  private static final Pattern TRANSFORM =
      Pattern.compile(
          "identity|year|month|day|hour|void|bucket\\[[1-9][0-9]{0,8}\\]"
              + "|truncate\\[[1-9][0-9]{0,8}\\]");

  private static final Look TEXT = holds(JsonNode::isTextual, "a text");
  private static final Look FLAG = holds(JsonNode::isBoolean, "true or false");
  private static final Look INT =
      holds(node -> node.isIntegralNumber() && node.canConvertToInt(), "an int32");
  private static final Look LONG =
      holds(node -> node.isIntegralNumber() && node.canConvertToLong(), "an int64");
  private static final Look COUNT =
      holds(
          node -> node.isIntegralNumber() && node.canConvertToLong() && node.asLong() >= 0,
          "an int64 not below 0");
  private static final Look LONG_OR_NULL =
      (value, at) -> {
        if (!value.isNull()) {
          LONG.at(value, at);
        }
      };
  private static final Look ANY = (value, at) -> {};
  private static final Look NAME =
      holds(node -> node.isTextual() && node.asText().indexOf(0) < 0, "a name without null");
  private static final Look OWN_NAME =
      holds(
          node -> node.isTextual() && !node.asText().isEmpty() && node.asText().indexOf(0) < 0,
          "a table's name");
  private static final Look TEXTS =
      (value, at) -> {
        object(value, at);
        for (Map.Entry<String, JsonNode> one : value.properties()) {
          TEXT.at(one.getValue(), at + "." + one.getKey());
        }
      };

  private static final Map<String, Map<String, Look>> NESTED = new HashMap<>();

  private static final Look ANY_TYPE =
      (value, at) -> {
        if (value.isTextual()) {
          matching(TYPE).at(value, at);
        } else {
          kind("type", NESTED).at(value, at);
        }
      };
  private static final Look FIELDS =
      listOf(
          object(
              Map.of(
                  "id", INT,
                  "name", TEXT,
                  "required", FLAG,
                  "type", ANY_TYPE,
                  "doc?", TEXT,
                  "initial-default?", ANY,
                  "write-default?", ANY)));

  static {
    NESTED.put("struct", Map.of("fields", FIELDS));
    NESTED.put("list", Map.of("element-id", INT, "element", ANY_TYPE, "element-required", FLAG));
    NESTED.put(
        "map",
        Map.of(
            "key-id", INT,
            "key", ANY_TYPE,
            "value-id", INT,
            "value", ANY_TYPE,
            "value-required", FLAG));
  }

  private static final Look COLUMNS =
      object(
          Map.of(
              "schema-id",
              INT,
              "identifier-field-ids?",
              listOf(INT),
              "type",
              oneOf("struct"),
              "fields",
              FIELDS));
  private static final Look SCHEMA =
      (value, at) -> {
        COLUMNS.at(value, at);
        if (!haveOwnIds(value, new HashSet<>())) {
          throw new IOException("two columns have one id: " + at);
        }
      };
  private static final Look SPEC =
      object(
          Map.of(
              "spec-id",
              INT,
              "fields",
              listOf(
                  object(
                      Map.of(
                          "name", TEXT,
                          "transform", matching(TRANSFORM),
                          "source-id", INT,
                          "field-id", INT)))));
  private static final Look ORDER =
      object(
          Map.of(
              "order-id",
              INT,
              "fields",
              listOf(
                  object(
                      Map.of(
                          "transform", matching(TRANSFORM),
                          "source-id", INT,
                          "direction", oneOf("asc|desc"),
                          "null-order", oneOf("nulls-first|nulls-last"))))));
  private static final Look SORT_ORDER =
      (value, at) -> {
        ORDER.at(value, at);
        if ((value.get("order-id").asInt() == 0) != value.get("fields").isEmpty()) {
          throw new IOException("the order of no columns, and no other one, is 0: " + at);
        }
      };
  private static final Look SUMMARY =
      (value, at) -> {
        TEXTS.at(value, at);
        object(Map.of("operation", oneOf("append|replace|overwrite|delete"))).at(value, at);
      };
  private static final Look SNAPSHOT_FIELDS =
      object(
          Map.of(
              "snapshot-id", LONG,
              "parent-snapshot-id?", LONG,
              "sequence-number?", LONG,
              "timestamp-ms", LONG,
              "manifest-list", TEXT,
              "summary", SUMMARY,
              "schema-id?", INT,
              "first-row-id?", COUNT,
              "added-rows?", COUNT,
              "key-id?", TEXT));
  private static final Look SNAPSHOT =
      (value, at) -> {
        SNAPSHOT_FIELDS.at(value, at);
        if (value.has("first-row-id") && !value.has("added-rows")) {
          throw new IOException("row ids are of so many rows: " + at);
        }
      };
  private static final Look BLOB =
      object(
          Map.of(
              "type", TEXT,
              "snapshot-id", LONG,
              "sequence-number", LONG,
              "fields", listOf(INT),
              "properties?", TEXTS));
  private static final Look PARTITION_STATISTICS =
      object(Map.of("snapshot-id", LONG, "statistics-path", TEXT, "file-size-in-bytes", LONG));
  private static final Look STATISTICS =
      object(
          Map.of(
              "snapshot-id", LONG,
              "statistics-path", TEXT,
              "file-size-in-bytes", LONG,
              "file-footer-size-in-bytes", LONG,
              "blob-metadata", listOf(BLOB)));
  private static final Map<String, Look> REF =
      Map.of(
          "ref-name", TEXT,
          "type", oneOf("branch|tag"),
          "snapshot-id", LONG,
          "min-snapshots-to-keep?", INT,
          "max-snapshot-age-ms?", LONG,
          "max-ref-age-ms?", LONG);
  private static final Look KEY = object(Map.of("key-id", TEXT, "encrypted-key-metadata", TEXT));

  private static final Map<String, Map<String, Look>> UPDATES =
      Map.ofEntries(
          Map.entry("assign-uuid", Map.of("uuid", matching(UUID))),
          Map.entry("upgrade-format-version", Map.of("format-version", INT)),
          Map.entry("add-schema", Map.of("schema", SCHEMA)),
          Map.entry("set-current-schema", Map.of("schema-id", INT)),
          Map.entry("add-spec", Map.of("spec", SPEC)),
          Map.entry("set-default-spec", Map.of("spec-id", INT)),
          Map.entry("add-sort-order", Map.of("sort-order", SORT_ORDER)),
          Map.entry("set-default-sort-order", Map.of("sort-order-id", INT)),
          Map.entry("add-snapshot", Map.of("snapshot", SNAPSHOT)),
          Map.entry("set-snapshot-ref", REF),
          Map.entry("remove-snapshots", Map.of("snapshot-ids", listOf(LONG))),
          Map.entry("remove-snapshot-ref", Map.of("ref-name", TEXT)),
          Map.entry("set-location", Map.of("location", TEXT)),
          Map.entry("set-properties", Map.of("updates", TEXTS)),
          Map.entry("remove-properties", Map.of("removals", listOf(TEXT))),
          Map.entry("remove-schemas", Map.of("schema-ids", listOf(INT))),
          Map.entry("remove-partition-specs", Map.of("spec-ids", listOf(INT))),
          Map.entry("set-statistics", Map.of("statistics", STATISTICS)),
          Map.entry("remove-statistics", Map.of("snapshot-id", LONG)),
          Map.entry(
              "set-partition-statistics", Map.of("partition-statistics", PARTITION_STATISTICS)),
          Map.entry("remove-partition-statistics", Map.of("snapshot-id", LONG)),
          Map.entry("add-encryption-key", Map.of("encryption-key", KEY)),
          Map.entry("remove-encryption-key", Map.of("key-id", TEXT)));

  private static final Map<String, Map<String, Look>> REQUIREMENTS =
      Map.of(
          "assert-create", Map.of(),
          "assert-table-uuid", Map.of("uuid", matching(UUID)),
          "assert-ref-snapshot-id", Map.of("ref", TEXT, "snapshot-id?", LONG_OR_NULL),
          "assert-last-assigned-field-id", Map.of("last-assigned-field-id", INT),
          "assert-current-schema-id", Map.of("current-schema-id", INT),
          "assert-last-assigned-partition-id", Map.of("last-assigned-partition-id", INT),
          "assert-default-spec-id", Map.of("default-spec-id", INT),
          "assert-default-sort-order-id", Map.of("default-sort-order-id", INT));

  private static final Look PAYLOAD =
      object(
          Map.of(
              "table-changes",
              listOf(
                  object(
                      Map.of(
                          "identifier",
                          object(Map.of("namespace", listOf(NAME), "name", OWN_NAME)),
                          "requirements",
                          listOf(kind("type", REQUIREMENTS)),
                          "updates",
                          listOf(kind("action", UPDATES)))))));

  private PayloadShape() {}

  /**
   * Refuse what is no {@code CommitTransactionRequest} of tables.
   *
   * @throws IOException saying where
   */
  static void check(JsonNode payload) throws IOException {
    PAYLOAD.at(payload, "payload");
  }

  /** Whether no two of all columns in a type have one id. */
  private static boolean haveOwnIds(JsonNode type, Set<Integer> seen) {
    for (JsonNode field : type.path("fields")) {
      if (!seen.add(field.get("id").asInt()) || !haveOwnIds(field.get("type"), seen)) {
        return false;
      }
    }
    return Stream.of("element", "key", "value")
        .filter(type::has)
        .allMatch(
            name -> seen.add(type.get(name + "-id").asInt()) && haveOwnIds(type.get(name), seen));
  }

  /** Whether a value is what it is to be. */
  private interface Rule {
    boolean holds(JsonNode value);
  }

  private static Look holds(Rule rule, String what) {
    return (value, at) -> {
      if (!rule.holds(value)) {
        throw new IOException("not " + what + ": " + at);
      }
    };
  }

  private static void object(JsonNode value, String at) throws IOException {
    if (!value.isObject()) {
      throw new IOException("not an object: " + at);
    }
  }

  /** An object: a key that ends in {@code ?} may be missing, others are not; more may be there. */
  private static Look object(Map<String, Look> shape) {
    return (value, at) -> {
      object(value, at);
      for (Map.Entry<String, Look> one : shape.entrySet()) {
        boolean optional = one.getKey().endsWith("?");
        String key = optional ? one.getKey().substring(0, one.getKey().length() - 1) : one.getKey();
        if (value.has(key)) {
          one.getValue().at(value.get(key), at + "." + key);
        } else if (!optional) {
          throw new IOException("missing: " + at + "." + key);
        }
      }
    };
  }

  /** An object whose shape one of its words says. */
  private static Look kind(String key, Map<String, Map<String, Look>> shapes) {
    return (value, at) -> {
      JsonNode word = value.path(key);
      if (!value.isObject() || !word.isTextual() || !shapes.containsKey(word.asText())) {
        throw new IOException("unknown " + key + ": " + at);
      }
      object(shapes.get(word.asText())).at(value, at + "." + word.asText());
    };
  }

  private static Look listOf(Look each) {
    return (value, at) -> {
      if (!value.isArray()) {
        throw new IOException("not a list: " + at);
      }
      int number = 0;
      for (JsonNode one : value) {
        each.at(one, at + "." + number++);
      }
    };
  }

  private static Look matching(Pattern pattern) {
    return holds(
        node -> node.isTextual() && pattern.matcher(node.asText()).matches(), "a known word");
  }

  private static Look oneOf(String words) {
    return matching(Pattern.compile(words));
  }
}
