package io.txns.spark;

import io.txns.iceberg.Transaction;
import io.txns.spark.WritePlans.Dml;
import io.txns.spark.WritePlans.ParsedDml;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.Snapshot;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.QueryExecution;
import scala.Option;

/** Runs a DML statement and counts its rows; the caller has opened the statement's transaction. */
final class CountedStatement {

  private final SparkSession session;
  private final TxnSparkCatalog catalog;
  private final ParsedDml dml;

  CountedStatement(SparkSession session, TxnSparkCatalog catalog, ParsedDml dml) {
    this.session = session;
    this.catalog = catalog;
    this.dml = dml;
  }

  RowCounts run(LogicalPlan plan) {
    Transaction transaction = TxnSession.of(session).current(catalog);
    return dml.kind() == Dml.UPDATE ? runUpdate(plan, transaction) : run(plan, transaction);
  }

  private RowCounts run(LogicalPlan plan, Transaction transaction) {
    Set<Long> before = ids(transaction);
    Dataset.ofRows(session, plan);
    return RowCounts.of(
        dml.kind(),
        transaction.snapshots().stream()
            .filter(snapshot -> !before.contains(snapshot.snapshotId()))
            .map(Snapshot::summary)
            .toList());
  }

  private static Set<Long> ids(Transaction transaction) {
    return transaction.snapshots().stream().map(Snapshot::snapshotId).collect(Collectors.toSet());
  }

  /**
   * No summary tells how many rows a copy-on-write UPDATE changed: it rewrites others, too. So the
   * tasks that rewrite them count; when they have counted none, nothing is committed.
   */
  private RowCounts runUpdate(LogicalPlan plan, Transaction transaction) {
    QueryExecution analysis = session.sessionState().executePlan(plan, CommandExecutionMode.SKIP());
    analysis.assertAnalyzed();
    RowCounter counter = new RowCounter();
    LogicalPlan counted = UpdatedRows.counted(analysis.analyzed(), counter);
    if (counted == null) {
      return transaction.unlessNothing(
          files -> files == 0, () -> run(analysis.analyzed(), transaction));
    }
    counter.register(session.sparkContext(), Option.apply("updated rows"), false);
    return transaction.unlessNothing(
        files -> counter.value() == 0,
        () -> {
          Dataset.ofRows(session, counted);
          return new RowCounts(counter.value(), 0, 0);
        });
  }
}
