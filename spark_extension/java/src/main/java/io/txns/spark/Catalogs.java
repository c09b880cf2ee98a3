package io.txns.spark;

import java.util.List;
import java.util.TreeSet;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the catalogs of ours that a session has configured. */
final class Catalogs {

  private static final String PREFIX = "spark.sql.catalog.";

  private Catalogs() {}

  /** Where BEGIN begins: the current catalog, else the only one of ours, else null. */
  static TxnSparkCatalog forBegin(SparkSession session) {
    CatalogManager manager = session.sessionState().catalogManager();
    if (manager.currentCatalog() instanceof TxnSparkCatalog current) {
      return current;
    }
    List<String> names = configured(session);
    if (names.size() == 1 && manager.catalog(names.get(0)) instanceof TxnSparkCatalog only) {
      return only;
    }
    return null;
  }

  private static List<String> configured(SparkSession session) {
    TreeSet<String> names = new TreeSet<>();
    CollectionConverters.asJava(session.sessionState().conf().getAllConfs())
        .forEach(
            (key, value) -> {
              String name = key.startsWith(PREFIX) ? key.substring(PREFIX.length()) : "";
              if (!name.isEmpty() && name.indexOf('.') < 0 && isOurs(value)) {
                names.add(name);
              }
            });
    return List.copyOf(names);
  }

  private static boolean isOurs(String className) {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      return TxnSparkCatalog.class.isAssignableFrom(Class.forName(className, false, loader));
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }

  /** The catalog that a name of several parts is in, if it is ours, else null. */
  static TxnSparkCatalog ofName(SparkSession session, List<String> nameParts) {
    CatalogPlugin catalog = Spark3Util.catalogAndIdentifier(session, nameParts).catalog();
    return catalog instanceof TxnSparkCatalog ours ? ours : null;
  }
}
