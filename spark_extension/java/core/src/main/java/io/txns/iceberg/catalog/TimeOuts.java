package io.txns.iceberg.catalog;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalog;

/**
 * Time-outs for the clients that have none of their own; what a user has set stands.
 *
 * <p>A call that waits for ever would keep a commit, and all that share its swap, from an end. One
 * that is given up in a swap is an unknown outcome like any other (docs/spec.md, 11.1). The clients
 * of S3, ADLS, GCS, Glue and the Hive metastore have time-outs of their own.
 */
public final class TimeOuts {
  private static final int CONNECT_S = 10;
  private static final int ANSWER_S = 60;

  private TimeOuts() {}

  /** The options of a catalog with those that say how long its client waits. */
  public static Map<String, String> in(Map<String, String> options) {
    Map<String, String> all = new HashMap<>(options);
    defaults(options)
        .forEach(
            (key, value) -> {
              if (options.keySet().stream().noneMatch(key::equalsIgnoreCase)) {
                all.put(key, value);
              }
            });
    return all;
  }

  private static Map<String, String> defaults(Map<String, String> options) {
    String uri = options.getOrDefault(CatalogProperties.URI, "").toLowerCase(Locale.ROOT);
    Map<String, String> defaults = new LinkedHashMap<>();
    if (is(options, "rest", RESTCatalog.class)) {
      defaults.put("rest.client.connection-timeout-ms", String.valueOf(1000 * CONNECT_S));
      defaults.put("rest.client.socket-timeout-ms", String.valueOf(1000 * ANSWER_S));
    } else if (is(options, "jdbc", JdbcCatalog.class)) {
      if (uri.startsWith("jdbc:postgresql:")) { // in s; what its URI says stands above these
        defaults.put("jdbc.connectTimeout", String.valueOf(CONNECT_S));
        defaults.put("jdbc.socketTimeout", String.valueOf(ANSWER_S));
        defaults.put("jdbc.tcpKeepAlive", "true");
      } else if (uri.startsWith("jdbc:mysql:") || uri.startsWith("jdbc:mariadb:")) { // in ms
        defaults.put("jdbc.connectTimeout", String.valueOf(1000 * CONNECT_S));
        defaults.put("jdbc.socketTimeout", String.valueOf(1000 * ANSWER_S));
        defaults.keySet().removeIf(key -> uri.contains(key.substring(5).toLowerCase(Locale.ROOT)));
      }
    }
    return defaults;
  }

  private static boolean is(Map<String, String> options, String type, Class<?> implementation) {
    return type.equalsIgnoreCase(options.get("type"))
        || implementation.getName().equals(options.get(CatalogProperties.CATALOG_IMPL));
  }
}
