package io.txns.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceData;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Lets the tasks of a copy-on-write UPDATE count the rows that they change.
 *
 * <p>Spark analyzes it to a projection that gives each column as {@code IF(condition, new, old)},
 * of all rows or, when the condition has a subquery, of those that match it. Whoever asks for the
 * first column's new value is counted.
 */
final class UpdatedRows {

  private UpdatedRows() {}

  /** The plan with {@code counter} in it; null when it is not a copy-on-write UPDATE. */
  static LogicalPlan counted(LogicalPlan analyzed, RowCounter counter) {
    boolean[] found = {false};
    LogicalPlan counted =
        (LogicalPlan)
            analyzed.transformDown(
                new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
                  @Override
                  public boolean isDefinedAt(LogicalPlan node) {
                    return !found[0]
                        && node instanceof ReplaceData replace
                        && replace.operation().command() == RowLevelOperation.Command.UPDATE;
                  }

                  @Override
                  public LogicalPlan apply(LogicalPlan node) {
                    ReplaceData replace = (ReplaceData) node;
                    LogicalPlan query = inQuery(replace.query(), counter, found);
                    return replace.withNewQuery(query);
                  }
                });
    return found[0] ? counted : null;
  }

  private static LogicalPlan inQuery(LogicalPlan query, RowCounter counter, boolean[] found) {
    return (LogicalPlan)
        query.transformDown(
            new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
              @Override
              public boolean isDefinedAt(LogicalPlan node) {
                return !found[0] && node instanceof Project project && isChange(project);
              }

              @Override
              public LogicalPlan apply(LogicalPlan node) {
                found[0] = true;
                return counted((Project) node, counter);
              }
            });
  }

  private static boolean isChange(Project project) {
    return project.projectList().head() instanceof Alias alias && alias.child() instanceof If;
  }

  private static Project counted(Project project, RowCounter counter) {
    List<NamedExpression> columns =
        new ArrayList<>(CollectionConverters.asJava(project.projectList()));
    Alias first = (Alias) columns.get(0);
    If value = (If) first.child();
    Expression counting =
        new If(value.predicate(), new CountedRow(value.trueValue(), counter), value.falseValue());
    columns.set(
        0, (Alias) first.withNewChildren(CollectionConverters.asScala(List.of(counting)).toSeq()));
    return project.copy(CollectionConverters.asScala(columns).toSeq(), project.child());
  }
}
