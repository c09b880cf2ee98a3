package io.txns.spark.plan;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.compat.Planning;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TxnSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Runs our statements while Spark analyzes them, as Spark runs a CALL. As a command each would be
 * optimized, planned and described to all listeners, which takes longer than a BEGIN does; what an
 * INSERT runs inside is a command of Spark's anyway.
 */
public final class StatementRule extends Rule<LogicalPlan> {
  private static final long serialVersionUID = 1L;

  private final transient SparkSession session;

  public StatementRule(SparkSession session) {
    this.session = session;
  }

  /** Who has a text analyzed alone, as gateways and linters do, does not mean it to run. */
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan instanceof LeafCommand command && Planning.isOfQuery() ? run(command) : plan;
  }

  private LogicalPlan run(LeafCommand command) {
    return new SessionWrites(TxnSession.of(session))
        .runStatement(() -> Planning.apart(() -> command.runInAnalysis(session)));
  }
}
