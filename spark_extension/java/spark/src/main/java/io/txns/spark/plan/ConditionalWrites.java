package io.txns.spark.plan;

import io.txns.iceberg.catalog.TxnTable;
import java.util.Optional;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.runtime.BoxedUnit;

/**
 * Tells which plans write a table by what it holds. Iceberg's operations tell it too, but for two
 * cases: Spark makes a MERGE that can only insert an append, and Iceberg makes nothing of an
 * overwrite of partitions without rows.
 */
final class ConditionalWrites {

  private ConditionalWrites() {}

  /** The table that a plan writes by what it holds; empty for other plans. */
  static Optional<TxnTable> target(LogicalPlan plan) {
    if (!(plan instanceof V2WriteCommand write)
        || !(write.table() instanceof DataSourceV2Relation target)
        || write instanceof AppendData && !isMerge(write, target)) {
      return Optional.empty();
    }
    Table table =
        target.table() instanceof RowLevelOperationTable rewritten
            ? (Table) rewritten.table()
            : target.table();
    return table instanceof SparkTable spark && spark.table() instanceof TxnTable ours
        ? Optional.of(ours)
        : Optional.empty();
  }

  /**
   * Whether an append is a MERGE: it joins the very relation that it writes to, where {@code INSERT
   * ... SELECT} has relations of its own even of the same table.
   */
  private static boolean isMerge(V2WriteCommand append, DataSourceV2Relation target) {
    boolean[] found = {false};
    append
        .query()
        .foreachWithSubqueries(
            node -> {
              DataSourceV2Relation read =
                  node instanceof DataSourceV2ScanRelation scan
                      ? scan.relation()
                      : node instanceof DataSourceV2Relation relation ? relation : null;
              found[0] |= read != null && read.outputSet().intersect(target.outputSet()).nonEmpty();
              return BoxedUnit.UNIT;
            });
    return found[0];
  }
}
