package io.txns.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.function.Predicate;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.SparkTableUtil;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.runtime.AbstractPartialFunction;

/**
 * Which DELETE has to count its rows by a scan before it runs.
 *
 * <p>The summary of a snapshot counts the rows of the files that it takes away, with those that a
 * delete file has taken from them before. Deletion vectors leave together with their file and are
 * in the summary, too.
 */
final class DeletedRows {

  private DeletedRows() {}

  /** Whether files that an analyzed DELETE takes away may have lost rows before. */
  static boolean mayHaveLeft(SparkSession session, LogicalPlan analyzed) {
    LogicalPlan target = find(analyzed, DeletedRows::isTarget);
    return target != null && hasDeleteFiles(session, relation(target));
  }

  /** Whether an optimized DELETE only marks rows as deleted, and takes no file away. */
  static boolean areMarked(LogicalPlan optimized) {
    return find(optimized, WriteDelta.class::isInstance) != null;
  }

  /** The query of the rows that a parsed DELETE takes away. */
  static LogicalPlan query(LogicalPlan parsed) {
    return (LogicalPlan)
        parsed.transformDown(
            new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
              @Override
              public boolean isDefinedAt(LogicalPlan node) {
                return node instanceof DeleteFromTable;
              }

              @Override
              public LogicalPlan apply(LogicalPlan node) {
                DeleteFromTable delete = (DeleteFromTable) node;
                return new Filter(delete.condition(), delete.table());
              }
            });
  }

  private static boolean isTarget(LogicalPlan node) {
    return node instanceof RowLevelWrite || node instanceof DeleteFromTable;
  }

  private static LogicalPlan relation(LogicalPlan target) {
    LogicalPlan table =
        target instanceof RowLevelWrite write
            ? (LogicalPlan) write.originalTable()
            : ((DeleteFromTable) target).table();
    return find(table, DataSourceV2Relation.class::isInstance);
  }

  private static LogicalPlan find(LogicalPlan plan, Predicate<LogicalPlan> which) {
    return plan.find(which::test).getOrElse(() -> null);
  }

  /** Whether the branch that is written has delete files that are no deletion vectors. */
  private static boolean hasDeleteFiles(SparkSession session, LogicalPlan target) {
    if (!(target instanceof DataSourceV2Relation relation
        && relation.table() instanceof SparkTable spark)) {
      return false;
    }
    Table table = spark.table();
    String branch =
        SparkTableUtil.determineReadBranch(session, spark, CaseInsensitiveStringMap.empty());
    Snapshot snapshot = branch == null ? table.currentSnapshot() : table.snapshot(branch);
    return snapshot != null
        && snapshot.deleteManifests(table.io()).stream()
            .anyMatch(manifest -> hasDeleteFiles(table, manifest));
  }

  private static boolean hasDeleteFiles(Table table, ManifestFile manifest) {
    try (ManifestReader<DeleteFile> files =
        ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
      for (DeleteFile file : files) {
        if (file.format() != FileFormat.PUFFIN) {
          return true;
        }
      }
      return false;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
