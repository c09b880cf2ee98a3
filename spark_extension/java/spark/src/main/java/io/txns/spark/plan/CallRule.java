package io.txns.spark.plan;

import io.txns.spark.TxnSqlException;
import io.txns.spark.procedure.Procedures;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.session.WriteTarget;
import org.apache.spark.sql.catalyst.analysis.ResolvedProcedure;
import org.apache.spark.sql.catalyst.plans.logical.Call;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Runs CALL under the rules of the session's transaction. Spark calls a procedure while it analyzes
 * the statement, before any guard of planned writes: this rule comes first.
 */
public final class CallRule extends Rule<LogicalPlan> {
  private static final long serialVersionUID = 1L;

  private final transient SparkSession session;

  public CallRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    TxnSession state = TxnSession.of(session);
    boolean calls = plan instanceof Call call && call.execute();
    return !calls || state.isInWrite() || state.open().isEmpty()
        ? plan
        : TxnSqlException.translating(() -> call((Call) plan, state));
  }

  private LogicalPlan call(Call call, TxnSession state) throws Exception {
    ResolvedProcedure procedure = resolve(call, state);
    if (Procedures.isRead(procedure)) {
      return call;
    }
    TransactionCatalog catalog = Catalogs.ours(procedure.catalog());
    if (catalog != null) {
      catalog.attach(session);
    }
    String name = procedure.catalog().name() + "." + procedure.ident();
    return new SessionWrites(state)
        .runTo(
            new WriteTarget(catalog, "CALL " + name),
            session,
            () -> nothing(call),
            () -> analyze(call));
  }

  /** What a CALL means, without calling it. */
  private ResolvedProcedure resolve(Call call, TxnSession state) {
    try {
      Call only = (Call) analyze(call.copy(call.procedure(), call.args(), false));
      return (ResolvedProcedure) only.procedure();
    } catch (Exception e) { // Spark's are checked ones, undeclared
      state.refused();
      throw e;
    }
  }

  private LogicalPlan analyze(Call call) {
    QueryExecution analysis = session.sessionState().executePlan(call, CommandExecutionMode.SKIP());
    analysis.assertAnalyzed();
    return analysis.analyzed();
  }

  /** What a procedure that returns no rows leaves of its CALL. */
  private static LogicalPlan nothing(Call call) {
    return new CommandResult(
        empty(), call, new LocalTableScanExec(empty(), empty(), Option.empty()), empty());
  }

  @SuppressWarnings("unchecked")
  private static <T> Seq<T> empty() {
    return (Seq<T>) (Seq<?>) Nil$.MODULE$;
  }
}
