package io.txns.spark.session;

import io.txns.iceberg.TxnLogger;
import java.util.List;
import java.util.TreeSet;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the catalogs of ours that a session has configured. */
public final class Catalogs {

  private static final TxnLogger LOG = TxnLogger.of(Catalogs.class);
  private static final String PREFIX = "spark.sql.catalog.";

  private Catalogs() {}

  /** Where BEGIN begins: the current catalog, else the only one of ours, else null. */
  public static TransactionCatalog forBegin(SparkSession session) {
    CatalogManager manager = session.sessionState().catalogManager();
    List<String> names = configured(session);
    if (names.size() > 1) {
      names.forEach(name -> attach(manager, name, session));
    }
    TransactionCatalog current = ours(manager.currentCatalog());
    if (current == null && names.size() == 1) {
      current = ours(manager.catalog(names.get(0)));
    }
    return current == null ? null : current.attach(session);
  }

  /** The catalog of ours that a catalog of Spark's is or stands for, or null. */
  public static TransactionCatalog ours(CatalogPlugin catalog) {
    if (catalog instanceof TransactionCatalog.Around session) {
      return session.tables();
    }
    return catalog instanceof TransactionCatalog ours ? ours : null;
  }

  /** The same for one table: what is no Iceberg table in a session catalog is Spark's own. */
  public static TransactionCatalog ours(CatalogPlugin catalog, Identifier table) {
    TransactionCatalog ours = ours(catalog);
    return ours == catalog || ours != null && ours.tableExists(table) ? ours : null;
  }

  /** The first of several that is touched gets the transaction: each has to know its session. */
  private static void attach(CatalogManager manager, String name, SparkSession session) {
    try {
      TransactionCatalog ours = ours(manager.catalog(name));
      if (ours != null) {
        ours.attach(session);
      }
    } catch (RuntimeException e) {
      LOG.debug("catalog {} is not usable; who touches it is told why", name, e);
    }
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
      Class<?> configured = Class.forName(className, false, loader);
      return TransactionCatalog.class.isAssignableFrom(configured)
          || TransactionCatalog.Around.class.isAssignableFrom(configured);
    } catch (ClassNotFoundException | LinkageError e) {
      return false;
    }
  }

  /** The catalog that a table's name of one or more parts is in, if it is ours, else null. */
  public static TransactionCatalog ofName(SparkSession session, List<String> nameParts) {
    CatalogManager manager = session.sessionState().catalogManager();
    CatalogPlugin catalog =
        namesCatalog(manager, nameParts)
            ? manager.catalog(nameParts.get(0))
            : manager.currentCatalog();
    TransactionCatalog ours = ours(catalog);
    if (ours == null) {
      return null;
    }
    ours.attach(session);
    return ours(catalog, identifier(session, nameParts, ours));
  }

  /** The table that a name means where {@code defaults} is the current catalog. */
  public static Identifier identifier(
      SparkSession session, List<String> nameParts, TransactionCatalog defaults) {
    CatalogManager manager = session.sessionState().catalogManager();
    List<String> parts =
        namesCatalog(manager, nameParts) ? nameParts.subList(1, nameParts.size()) : nameParts;
    if (parts.size() > 1) {
      String[] namespace = parts.subList(0, parts.size() - 1).toArray(new String[0]);
      return Identifier.of(namespace, parts.get(parts.size() - 1));
    }
    String[] namespace =
        ours(manager.currentCatalog()) == defaults
            ? manager.currentNamespace()
            : defaults.defaultNamespace();
    return Identifier.of(namespace, parts.get(0));
  }

  /** Whether the first part of a name is a catalog's. */
  public static boolean namesCatalog(CatalogManager manager, List<String> nameParts) {
    return nameParts.size() > 1 && manager.isCatalogRegistered(nameParts.get(0));
  }
}
