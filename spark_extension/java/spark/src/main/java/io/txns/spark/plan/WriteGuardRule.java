package io.txns.spark.plan;

import io.txns.spark.session.TxnSession;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.command.DataWritingCommandExec;
import org.apache.spark.sql.execution.command.ExecutedCommandExec;
import org.apache.spark.sql.execution.datasources.v2.V2CommandExec;
import scala.jdk.javaapi.CollectionConverters;

/** Puts a {@link WriteGuardExec} around planned writes. */
public final class WriteGuardRule extends ColumnarRule {
  private static final long serialVersionUID = 1L;

  private final transient SparkSession session;

  public WriteGuardRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public Rule<SparkPlan> preColumnarTransitions() {
    return new Rule<>() {
      @Override
      public SparkPlan apply(SparkPlan plan) {
        return guard(plan);
      }
    };
  }

  private SparkPlan guard(SparkPlan plan) {
    if (plan instanceof UnionExec) { // FROM ... INSERT INTO ... INSERT INTO ...
      List<SparkPlan> guarded = new ArrayList<>();
      plan.children().foreach(child -> guarded.add(guard(child)));
      return plan.withNewChildren(CollectionConverters.asScala(guarded).toIndexedSeq());
    }
    boolean command =
        plan instanceof V2CommandExec
            || plan instanceof DataWritingCommandExec
            || plan instanceof ExecutedCommandExec;
    if (!command) {
      return plan;
    }
    TxnSession state = TxnSession.of(session);
    boolean ours =
        WriteGuardExec.target(plan, session)
            .filter(target -> target.catalog() != null || state.open().isPresent())
            .isPresent();
    return ours ? new WriteGuardExec(plan) : plan;
  }
}
