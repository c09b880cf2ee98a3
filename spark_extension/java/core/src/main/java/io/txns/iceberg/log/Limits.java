package io.txns.iceberg.log;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnId;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * What a record may hold at most, refused before it is written, and when it is read (docs/spec.md
 * 4.7); pure.
 *
 * <p>So one record costs everybody a bounded amount of work.
 */
public final class Limits {
  /** The last ms of the year 9999. */
  static final long COMMIT_TS_LE = 253_402_300_799_999L;

  private static final long COMMIT_TS_EARLY_LE = COMMIT_TS_LE - 365L * 24 * 3600 * 1000;

  static final int COMMENT_MAX_BYTES = 4 * 1024;
  static final int TABLES_MAX = 1_000;
  static final int NESTING_MAX = 64;
  static final int PAYLOAD_MAX_BYTES = 64 * 1024 * 1024;
  public static final long HEAD_MAX_BYTES = 8 * 1024 * 1024;

  /** Of records of one table, so that one which cannot be applied stops its own writers alone. */
  public static final long HEAD_TABLE_MAX_BYTES = HEAD_MAX_BYTES / 2;

  /** Who appends to a larger head applies and tidies first (docs/spec.md, 10). */
  public static final long HEAD_BYTES = 2 * 1024 * 1024;

  /** The same, of a head of more entries. */
  public static final int HEAD_ENTRIES = 256;

  /** What a record counts for beside the words of its summary. */
  private static final long RECORD_BYTES = 1024;

  static final int INLINE_MAX_BYTES = 64 * 1024;

  /** Of JSON; what is counted are its commas and opening brackets, those in texts, too. */
  static final int VALUES_MAX = 2_000_000;

  static final int TEXT_MAX_CHARACTERS = 10_000_000;
  static final int NUMBER_MAX_CHARACTERS = 100;

  private static final JsonFactory FACTORY =
      JsonFactory.builder()
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(NESTING_MAX)
                  .maxStringLength(PAYLOAD_MAX_BYTES)
                  .maxNameLength(PAYLOAD_MAX_BYTES)
                  .build())
          .build();

  private static final ObjectMapper JSON = new ObjectMapper(FACTORY);

  private Limits() {}

  /**
   * Refuse a comment that the log does not hold.
   *
   * @throws TxnException 54000 with its size; shorten it
   */
  public static void checkComment(String comment) {
    int bytes = comment.getBytes(StandardCharsets.UTF_8).length;
    if (bytes > COMMENT_MAX_BYTES) {
      throw TxnException.tooMuch(
          String.format(
              "a comment has at most %d bytes of UTF-8, shorten it; bytes=`%d`",
              COMMENT_MAX_BYTES, bytes));
    }
  }

  /**
   * Refuse a timestamp in ms that the archive cannot hold as a time.
   *
   * @throws TxnException 54000; set the clock right
   */
  public static void checkCommitTs(long commitTs) {
    if (commitTs > COMMIT_TS_LE) {
      throw TxnException.tooMuch(
          String.format(
              "the log ends with the year 9999: the clock of this host is wrong, or that of one that"
                  + " has committed was, whose entry `txns log` shows: stop what writes the lake, take"
                  + " it out with `txns recover --void`, and give the log another time with `txns"
                  + " recover`; commit_ts=`%d`",
              commitTs));
    }
  }

  /**
   * Refuse more tables than an entry may name.
   *
   * @throws TxnException 54000; divide the transaction
   */
  public static void checkTables(int count) {
    if (count > TABLES_MAX) {
      throw TxnException.tooMuch(
          String.format(
              "a transaction writes at most %d tables, divide it; tables=`%d`", TABLES_MAX, count));
    }
  }

  /**
   * Refuse a payload that is larger, or nested more deeply, than anybody reads.
   *
   * @throws TxnException 54000; divide the transaction, or flatten the schema
   */
  public static void checkPayload(String json) {
    int bytes = json.getBytes(StandardCharsets.UTF_8).length;
    if (bytes > PAYLOAD_MAX_BYTES) {
      throw TxnException.tooMuch(
          String.format(
              "the changes of a transaction have at most %d bytes as JSON, divide it; bytes=`%d`",
              PAYLOAD_MAX_BYTES, bytes));
    }
    // Nothing but a schema nests, or is long.
    if (bytes > INLINE_MAX_BYTES || json.contains("\"add-schema\"")) {
      try {
        scan(json);
      } catch (IOException e) {
        throw TxnException.tooMuch(
            "the schema of a table cannot be logged, flatten it, or divide the transaction: "
                + e.getMessage());
      }
    }
  }

  /** What a record counts for in its head, by its summary without the operation. */
  public static long recordBytes(Map<String, String> summary) {
    return summary.entrySet().stream()
        .mapToLong(pair -> bytes(pair.getKey()) + bytes(pair.getValue()))
        .reduce(RECORD_BYTES, Long::sum);
  }

  private static long bytes(String word) {
    return word.getBytes(StandardCharsets.UTF_8).length;
  }

  /**
   * JSON of a record: what every implementation takes for the same JSON.
   *
   * @throws IOException it is none, or above a limit
   */
  static JsonNode parsed(String json) throws IOException {
    scan(json);
    return JSON.readTree(json);
  }

  /** Read JSON to its end without keeping it. */
  private static void scan(String json) throws IOException {
    if (values(json) > VALUES_MAX) {
      throw new IOException("JSON of the log has at most " + VALUES_MAX + " values");
    }
    if (json.startsWith("\uFEFF")) { // Jackson steps over it
      throw new IOException("JSON of the log begins with no byte order mark");
    }
    try (JsonParser parser = FACTORY.createParser(json)) {
      int depth = 0;
      int roots = 0;
      for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
        roots += depth == 0 ? 1 : 0;
        depth += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
        check(parser, token);
      }
      if (roots - (depth == 0 ? 0 : 1) != 1) {
        throw new IOException("JSON of the log is one value");
      }
    }
  }

  private static long values(String json) {
    return json.chars().filter(at -> at == ',' || at == '[' || at == '{').count();
  }

  private static void check(JsonParser parser, JsonToken token) throws IOException {
    if (token.isNumeric() && parser.getTextLength() > NUMBER_MAX_CHARACTERS) {
      throw new JsonParseException(
          parser, "a number in JSON has at most " + NUMBER_MAX_CHARACTERS + " characters");
    }
    if (token == JsonToken.VALUE_STRING || token == JsonToken.FIELD_NAME) {
      checkText(parser.getText());
    }
  }

  private static void checkText(String text) throws IOException {
    int length = text.length();
    if (length > TEXT_MAX_CHARACTERS && text.codePointCount(0, length) > TEXT_MAX_CHARACTERS) {
      throw new IOException(
          "a text in JSON of the log has at most " + TEXT_MAX_CHARACTERS + " characters");
    }
    if (!TxnId.isUnicode(text)) {
      throw new IOException("halves of pairs are no characters, and stand in no UTF-8");
    }
  }

  /** Whether a {@code commit_ts} lies in the last year that there is: a recovery takes it back. */
  public static boolean isLate(long commitTs) {
    return commitTs > COMMIT_TS_EARLY_LE;
  }
}
