package io.txns.spark.session;

import io.txns.spark.compat.PlanCache;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
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
    for (TransactionCatalog catalog : catalogs) {
      for (Identifier table : catalog.takeLoaded()) {
        if (!PlanCache.isEmpty(session)) {
          PlanCache.drop(session, nameParts(catalog, table));
        }
      }
    }
  }

  /** Makes all plans over what the session has loaded through {@code catalog} read again. */
  public static void refresh(SparkSession session, TransactionCatalog catalog) {
    for (Identifier table : catalog.loaded()) {
      if (!PlanCache.isEmpty(session)) {
        PlanCache.refresh(session, nameParts(catalog, table));
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
