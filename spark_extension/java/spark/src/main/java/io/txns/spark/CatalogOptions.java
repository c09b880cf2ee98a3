package io.txns.spark;

import io.txns.iceberg.TxnConfig;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.spark.sql.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/** The options that Spark configures a catalog with: ours, and those of the catalog underneath. */
final class CatalogOptions {

  private static final String PREFIX = "txns.";

  private final Map<String, String> all;
  private final TxnConfig configured;

  /** The options by their names without the catalog's, in the letters that they were set with. */
  CatalogOptions(Map<String, String> all) {
    this.all = all;
    configured = TxnConfig.from(all);
  }

  TableIdentifier commitTable() {
    return configured.commitTable();
  }

  /** What the catalog was configured with, and above it what the session has set. */
  TxnConfig config(Map<String, String> ofSession) {
    if (ofSession.isEmpty()) {
      return configured;
    }
    Map<String, String> both = new HashMap<>(all);
    both.putAll(ofSession);
    return TxnConfig.from(both);
  }

  /** The options that are not ours. */
  Map<String, String> ofDelegate() {
    Map<String, String> others = new HashMap<>(all);
    others.keySet().removeIf(key -> key.toLowerCase(Locale.ROOT).startsWith(PREFIX));
    return others;
  }

  /** All that says which catalog it is: sessions may have Hadoop settings of their own. */
  static Map<String, String> identifying(Map<String, String> options) {
    Map<String, String> identifying = new HashMap<>(options);
    CollectionConverters.asJava(SparkSession.active().conf().getAll())
        .forEach(
            (key, value) -> {
              if (!key.startsWith("spark.")) {
                identifying.put("hadoop:" + key, value);
              }
            });
    return identifying;
  }
}
