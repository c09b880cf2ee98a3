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
  private static final List<String> OPTIONS =
      List.of("txns.isolation", "txns.autocommit-isolation", "txns.apply", "txns.register");

  private static final String ABORT_ON_ERROR = PREFIX + "txns.abort-on-error";

  private SessionOptions() {}

  /** Whether a failed statement aborts the explicit transaction; whoever misspells it is safe. */
  static boolean abortsOnError(SQLConf conf) {
    return !"false".equalsIgnoreCase(conf.getConfString(ABORT_ON_ERROR, "true").trim());
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
