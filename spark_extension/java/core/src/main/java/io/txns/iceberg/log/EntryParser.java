package io.txns.iceberg.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnId;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Entries to and from the summary of a snapshot of the commit table (docs/spec.md "Entry").
 *
 * <p>Unknown keys are ignored; unknown features are refused, by readers or by writers.
 */
public final class EntryParser {
  static final String PREFIX = "txns.";
  static final String FORMAT_VERSION = "txns.format-version";
  static final String READER_FEATURES = "txns.reader-features";
  static final String WRITER_FEATURES = "txns.writer-features";
  public static final String KIND = "txns.kind";
  static final String COMMIT_TS = "txns.commit-ts";
  static final String PREV_TS = "txns.prev-ts";
  static final String UPPER = "txns.upper";
  public static final String TIDIED_UPTO = "txns.tidied-upto";
  static final String READ_TS = "txns.read-ts";
  static final String TXN_ID = "txns.txn-id";
  static final String ISOLATION = "txns.isolation";
  static final String ENGINE = "txns.engine";
  static final String COMMENT = "txns.comment";
  static final String TABLES = "txns.tables";
  static final String PAYLOAD = "txns.payload";
  static final String PAYLOAD_LOCATION = "txns.payload-location";
  static final String PAYLOAD_SHA256 = "txns.payload-sha256";
  static final String SETTINGS = "txns.settings";
  static final String RESERVE = "txns.reserve";

  /** The version of the stored bytes that this program reads and writes. */
  static final int VERSION = 1;

  /** Features of the format that this program knows; version 1 has none. */
  private static final Set<String> KNOWN_FEATURES = Set.of();

  private static final Pattern NUMBER = Pattern.compile("0|[1-9][0-9]{0,18}");
  private static final Pattern ID = Pattern.compile("-?[0-9]{1,19}");
  private static final Pattern SHA256 = Pattern.compile("[0-9a-f]{64}");

  private static final ObjectMapper JSON = new ObjectMapper();

  private EntryParser() {}

  /** Whether a snapshot of the commit table is a record. */
  static boolean hasKind(Snapshot snapshot) {
    return snapshot.summary() != null && snapshot.summary().containsKey(KIND);
  }

  /** The summary of the snapshot that stands for {@code entry}, without {@code operation}. */
  public static Map<String, String> toSummary(Entry entry) {
    Map<String, String> summary = new LinkedHashMap<>();
    summary.put(FORMAT_VERSION, Integer.toString(VERSION));
    summary.put(KIND, entry.kind().stored());
    if (entry.kind() != EntryKind.TIDY) {
      summary.put(COMMIT_TS, Long.toString(entry.commitTs()));
      summary.put(PREV_TS, Long.toString(entry.prevTs()));
      summary.put(READ_TS, Long.toString(entry.readTs()));
      summary.put(ISOLATION, entry.isolation().stored());
      summary.put(TABLES, toJson(entry.changes()));
    }
    summary.put(UPPER, Long.toString(entry.upper()));
    summary.put(TIDIED_UPTO, Long.toString(entry.tidiedUpto()));
    summary.put(TXN_ID, entry.txnId());
    summary.put(ENGINE, entry.engine());
    if (!entry.comment().isEmpty()) {
      summary.put(COMMENT, entry.comment());
    }
    if (entry.settings() != null) {
      summary.put(SETTINGS, SettingsParser.toJson(entry.settings()));
    }
    if (!entry.reserved().isEmpty()) {
      summary.put(RESERVE, ReservationParser.toJson(entry.reserved()));
    }
    if (entry.payload().inline() != null) {
      summary.put(PAYLOAD, entry.payload().inline());
    } else if (entry.payload().location() != null) {
      summary.put(PAYLOAD_LOCATION, entry.payload().location());
      summary.put(PAYLOAD_SHA256, entry.payload().sha256());
    }
    return summary;
  }

