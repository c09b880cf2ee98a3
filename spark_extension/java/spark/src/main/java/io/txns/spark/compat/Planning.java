package io.txns.spark.compat;

import java.util.Optional;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.plans.logical.AnalysisHelper$;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;

/**
 * The query that a thread plans, as far as Spark tells. It loads the tables of a query when it
 * analyses it, and since 4.1 once more before it optimizes it, which may be much later.
 *
 * @param query one object a query
 * @param isAnalysed whether the analysis is over, and tables are loaded for the run
 */
public record Planning(Object query, boolean isAnalysed) {

  /** What this thread analyses, or is about to run; empty where nobody can tell. */
  public static Optional<Planning> now() {
    scala.Option<SparkSession> session =
        SparkSession.getActiveSession().orElse(SparkSession::getDefaultSession);
    if (session.isEmpty()) {
      return Optional.empty();
    }
    String execution =
        session.get().sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    if (execution == null) {
      scala.Option<QueryPlanningTracker> tracker = QueryPlanningTracker.get();
      return tracker.isEmpty() || has(tracker.get(), QueryPlanningTracker.ANALYSIS())
          ? Optional.empty()
          : Optional.of(new Planning(tracker.get(), false));
    }
    QueryExecution running = SQLExecution.getQueryExecution(Long.parseLong(execution));
    return running == null
            || !has(running.tracker(), QueryPlanningTracker.ANALYSIS())
            || has(running.tracker(), QueryPlanningTracker.OPTIMIZATION())
        ? Optional.empty()
        : Optional.of(new Planning(running.tracker(), true));
  }

  /** Whether what this thread analyzes belongs to a query, which is to run. */
  public static boolean isOfQuery() {
    return QueryPlanningTracker.get().isDefined();
  }

  /**
   * Runs a statement while Spark analyzes it. Queries inside are planned by themselves: what is
   * loaded is not loaded for the analysis around it, nor are they held for a part of that.
   */
  public static <T> T apart(Supplier<T> body) {
    return AnalysisHelper$.MODULE$.allowInvokingTransformsInAnalyzer(
        () -> QueryPlanningTracker.withTracker(null, body::get));
  }

  private static boolean has(QueryPlanningTracker tracker, String phase) {
    return tracker.phases().contains(phase);
  }
}
