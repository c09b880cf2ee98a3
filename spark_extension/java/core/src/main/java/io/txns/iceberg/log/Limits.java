package io.txns.iceberg.log;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.TxnException;
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

  static final int COMMENT_MAX_BYTES = 4 * 1024;
  static final int TABLES_MAX = 1_000;
  static final int NESTING_MAX = 64;
  static final int PAYLOAD_MAX_BYTES = 64 * 1024 * 1024;
  public static final long HEAD_MAX_BYTES = 8 * 1024 * 1024;

  /** Who appends to a larger head applies and tidies first (docs/spec.md, 10). */
  public static final long HEAD_BYTES = 2 * 1024 * 1024;

  /** The same, of a head of more entries. */
  public static final int HEAD_ENTRIES = 256;

  /** What a record counts for beside the words of its summary. */
  private static final long RECORD_BYTES = 1024;

  private static final JsonFactory FACTORY =
      JsonFactory.builder()
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(NESTING_MAX)
                  .maxStringLength(PAYLOAD_MAX_BYTES)
                  .build())
          .build();

  /** Reads JSON of the log, as deeply as it may be nested. */
  static final ObjectMapper JSON = new ObjectMapper(FACTORY);

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
                  + " has committed was; commit_ts=`%d`",
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
    if (json.contains("\"add-schema\"")) { // nothing else in it nests
      try {
        scan(json);
      } catch (IOException e) {
        throw TxnException.tooMuch(
            "the schema of a table cannot be logged, flatten it: JSON of the log is nested at most "
                + NESTING_MAX
                + " times");
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

  /** Read JSON to its end without keeping it. */
  static void scan(String json) throws IOException {
    try (JsonParser parser = FACTORY.createParser(json)) {
      while (parser.nextToken() != null) {
        // the constraints are checked on the way
      }
    }
  }
}
