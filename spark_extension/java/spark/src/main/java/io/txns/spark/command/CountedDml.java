package io.txns.spark.command;

import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.compat.UpdatedRows;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.sql.ParsedDml;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.QueryExecution;

/**
 * Runs a DML statement and counts its rows; the caller has opened the statement's transaction. What
 * is committed never depends on a count.
 */
final class CountedDml {

  private final SparkSession session;
  private final TransactionCatalog catalog;
  private final ParsedDml dml;

  CountedDml(SparkSession session, TransactionCatalog catalog, ParsedDml dml) {
    this.session = session;
    this.catalog = catalog;
    this.dml = dml;
  }

  RowCounts run(LogicalPlan plan) {
    Transaction transaction = TxnSession.of(session).current(catalog);
    return switch (dml.kind()) {
      case UPDATE ->
          transaction
              .writes()
              .withoutEmptySnapshots(() -> run(UpdatedRows.counted(analyzed(plan)), transaction));
      case INSERT, DELETE, MERGE -> run(plan, transaction);
    };
  }

  private RowCounts run(LogicalPlan plan, Transaction transaction) {
    return RowCounts.of(
        dml.kind(), transaction.writes().snapshotsOf(() -> Dataset.ofRows(session, plan)));
  }

  private LogicalPlan analyzed(LogicalPlan plan) {
    QueryExecution analysis = session.sessionState().executePlan(plan, CommandExecutionMode.SKIP());
    analysis.assertAnalyzed();
    return analysis.analyzed();
  }
}
