package io.txns.spark;

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

  TxnDdlCommand(LogicalPlan plan) {
    super(new StructType());
    this.plan = plan;
  }

  @Override
  List<Row> rows(SparkSession session) throws Exception {
    return TxnSession.of(session)
        .write(
            session,
            null,
            () -> List.<Row>of(),
            () -> {
              Dataset.ofRows(session, plan);
              return List.of();
            });
  }

  @Override
  Object argument() {
    return plan;
  }
}
