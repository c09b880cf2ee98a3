package io.txns.spark;

import io.txns.iceberg.TxnException;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;

/**
 * What a session sets for itself. The options that catalogs have, too, hold for all its catalogs:
 * {@code SET `spark.sql.txns.isolation` = snapshot} stands above {@code
 * spark.sql.catalog.lake.txns.isolation}.
 */
final class SessionOptions {

  private static final String PREFIX = "spark.sql.";
  private static final List<String> OPTIONS =
      List.of("txns.isolation", "txns.autocommit-isolation", "txns.apply", "txns.register");

  private static final String ABORT_ON_ERROR = PREFIX + "txns.abort-on-error";
  private static final String COUNT_ROWS = PREFIX + "txns.count-rows";

  private SessionOptions() {}

  /** Whether a failed statement aborts the explicit transaction; whoever misspells it is safe. */
  static boolean abortsOnError(SQLConf conf) {
    return !"false".equalsIgnoreCase(conf.getConfString(ABORT_ON_ERROR, "true").trim());
  }

  /**
   * Whether a statement may do more work for the sake of its count.
   *
   * @throws TxnException 42000 when the option is neither true nor false
   */
  static boolean countsRows(SQLConf conf) {
    String value = conf.getConfString(COUNT_ROWS, "true").trim().toLowerCase(Locale.ROOT);
    return switch (value) {
      case "true" -> true;
      case "false" -> false;
      default ->
          throw TxnException.invalidUsage(
              "42000", String.format("%s must be true or false; value=`%s`", COUNT_ROWS, value));
    };
  }

  /** What the session has set, under the names of the catalog's options. */
  static Map<String, String> of(SQLConf conf) {
    Map<String, String> said = new HashMap<>();
    for (String option : OPTIONS) {
      String value = conf.getConfString(PREFIX + option, null);
      if (value != null) {
        said.put(option, value);
      }
    }
    return said;
  }
}
