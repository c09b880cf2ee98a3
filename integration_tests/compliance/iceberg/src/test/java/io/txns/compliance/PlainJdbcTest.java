package io.txns.compliance;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.catalog.CatalogTests;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** The peer: Iceberg's JdbcCatalog by itself, to know what the suite expects of it. */
class PlainJdbcTest extends CatalogTests<JdbcCatalog> {
  @TempDir Path folder;
  private JdbcCatalog catalog;

  @BeforeEach
  void open() {
    catalog = initCatalog("lake", Map.of());
  }

  @AfterEach
  void close() {
    catalog.close();
  }

  @Override
  protected JdbcCatalog catalog() {
    return catalog;
  }

  @Override
  protected JdbcCatalog initCatalog(String name, Map<String, String> more) {
    Map<String, String> options = new HashMap<>(Lakes.options(folder));
    options.putAll(more);
    JdbcCatalog opened = new JdbcCatalog();
    opened.setConf(Lakes.configuration());
    opened.initialize(name, options);
    return opened;
  }

  @Override
  protected boolean supportsNestedNamespaces() {
    return true;
  }

  @Override
  protected boolean supportsNamesWithDot() {
    return false; // JdbcCatalog joins namespaces with dots
  }

  @Override
  protected boolean supportsEmptyNamespace() {
    return true;
  }
}
