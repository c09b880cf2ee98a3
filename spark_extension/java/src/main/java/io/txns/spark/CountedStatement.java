package io.txns.spark;

import io.txns.iceberg.Transaction;
import io.txns.spark.WritePlans.ParsedDml;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.RowLevelOperationMode;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableProperties;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.CommandExecutionMode;
import scala.jdk.javaapi.CollectionConverters;

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

  RowCounts run(LogicalPlan plan) throws Exception {
    if (dml.statement() instanceof UpdateTable update && isCopyOnWrite()) {
      return runUpdate(plan, update);
    }
    Transaction transaction = TxnSession.of(session).current(catalog);
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

  /** Counts the matching rows first; without any, there is nothing to rewrite and to commit. */
  private RowCounts runUpdate(LogicalPlan plan, UpdateTable update) {
    LogicalPlan matching =
        update.condition().isDefined()
            ? new Filter(update.condition().get(), update.table())
            : update.table();
    long count = Dataset.ofRows(session, withCtes(plan, matching)).count();
    if (count == 0) {
      session.sessionState().executePlan(plan, CommandExecutionMode.SKIP()).assertAnalyzed();
    } else {
      Dataset.ofRows(session, plan);
    }
    return new RowCounts(count, 0, 0);
  }

  private static LogicalPlan withCtes(LogicalPlan statement, LogicalPlan query) {
    return statement instanceof UnresolvedWith with
        ? with.withNewChildren(CollectionConverters.asScala(List.of(query)).toIndexedSeq())
        : query;
  }

  private boolean isCopyOnWrite() throws Exception {
    Identifier target = Catalogs.identifier(session, dml.target(), catalog);
    String mode =
        catalog
            .loadTable(target)
            .properties()
            .getOrDefault(TableProperties.UPDATE_MODE, TableProperties.UPDATE_MODE_DEFAULT);
    return RowLevelOperationMode.fromName(mode) == RowLevelOperationMode.COPY_ON_WRITE;
  }
}
