package io.txns.spark.compat;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceData;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Has Spark count the rows that a copy-on-write UPDATE changes, and those that it copies.
 *
 * <p>Spark 4.1 counts them for MERGE only, in {@code MergeRows}, and hands the counts to whoever
 * commits the write. So an UPDATE gets this node, too: it passes every row on as it is, one as
 * updated, another as copied. Spark 4.0 does not tell one from the other.
 */
public final class UpdatedRows {

  private static final String MARK = "__txns_updated";

  private UpdatedRows() {}

  /** An analyzed plan, with the node in it if it is a copy-on-write UPDATE. */
  public static LogicalPlan counted(LogicalPlan analyzed) {
    return transformedFirst(
        analyzed,
        node ->
            node instanceof ReplaceData replace
                    && replace.operation().command() == RowLevelOperation.Command.UPDATE
                ? replace.withNewQuery(transformedFirst(replace.query(), UpdatedRows::counting))
                : null);
  }

  private interface Change {
    /** The node that takes the place of another one; null to go on with its children. */
    LogicalPlan of(LogicalPlan node);
  }

  private static LogicalPlan transformedFirst(LogicalPlan plan, Change change) {
    boolean[] done = {false};
    return (LogicalPlan)
        plan.transformDown(
            new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
              @Override
              public boolean isDefinedAt(LogicalPlan node) {
                return !done[0] && change.of(node) != null;
              }

              @Override
              public LogicalPlan apply(LogicalPlan node) {
                done[0] = true;
                return change.of(node);
              }
            });
  }

  /**
   * What Spark analyzes an UPDATE to: a projection of all rows that gives each column as {@code
   * IF(condition, new, old)}; or, when the condition has a subquery, one of the rows that match it,
   * in a union with the others.
   */
  private static LogicalPlan counting(LogicalPlan node) {
    if (node instanceof Union union && union.children().size() == 2) {
      LogicalPlan updated = union.children().head();
      LogicalPlan copied = union.children().last();
      return condition(updated) == null
          ? null
          : mergeRows(
              node,
              new Union(
                  seq(
                      List.of(
                          marked(updated, Literal.TrueLiteral()),
                          marked(copied, Literal.FalseLiteral()))),
                  union.byName(),
                  union.allowMissingCol()));
    }
    Expression condition = condition(node);
    return condition == null ? null : mergeRows(node, marked(node, condition));
  }

  private static Expression condition(LogicalPlan node) {
    return node instanceof Project project
            && project.projectList().head() instanceof Alias alias
            && alias.child() instanceof If change
        ? change.predicate()
        : null;
  }

  /** The rows of a plan, with a last column that says whether they are updated. */
  private static LogicalPlan marked(LogicalPlan plan, Expression isUpdated) {
    boolean extended = plan instanceof Project;
    List<NamedExpression> columns =
        new ArrayList<>(
            extended
                ? CollectionConverters.asJava(((Project) plan).projectList())
                : CollectionConverters.asJava(plan.output()));
    columns.add(
        new Alias(
            isUpdated,
            MARK,
            NamedExpression.newExprId(),
            seq(List.of()),
            Option.empty(),
            seq(List.of())));
    return new Project(seq(columns), extended ? ((Project) plan).child() : plan);
  }

  private static LogicalPlan mergeRows(LogicalPlan rows, LogicalPlan marked) {
    Seq<Attribute> output = rows.output();
    Expression isUpdated = (Expression) marked.output().last();
    return new MergeRows(
        Literal.TrueLiteral(),
        Literal.TrueLiteral(),
        seq(
            List.of(
                keep(MergeRows.Update$.MODULE$, isUpdated, output),
                keep(MergeRows.Copy$.MODULE$, Literal.TrueLiteral(), output))),
        seq(List.of()),
        seq(List.of()),
        false,
        output,
        marked);
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static MergeRows.Instruction keep(
      MergeRows.Context context, Expression condition, Seq<Attribute> output) {
    return new MergeRows.Keep(context, condition, (Seq) output);
  }

  private static <T> Seq<T> seq(List<? extends T> list) {
    return CollectionConverters.<T>asScala(new ArrayList<T>(list)).toSeq();
  }
}