  /**
   * The entry that a snapshot's summary holds.
   *
   * @throws TxnException CorruptLog for a missing or malformed field; Unsupported for an unknown
   *     version or reader feature
   */
  public static Entry fromSummary(Map<String, String> summary) {
    checkLengths(summary);
    checkReadable(summary);
    EntryKind kind = EntryKind.parse(required(summary, KIND));
    boolean tidy = kind == EntryKind.TIDY;
    if (tidy && summary.containsKey(COMMIT_TS)) {
      throw TxnException.corruptLog("a tidy record carries no commit-ts");
    }
    long upper = number(summary, UPPER);
    Entry entry =
        new Entry(
            kind,
            tidy ? 0 : number(summary, COMMIT_TS),
            tidy ? 0 : number(summary, PREV_TS),
            upper,
            number(summary, TIDIED_UPTO),
            tidy ? 0 : number(summary, READ_TS),
            txnId(summary),
            tidy ? Isolation.SNAPSHOT : isolation(required(summary, ISOLATION)),
            unicode(summary.getOrDefault(ENGINE, "")),
            comment(summary),
            tidy ? List.of() : changes(required(summary, TABLES)),
            payload(summary),
            summary.containsKey(SETTINGS) ? SettingsParser.parse(summary.get(SETTINGS)) : null,
            ReservationParser.parse(summary.get(RESERVE), upper));
    checkConsistent(entry);
    return entry;
  }

  private static void checkLengths(Map<String, String> summary) {
    summary.forEach(
        (key, stored) -> {
          int length = stored.length();
          if (length > Limits.TEXT_MAX_CHARACTERS
              && stored.codePointCount(0, length) > Limits.TEXT_MAX_CHARACTERS) {
            throw TxnException.corruptLog(
                String.format(
                    "a record has texts of at most %d characters; key=`%s`",
                    Limits.TEXT_MAX_CHARACTERS, key));
          }
        });
  }

  /** What the fields of one record say about each other (docs/spec.md "Relations"). */
  private static void checkConsistent(Entry entry) {
    check(entry.tidiedUpto() <= entry.upper(), "tidied-upto is above upper (I6)");
    check(
        (entry.kind() == EntryKind.SETTINGS) == (entry.settings() != null),
        String.format("a `%s` has %s, or has none", entry.kind().stored(), SETTINGS));
    if (entry.kind() == EntryKind.TIDY) {
      check(!entry.applies(), "a tidy record has a payload");
      return;
    }
    check(entry.upper() == entry.commitTs(), "upper is not the commit-ts (I1)");
    check(entry.prevTs() < entry.commitTs(), "prev-ts is not below commit-ts (I1)");
    check(entry.readTs() < entry.commitTs(), "read-ts is not below commit-ts (I1)");
    long born = entry.changes().stream().filter(Change::bornApplied).count();
    check(
        born == 0 || entry.kind() == EntryKind.COMMIT,
        String.format("a `%s` is born applied", entry.kind().stored()));
    boolean carries = !entry.carried().isEmpty();
    check(
        carries == entry.applies(),
        String.format(
            "a `%s` with %d tables, %d of them born applied, %s",
            entry.kind().stored(),
            entry.changes().size(),
            born,
            carries ? "needs a payload" : "has no payload"));
  }

  private static void check(boolean holds, String message) {
    if (!holds) {
      throw TxnException.corruptLog("an entry contradicts itself: " + message);
    }
  }

  private static String txnId(Map<String, String> summary) {
    String id = required(summary, TXN_ID);
    if (!TxnId.isOne(id)) {
      throw TxnException.corruptLog("a transaction id has 1 to 255 printable characters");
    }
    return id;
  }

  /** Refuse to write a log that asks for writer features this program does not know. */
  static void checkWritable(Map<String, String> summary) {
    refuseUnknown(summary, WRITER_FEATURES);
  }

  private static void checkReadable(Map<String, String> summary) {
    long version = number(summary, FORMAT_VERSION);
    if (version != VERSION) {
      throw TxnException.unsupported(
          String.format(
              "the commit table is of another format version, upgrade this program;"
                  + " txns.format-version=`%d` known=`%d`",
              version, VERSION));
    }
    refuseUnknown(summary, READER_FEATURES);
  }

  private static void refuseUnknown(Map<String, String> summary, String key) {
    Set<String> unknown = new TreeSet<>();
    for (String feature : summary.getOrDefault(key, "").split(",")) {
      String name = stripped(feature);
      if (!name.isEmpty() && !KNOWN_FEATURES.contains(name)) {
        unknown.add(name);
      }
    }
    if (!unknown.isEmpty()) {
      throw TxnException.unsupported(
          String.format(
              "the commit table asks for a feature that this program does not know, upgrade it;"
                  + " %s=`%s`",
              key, String.join(",", unknown)));
    }
  }

  private static String stripped(String text) {
    int from = 0;
    int to = text.length();
    while (from < to && isBlank(text.charAt(from))) {
      from++;
    }
    while (from < to && isBlank(text.charAt(to - 1))) {
      to--;
    }
    return text.substring(from, to);
  }

