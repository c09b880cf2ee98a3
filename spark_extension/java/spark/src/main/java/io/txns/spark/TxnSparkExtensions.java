package io.txns.spark;

import io.txns.spark.command.TxnParser;
import io.txns.spark.compat.Versions;
import io.txns.spark.plan.AlignTables;
import io.txns.spark.plan.CallRule;
import io.txns.spark.plan.PinTime;
import io.txns.spark.plan.StatementRule;
import io.txns.spark.plan.WriteGuardRule;
import io.txns.spark.session.SessionEnds;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.classic.SparkSession;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Spark's extension point ({@code spark.sql.extensions}): the transaction statements and the rules
 * that keep what a statement reads and writes in one transaction. List it after Iceberg's own.
 */
public final class TxnSparkExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    TxnSqlException.translating(
        () -> {
          Versions.check();
          return null;
        });
    extensions.injectParser(
        (session, delegate) -> {
          SessionEnds.of(session.sparkContext());
          return new TxnParser((SparkSession) session, delegate);
        });
    Versions.injectFunction(extensions);
    extensions.injectHintResolutionRule(session -> new StatementRule((SparkSession) session));
    extensions.injectHintResolutionRule(session -> new CallRule((SparkSession) session));
    extensions.injectPlanNormalizationRule(session -> new AlignTables((SparkSession) session));
    extensions.injectPlanNormalizationRule(session -> new PinTime((SparkSession) session));
    extensions.injectColumnar(session -> new WriteGuardRule((SparkSession) session));
    return BoxedUnit.UNIT;
  }
}
