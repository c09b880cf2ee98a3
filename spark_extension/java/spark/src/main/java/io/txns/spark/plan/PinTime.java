package io.txns.spark.plan;

import io.txns.spark.session.TxnSession;
import java.time.Instant;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.classic.SparkSession;
import scala.runtime.AbstractPartialFunction;

/**
 * CURRENT_TIMESTAMP, CURRENT_DATE and their like are the moment of BEGIN for every statement of a
 * transaction, as in PostgreSQL. Spark's own rule ({@code ComputeCurrentTime}, in the optimizer)
 * makes them one moment per statement; this one comes first.
 */
public final class PinTime extends Rule<LogicalPlan> {
  private static final long serialVersionUID = 1L;

  private final transient SparkSession session;

  public PinTime(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan.isStreaming() || !plan.containsPattern(TreePattern.CURRENT_LIKE())) {
      return plan;
    }
    return TxnSession.of(session)
        .open()
        .map(open -> plan.transformWithSubqueries(new OfPlans(new OfExpressions(open.begunAt()))))
        .orElse(plan);
  }

  private static final class OfPlans extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final OfExpressions pinned;

    OfPlans(OfExpressions pinned) {
      this.pinned = pinned;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return node.containsPattern(TreePattern.CURRENT_LIKE());
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      return (LogicalPlan) node.transformExpressions(pinned);
    }
  }

  private static final class OfExpressions extends AbstractPartialFunction<Expression, Expression> {
    private final Instant now;

    OfExpressions(Instant now) {
      this.now = now;
    }

    @Override
    public boolean isDefinedAt(Expression node) {
      return literal(node) != null;
    }

    @Override
    public Expression apply(Expression node) {
      return literal(node);
    }

    /** The moment in a node's type, in Spark's own representation of it; null for another node. */
    private Literal literal(Expression node) {
      if (node instanceof CurrentTimestampLike) {
        return new Literal(DateTimeUtils.instantToMicros(now), node.dataType());
      } else if (node instanceof CurrentDate date) {
        long days = now.atZone(date.zoneId()).toLocalDate().toEpochDay();
        return new Literal((int) days, date.dataType());
      } else if (node instanceof LocalTimestamp local) {
        long micros =
            DateTimeUtils.localDateTimeToMicros(now.atZone(local.zoneId()).toLocalDateTime());
        return new Literal(micros, local.dataType());
      }
      return null;
    }
  }
}