  /** As Unicode has it, and what separates in ASCII. */
  private static boolean isBlank(char at) {
    return Character.isWhitespace(at) || Character.isSpaceChar(at) || at == 0x85;
  }

  private static Entry.Payload payload(Map<String, String> summary) {
    String inline = summary.get(PAYLOAD);
    String location = summary.get(PAYLOAD_LOCATION);
    String sha256 = summary.get(PAYLOAD_SHA256);
    if (inline != null && isLong(inline)) {
      throw TxnException.corruptLog(
          String.format(
              "an inline payload has at most %d bytes of UTF-8", Limits.INLINE_MAX_BYTES));
    }
    if (inline != null && location != null) {
      throw TxnException.corruptLog("an entry has a payload inline or in a file, not both");
    }
    boolean digest = sha256 != null && SHA256.matcher(sha256).matches();
    if (location == null ? sha256 != null : !digest) {
      throw TxnException.corruptLog(
          String.format(
              "a payload file, and only a file, needs %s; location=`%s`",
              PAYLOAD_SHA256, location));
    }
    return inline == null && location == null
        ? Entry.Payload.NONE
        : new Entry.Payload(inline, location, sha256);
  }

  private static boolean isLong(String text) {
    return text.length() > Limits.INLINE_MAX_BYTES
        || text.getBytes(StandardCharsets.UTF_8).length > Limits.INLINE_MAX_BYTES;
  }

  static Isolation isolation(String stored) {
    for (Isolation level : Isolation.values()) {
      if (level.stored().equals(stored)) {
        return level;
      }
    }
    throw TxnException.corruptLog(String.format("unknown isolation; %s=`%s`", ISOLATION, stored));
  }

  private static String toJson(List<Change> changes) {
    ArrayNode list = JSON.createArrayNode();
    for (Change change : changes) {
      ObjectNode node = list.addObject();
      ObjectNode identifier = node.putObject("identifier");
      ArrayNode namespace = identifier.putArray("namespace");
      for (String level : change.table().namespace().levels()) {
        namespace.add(level);
      }
      identifier.put("name", change.table().name());
      node.put("uuid", change.uuid());
      node.put("operation", change.operation().stored());
      if (change.fromSnapshotId() != null) {
        node.put("from-snapshot-id", change.fromSnapshotId());
      }
      if (change.toSnapshotId() != null) {
        node.put("to-snapshot-id", change.toSnapshotId());
      }
      node.put("added-records", change.addedRecords());
      node.put("deleted-records", change.deletedRecords());
      if (change.bornApplied()) {
        node.put("born-applied", true);
      }
    }
    return list.toString();
  }

