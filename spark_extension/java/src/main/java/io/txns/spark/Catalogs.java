package io.txns.spark;

import java.util.List;
import java.util.TreeSet;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
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

  /** The catalog that a table's name of one or more parts is in, if it is ours, else null. */
  static TxnSparkCatalog ofName(SparkSession session, List<String> nameParts) {
    CatalogManager manager = session.sessionState().catalogManager();
    CatalogPlugin catalog =
        namesCatalog(manager, nameParts)
            ? manager.catalog(nameParts.get(0))
            : manager.currentCatalog();
    return catalog instanceof TxnSparkCatalog ours ? ours : null;
  }

  /** The table that a name means where {@code defaults} is the current catalog. */
  static Identifier identifier(
      SparkSession session, List<String> nameParts, TxnSparkCatalog defaults) {
    CatalogManager manager = session.sessionState().catalogManager();
    List<String> parts =
        namesCatalog(manager, nameParts) ? nameParts.subList(1, nameParts.size()) : nameParts;
    if (parts.size() > 1) {
      String[] namespace = parts.subList(0, parts.size() - 1).toArray(new String[0]);
      return Identifier.of(namespace, parts.get(parts.size() - 1));
    }
    String[] namespace =
        manager.currentCatalog() == defaults
            ? manager.currentNamespace()
            : defaults.defaultNamespace();
    return Identifier.of(namespace, parts.get(0));
  }

  /** Whether the first part of a name is a catalog's. */
  static boolean namesCatalog(CatalogManager manager, List<String> nameParts) {
    return nameParts.size() > 1 && manager.isCatalogRegistered(nameParts.get(0));
  }
}
