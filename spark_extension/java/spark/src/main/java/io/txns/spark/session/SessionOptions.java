package io.txns.spark.session;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;

/**
 * What a session sets for itself. The options that catalogs have, too, hold for all its catalogs:
 * {@code SET `spark.sql.txns.isolation` = snapshot} stands above {@code
 * spark.sql.catalog.lake.txns.isolation}.
 */
final class SessionOptions {

  private static final String PREFIX = "spark.sql.";

  /** A catalog's option of the same name is without the prefix. */
  private static final List<String> OF_CATALOGS =
      List.of(
          "spark.sql.txns.isolation",
          "spark.sql.txns.autocommit-isolation",
          "spark.sql.txns.conflicts",
          "spark.sql.txns.apply",
          "spark.sql.txns.register");

  private static final String ABORT_ON_ERROR = "spark.sql.txns.abort-on-error";
  private static final String EARLY_DOOM = "spark.sql.txns.early-doom";

  private SessionOptions() {}

  /** Whether a failed statement aborts the explicit transaction; whoever misspells it is safe. */
  static boolean abortsOnError(SQLConf conf) {
    return !"false".equalsIgnoreCase(conf.getConfString(ABORT_ON_ERROR, "true").trim());
  }

  /** Whether a statement of a transaction that has lost says so, and not its COMMIT alone. */
  static boolean tellsEarly(SQLConf conf) {
    return !"false".equalsIgnoreCase(conf.getConfString(EARLY_DOOM, "true").trim());
  }

  /** What the session has set, under the names of the catalog's options. */
  static Map<String, String> of(SQLConf conf) {
    Map<String, String> said = new HashMap<>();
    for (String option : OF_CATALOGS) {
      String value = conf.getConfString(option, null);
      if (value != null) {
        said.put(option.substring(PREFIX.length()), value);
      }
    }
    return said;
  }
}
