package io.txns.spark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.plans.logical.CompoundBody;
import org.apache.spark.sql.catalyst.plans.logical.CompoundPlanStatement;
import org.apache.spark.sql.catalyst.plans.logical.ExceptionHandler;
import org.apache.spark.sql.catalyst.plans.logical.ForStatement;
import org.apache.spark.sql.catalyst.plans.logical.IfElseStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.LoopStatement;
import org.apache.spark.sql.catalyst.plans.logical.RepeatStatement;
import org.apache.spark.sql.catalyst.plans.logical.SearchedCaseStatement;
import org.apache.spark.sql.catalyst.plans.logical.SetCatalogAndNamespace;
import org.apache.spark.sql.catalyst.plans.logical.SimpleCaseStatement;
import org.apache.spark.sql.catalyst.plans.logical.SingleStatement;
import org.apache.spark.sql.catalyst.plans.logical.WhileStatement;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin$;
import org.apache.spark.sql.execution.command.SetNamespaceCommand;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The statements of a SQL script, each with a boundary of its own. */
public final class ScriptStatements {

  private final UnaryOperator<LogicalPlan> wrap;
  private boolean changesNamespace;

  private ScriptStatements(UnaryOperator<LogicalPlan> wrap) {
    this.wrap = wrap;
  }

  /**
   * The script with its statements wrapped, or as it is when it changes the current catalog or
   * namespace on its way: then nobody knows yet what its names mean.
   */
  public static CompoundBody wrapped(CompoundBody script, UnaryOperator<LogicalPlan> wrap) {
    ScriptStatements statements = new ScriptStatements(wrap);
    CompoundBody wrapped = statements.body(script);
    return statements.changesNamespace ? script : wrapped;
  }

  private CompoundBody body(CompoundBody body) {
    List<CompoundPlanStatement> statements = new ArrayList<>();
    body.collection().foreach(statement -> statements.add(statement(statement)));
    List<ExceptionHandler> handlers = new ArrayList<>();
    body.handlers()
        .foreach(
            handler ->
                handlers.add(
                    new ExceptionHandler(
                        handler.exceptionHandlerTriggers(),
                        body(handler.body()),
                        handler.handlerType())));
    return new CompoundBody(
        seq(statements), body.label(), body.isScope(), seq(handlers), body.conditions());
  }

  private CompoundPlanStatement statement(CompoundPlanStatement statement) {
    if (statement instanceof SingleStatement single) {
      return single(single);
    } else if (statement instanceof CompoundBody inner) {
      return body(inner);
    } else if (statement instanceof IfElseStatement one) {
      return new IfElseStatement(
          one.conditions(), bodies(one.conditionalBodies()), body(one.elseBody()));
    } else if (statement instanceof SearchedCaseStatement one) {
      return new SearchedCaseStatement(
          one.conditions(), bodies(one.conditionalBodies()), body(one.elseBody()));
    } else if (statement instanceof SimpleCaseStatement one) {
      return new SimpleCaseStatement(
          one.caseVariableExpression(),
          one.conditionExpressions(),
          bodies(one.conditionalBodies()),
          body(one.elseBody()));
    } else if (statement instanceof WhileStatement loop) {
      return new WhileStatement(loop.condition(), body(loop.body()), loop.label());
    } else if (statement instanceof RepeatStatement loop) {
      return new RepeatStatement(loop.condition(), body(loop.body()), loop.label());
    } else if (statement instanceof LoopStatement loop) {
      return new LoopStatement(body(loop.body()), loop.label());
    } else if (statement instanceof ForStatement loop) {
      return new ForStatement(loop.query(), loop.variableName(), body(loop.body()), loop.label());
    }
    return statement;
  }

  private SingleStatement single(SingleStatement statement) {
    LogicalPlan plan = statement.parsedPlan();
    changesNamespace =
        changesNamespace
            || plan instanceof SetCatalogAndNamespace
            || plan instanceof SetNamespaceCommand;
    LogicalPlan wrapped = wrap.apply(plan);
    return wrapped == plan
        ? statement
        : CurrentOrigin$.MODULE$.withOrigin(statement.origin(), () -> new SingleStatement(wrapped));
  }

  private Seq<CompoundBody> bodies(Seq<CompoundBody> bodies) {
    List<CompoundBody> wrapped = new ArrayList<>();
    bodies.foreach(one -> wrapped.add(body(one)));
    return seq(wrapped);
  }

  private Option<CompoundBody> body(Option<CompoundBody> body) {
    return body.isEmpty() ? body : Option.apply(body(body.get()));
  }

  private static <T> Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
