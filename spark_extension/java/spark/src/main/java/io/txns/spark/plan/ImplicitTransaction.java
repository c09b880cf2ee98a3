package io.txns.spark.plan;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTable;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.TransactionCatalog;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Consumer;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.runtime.BoxedUnit;

/**
 * The implicit transaction of a write that is met only when it is planned: of a DataFrame, {@code
 * CREATE TABLE ... AS SELECT}, a multi-insert. Its tables have been loaded without it.
 */
final class ImplicitTransaction {

  private ImplicitTransaction() {}

  /** Whether a write has rows of a query, and so something to validate. */
  static boolean hasQuery(LogicalPlan write) {
    return write instanceof V2WriteCommand || write instanceof V2CreateTableAsSelectPlan;
  }

  /** Begins it where the oldest table of the write was loaded, with what the write reads. */
  static Transaction begin(LogicalPlan write, TransactionCatalog catalog) {
    if (!(write instanceof V2WriteCommand command)) {
      // Spark plans the query of AS SELECT once more inside: its tables are loaded and noted there.
      return catalog.handle().beginStatement();
    }
    List<DataSourceV2Relation> read = new ArrayList<>();
    List<DataSourceV2Relation> cached = new ArrayList<>();
    forEach(write, read::add, cached::add);
    List<DataSourceV2Relation> loaded = new ArrayList<>(read);
    if (command.table() instanceof DataSourceV2Relation target) {
      loaded.add(target);
    }
    OptionalLong oldest =
        loaded.stream()
            .filter(relation -> isOf(relation, catalog))
            .map(ImplicitTransaction::readTs)
            .flatMapToLong(OptionalLong::stream)
            .min();
    Transaction begun =
        oldest.isPresent()
            ? catalog.handle().beginStatement(oldest.getAsLong())
            : catalog.handle().beginStatement();
    read.addAll(cached);
    read.stream()
        .filter(relation -> isOf(relation, catalog))
        .forEach(relation -> SparkReads.planned(begun, relation));
    return begun;
  }

  /**
   * @param cached gets what was read when a cache was filled, some time ago: the cache serves while
   *     it is the state of the table
   */
  private static void forEach(
      LogicalPlan query,
      Consumer<DataSourceV2Relation> read,
      Consumer<DataSourceV2Relation> cached) {
    query.foreachWithSubqueries(
        node -> {
          if (node instanceof DataSourceV2ScanRelation scan) {
            read.accept(scan.relation());
          } else if (node instanceof DataSourceV2Relation relation) {
            read.accept(relation);
          } else if (node instanceof InMemoryRelation memory) {
            forEach(memory.cacheBuilder().logicalPlan(), cached, cached);
          }
          return BoxedUnit.UNIT;
        });
  }

  private static boolean isOf(DataSourceV2Relation relation, TransactionCatalog catalog) {
    return relation.catalog().isDefined() && Catalogs.ours(relation.catalog().get()) == catalog;
  }

  private static OptionalLong readTs(DataSourceV2Relation relation) {
    Table table =
        relation.table() instanceof RowLevelOperationTable rewritten
            ? (Table) rewritten.table()
            : relation.table();
    return table instanceof SparkTable spark && spark.table() instanceof TxnTable ours
        ? OptionalLong.of(ours.readTs())
        : OptionalLong.empty();
  }
}
