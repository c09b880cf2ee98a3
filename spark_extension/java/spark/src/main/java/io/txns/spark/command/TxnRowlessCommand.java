package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * A statement inside an explicit transaction that returns no rows: a failure, also one of its
 * analysis, aborts the transaction.
 */
final class TxnDdlCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private final LogicalPlan plan;
  private final transient TransactionCatalog catalog;

  /**
   * @param catalog the catalog of the table that the plan changes; null when it is not ours or not
   *     known
   */
  TxnDdlCommand(LogicalPlan plan, TransactionCatalog catalog) {
    super(new StructType());
    this.plan = plan;
    this.catalog = catalog;
  }

  @Override
  protected List<Row> rows(SparkSession session) throws Exception {
    return TxnSession.of(session)
        .write(
            session,
            catalog,
            () -> List.<Row>of(),
            () -> {
              Dataset.ofRows(session, plan);
              return List.of();
            });
  }

  @Override
  protected Object argument() {
    return plan;
  }
}
