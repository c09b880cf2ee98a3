package io.txns.spark.compat;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import scala.collection.immutable.Seq;

/**
 * Spark's cache of plans, which its application shares. Spark 4.0 cannot make the plans over a
 * table read it again by its name, and does not ask whether to wait where it drops them.
 */
public final class PlanCache {

  private PlanCache() {}

  public static boolean isEmpty(SparkSession session) {
    return of(session).isEmpty();
  }

  /** Drops all plans that read a table. */
  public static void drop(SparkSession session, Seq<String> table) {
    of(session).uncacheTableOrView(session, table, true, false);
  }

  /** Makes all plans that read a table read it again. */
  public static void refresh(SparkSession session, Seq<String> table) {
    of(session).recacheTableOrView(session, table, true);
  }

  private static CacheManager of(SparkSession session) {
    return session.sharedState().cacheManager();
  }
}
