package io.txns.compliance;

import java.nio.file.Path;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.jdbc.JdbcCatalog;

/** A JdbcCatalog on SQLite and files below a folder. */
final class Lakes {
  private Lakes() {}

  static Map<String, String> options(Path folder) {
    return Map.of(
        CatalogProperties.URI,
        "jdbc:sqlite:" + folder.resolve("catalog.db") + "?busy_timeout=30000&journal_mode=WAL",
        CatalogProperties.WAREHOUSE_LOCATION,
        folder.resolve("files").toUri().toString(),
        JdbcCatalog.PROPERTY_PREFIX + "schema-version",
        "V1",
        // What the suite asks of every catalog that it opens.
        "table-default.default-key1",
        "catalog-default-key1",
        "table-default.default-key2",
        "catalog-default-key2",
        "table-default.override-key3",
        "catalog-default-key3",
        "table-override.override-key3",
        "catalog-override-key3",
        "table-override.override-key4",
        "catalog-override-key4");
  }

  static Configuration configuration() {
    return new Configuration();
  }
}