  /** Words for people; halves of pairs, which no file holds, are question marks. */
  private static String unicode(String words) {
    return new String(words.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
  }

  /** A comment as far as it is held: words for people keep nobody from the log. */
  private static String comment(Map<String, String> summary) {
    String stored = summary.getOrDefault(COMMENT, "");
    byte[] whole = stored.getBytes(StandardCharsets.UTF_8);
    if (whole.length <= Limits.COMMENT_MAX_BYTES) {
      return unicode(stored);
    }
    int end = Limits.COMMENT_MAX_BYTES;
    while ((whole[end] & 0xC0) == 0x80) { // inside a character
      end--;
    }
    return new String(whole, 0, end, StandardCharsets.UTF_8);
  }

  private static List<Change> changes(String json) {
    JsonNode list;
    try {
      list = Limits.parsed(json);
    } catch (IOException e) {
      throw TxnException.corruptLog(String.format("%s is not JSON: %s", TABLES, e.getMessage()));
    }
    if (list == null || !list.isArray()) {
      throw TxnException.corruptLog(String.format("%s is not a list", TABLES));
    }
    if (list.size() > Limits.TABLES_MAX) {
      throw TxnException.corruptLog(
          String.format("an entry names at most %d tables", Limits.TABLES_MAX));
    }
    List<Change> changes = new ArrayList<>();
    Set<Object> seen = new HashSet<>();
    for (JsonNode node : list) {
      Change change = change(node);
      if (!seen.add(change.table()) || !seen.add(change.uuid())) {
        throw TxnException.corruptLog(
            String.format("an entry names a table once; table=`%s`", change.table()));
      }
      changes.add(change);
    }
    return changes;
  }

  private static Change change(JsonNode node) {
    JsonNode identifier = node.path("identifier");
    if (!identifier.path("namespace").isArray()) {
      throw TxnException.corruptLog(
          String.format("an element of %s has no list `namespace`", TABLES));
    }
    List<String> levels = new ArrayList<>();
    for (JsonNode level : identifier.get("namespace")) {
      if (!level.isTextual()) {
        throw TxnException.corruptLog(
            String.format("a namespace in %s is a list of texts", TABLES));
      }
      levels.add(level.asText());
    }
    return new Change(
        name(levels, text(identifier, "name")),
        text(node, "uuid"),
        Operation.parse(text(node, "operation")),
        id(node, "from-snapshot-id"),
        id(node, "to-snapshot-id"),
        count(node, "added-records"),
        count(node, "deleted-records"),
        flag(node, "born-applied"));
  }

  /** A table's name that catalogs take. */
  private static TableIdentifier name(List<String> levels, String name) {
    if (name.isEmpty()
        || name.indexOf(0) >= 0
        || levels.stream().anyMatch(level -> level.indexOf(0) >= 0)) {
      throw TxnException.corruptLog(
          String.format(
              "a table has a name, without null characters; table=`%s` `%s`", levels, name));
    }
    return TableIdentifier.of(Namespace.of(levels.toArray(String[]::new)), name);
  }

  /**
   * A name as the archive stores it.
   *
   * @throws TxnException CorruptLog where it is none that {@link TableNames#text} writes of a
   *     table's
   */
  static TableIdentifier archivedName(String stored) {
    List<String> parts = new ArrayList<>(TableNames.parts(stored));
    String name = parts.remove(parts.size() - 1);
    TableIdentifier table = name(parts, name);
    if (!TableNames.text(table).equals(stored)) {
      throw TxnException.corruptLog(
          String.format("the archive has a name that is none; table_name=`%s`", stored));
    }
    return table;
  }

  /**
   * Ids of snapshots that a summary lists, separated by commas; an empty text is none.
   *
   * @throws TxnException CorruptLog naming the key
   */
  public static List<Long> snapshotIds(String stored, String key) {
    List<String> ids = stored.isEmpty() ? List.of() : List.of(stored.split(",", -1));
    try {
      if (ids.stream().allMatch(id -> ID.matcher(id).matches())) {
        return ids.stream().map(Long::valueOf).toList();
      }
    } catch (NumberFormatException e) {
      // above int64: told below
    }
    throw TxnException.corruptLog(String.format("not ids of snapshots; %s=`%s`", key, stored));
  }

  private static String text(JsonNode node, String field) {
    JsonNode value = node.get(field);
    if (value == null || !value.isTextual()) {
      throw TxnException.corruptLog(
          String.format("an element of %s has no text `%s`", TABLES, field));
    }
    return value.asText();
  }

  private static Long id(JsonNode node, String field) {
    JsonNode value = node.get(field);
    if (value == null || value.isNull()) {
      return null;
    }
    if (!value.isIntegralNumber() || !value.canConvertToLong()) {
      throw TxnException.corruptLog(
          String.format("`%s` in %s is not a whole number", field, TABLES));
    }
    return value.asLong();
  }

  private static boolean flag(JsonNode node, String field) {
    JsonNode value = node.get(field);
    if (value != null && !value.isBoolean()) {
      throw TxnException.corruptLog(
          String.format("`%s` in %s is neither true nor false", field, TABLES));
    }
    return value != null && value.asBoolean();
  }

  private static long count(JsonNode node, String field) {
    Long count = id(node, field);
    if (count == null || count < 0) {
      throw TxnException.corruptLog(
          String.format("an element of %s has no count `%s`", TABLES, field));
    }
    return count;
  }

  private static String required(Map<String, String> summary, String key) {
    String value = summary.get(key);
    if (value == null) {
      throw TxnException.corruptLog(String.format("an entry has no %s", key));
    }
    return value;
  }

  private static long number(Map<String, String> summary, String key) {
    return number(required(summary, key), key);
  }

  /**
   * A number of a summary or a property: the decimal digits of an int64 not below 0.
   *
   * @throws TxnException CorruptLog naming the key
   */
  public static long number(String value, String key) {
    try {
      if (NUMBER.matcher(value).matches()) {
        return Long.parseLong(value);
      }
    } catch (NumberFormatException e) {
      // above int64: told below
    }
    throw TxnException.corruptLog(
        String.format("not decimal digits of an int64; %s=`%s`", key, value));
  }
}
