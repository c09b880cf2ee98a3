package io.txns.spark;

import io.txns.iceberg.Transaction;
import io.txns.spark.WritePlans.ParsedDml;
import java.util.List;
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
    return switch (dml.kind()) {
      case UPDATE -> runUpdate(plan, transaction);
      case DELETE -> runDelete(plan, transaction);
      case INSERT, MERGE -> run(plan, transaction);
    };
  }

  private RowCounts run(LogicalPlan plan, Transaction transaction) {
    List<Snapshot> made = transaction.snapshotsOf(() -> Dataset.ofRows(session, plan));
    return RowCounts.of(dml.kind(), made.stream().map(Snapshot::summary).toList());
  }

  /**
   * No summary tells how many rows a copy-on-write UPDATE changed: it rewrites others, too. So the
   * tasks that rewrite them count; when they have counted none, nothing is committed.
   */
  private RowCounts runUpdate(LogicalPlan plan, Transaction transaction) {
    boolean countsRows = SessionOptions.countsRows(session.sessionState().conf());
    QueryExecution analysis = analysis(plan);
    RowCounter counter = new RowCounter();
    LogicalPlan counted = UpdatedRows.counted(analysis.analyzed(), counter);
    if (counted == null) {
      return transaction.unlessNothing(
          files -> files == 0, () -> run(analysis.analyzed(), transaction));
    }
    if (!countsRows) {
      return transaction.unlessNothing(
          files -> files == 0, () -> uncounted(analysis.analyzed(), transaction));
    }
    counter.register(session.sparkContext(), Option.apply("updated rows"), false);
    return transaction.unlessNothing(
        files -> counter.value() == 0,
        () -> {
          Dataset.ofRows(session, counted);
          return new RowCounts(counter.value(), 0, 0);
        });
  }

  /**
   * Rows that left their file before it leaves as a whole are not counted once more.
   *
   * <p>Whoever optimizes an analyzed DELETE must not run it: the operation in it keeps the files of
   * the first scan that is planned.
   */
  private RowCounts runDelete(LogicalPlan plan, Transaction transaction) {
    boolean countsRows = SessionOptions.countsRows(session.sessionState().conf());
    QueryExecution analysis = analysis(plan);
    if (!DeletedRows.mayHaveLeft(session, analysis.analyzed())) {
      return run(analysis.analyzed(), transaction);
    }
    if (DeletedRows.areMarked(analysis.optimizedPlan())) {
      return run(plan, transaction);
    }
    if (!countsRows) {
      return uncounted(plan, transaction);
    }
    long rows = Dataset.ofRows(session, DeletedRows.query(plan)).count();
    Dataset.ofRows(session, plan);
    return new RowCounts(0, rows, 0);
  }

  /** A statement that made no snapshot has changed no row; no summary tells more. */
  private RowCounts uncounted(LogicalPlan plan, Transaction transaction) {
    List<Snapshot> made = transaction.snapshotsOf(() -> Dataset.ofRows(session, plan));
    return made.isEmpty() ? RowCounts.NONE : RowCounts.UNKNOWN;
  }

  private QueryExecution analysis(LogicalPlan plan) {
    QueryExecution analysis = session.sessionState().executePlan(plan, CommandExecutionMode.SKIP());
    analysis.assertAnalyzed();
    return analysis;
  }
}
