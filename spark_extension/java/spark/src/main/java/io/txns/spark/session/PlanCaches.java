package io.txns.spark.session;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.CacheManager;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's cached plans ({@code CACHE TABLE}, {@code df.cache()}) over our catalogs. They hold rows
 * of one moment, so they must not live across the borders of a transaction.
 */
public final class PlanCaches {

  private PlanCaches() {}

  /** Drops all plans over what the session has loaded through {@code catalogs}. */
  public static void drop(SparkSession session, Collection<TransactionCatalog> catalogs) {
    CacheManager cache = session.sharedState().cacheManager();
    for (TransactionCatalog catalog : catalogs) {
      for (Identifier table : catalog.takeLoaded()) {
        if (!cache.isEmpty()) {
          cache.uncacheTableOrView(session, nameParts(catalog, table), true, false);
        }
      }
    }
  }

  /** Makes all plans over what the session has loaded through {@code catalog} read again. */
  public static void refresh(SparkSession session, TransactionCatalog catalog) {
    CacheManager cache = session.sharedState().cacheManager();
    for (Identifier table : catalog.loaded()) {
      if (!cache.isEmpty()) {
        cache.recacheTableOrView(session, nameParts(catalog, table), true);
      }
    }
  }

  private static Seq<String> nameParts(TransactionCatalog catalog, Identifier table) {
    List<String> parts = new ArrayList<>();
    parts.add(catalog.name());
    parts.addAll(Arrays.asList(table.namespace()));
    parts.add(table.name());
    return CollectionConverters.asScala(parts).toSeq();
  }
}
