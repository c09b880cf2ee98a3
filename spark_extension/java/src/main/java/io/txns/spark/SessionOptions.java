package io.txns.spark;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The catalog options that a session may set for itself, for all its catalogs: {@code SET
 * `spark.sql.txns.isolation` = snapshot} stands above {@code
 * spark.sql.catalog.lake.txns.isolation}.
 */
final class SessionOptions {

  private static final String PREFIX = "spark.sql.";
  private static final List<String> OPTIONS =
      List.of("txns.isolation", "txns.autocommit-isolation", "txns.apply", "txns.register");

  private SessionOptions() {}

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
