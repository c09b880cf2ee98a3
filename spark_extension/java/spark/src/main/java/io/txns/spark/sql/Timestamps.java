package io.txns.spark.sql;

import io.txns.iceberg.TxnException;
import java.time.DateTimeException;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.unsafe.types.UTF8String;

/** Timestamps as statements write them. */
final class Timestamps {

  private static final long MICROS_PER_MS = 1000;

  private Timestamps() {}

  /**
   * Milliseconds since the epoch: the digits themselves, or a timestamp text as Spark reads it, in
   * the session's time zone when it names none.
   *
   * @throws TxnException 42601 for a text that is neither
   */
  static long toMillis(String text) {
    try {
      if (text.matches("[0-9]+")) {
        return Long.parseLong(text);
      }
      long micros =
          DateTimeUtils.stringToTimestampAnsi(
              UTF8String.fromString(text),
              DateTimeUtils.getZoneId(SQLConf.get().sessionLocalTimeZone()),
              null);
      return Math.floorDiv(micros, MICROS_PER_MS);
    } catch (DateTimeException | NumberFormatException e) {
      throw TxnException.invalidUsage(
          "42601",
          "cannot read '" + text + "' as a timestamp; give milliseconds or 'yyyy-mm-dd hh:mm:ss'");
    }
  }
}
