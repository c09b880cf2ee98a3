package io.txns.spark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;

/**
 * A parsed INSERT, UPDATE, DELETE or MERGE.
 *
 * @param target the table's name, or null when only analysis can tell it
 */
public record ParsedDml(Kind kind, List<String> target) {

  /** What it does, as far as its row counts differ. */
  public enum Kind {
    INSERT,
    UPDATE,
    DELETE,
    MERGE
  }

  /** What a parsed plan is; empty when it is none of them, or several INSERTs at once. */
  public static Optional<ParsedDml> of(LogicalPlan parsed, ParserInterface parser) {
    LogicalPlan plan = withoutCtes(parsed);
    if (plan instanceof PlanWithUnresolvedIdentifier unresolved) {
      plan = ParsedName.filledIn(unresolved, parser);
    }
    if (plan instanceof InsertIntoStatement insert) {
      return of(Kind.INSERT, insert.table(), parser);
    } else if (plan instanceof V2WriteCommand write) {
      return of(Kind.INSERT, (LogicalPlan) write.table(), parser);
    } else if (plan instanceof UpdateTable update) {
      return of(Kind.UPDATE, update.table(), parser);
    } else if (plan instanceof DeleteFromTable delete) {
      return of(Kind.DELETE, delete.table(), parser);
    } else if (plan instanceof MergeIntoTable merge) {
      return of(Kind.MERGE, merge.targetTable(), parser);
    }
    return Optional.empty();
  }

  /** Whether a parsed INSERT replaces rows of its table. */
  public static boolean replaces(LogicalPlan parsed) {
    LogicalPlan plan = withoutCtes(parsed);
    return plan instanceof InsertIntoStatement insert
        ? insert.overwrite()
        : plan instanceof V2WriteCommand && !(plan instanceof AppendData);
  }

  private static Optional<ParsedDml> of(Kind kind, LogicalPlan table, ParserInterface parser) {
    return Optional.of(new ParsedDml(kind, ParsedName.of(table, parser)));
  }

  private static LogicalPlan withoutCtes(LogicalPlan parsed) {
    return parsed instanceof UnresolvedWith with ? with.child() : parsed;
  }

  /** Whether a parsed plan is {@code FROM ... INSERT INTO ... INSERT INTO ...}. */
  public static boolean isMultiInsert(LogicalPlan parsed) {
    LogicalPlan plan = withoutCtes(parsed);
    return plan instanceof Union
        && plan.children().forall(child -> child instanceof InsertIntoStatement);
  }

  /** The names of the tables that such a plan writes, as far as its text has them. */
  public static List<List<String>> multiInsertTargets(LogicalPlan parsed, ParserInterface parser) {
    return targetsOf(parsed, parser, insert -> true);
  }

  /** Those of which it replaces rows by those of its query, which may read them. */
  public static List<List<String>> multiInsertReplaced(LogicalPlan parsed, ParserInterface parser) {
    return targetsOf(parsed, parser, InsertIntoStatement::overwrite);
  }

  private static List<List<String>> targetsOf(
      LogicalPlan parsed, ParserInterface parser, Predicate<InsertIntoStatement> of) {
    List<List<String>> targets = new ArrayList<>();
    withoutCtes(parsed)
        .children()
        .foreach(
            child ->
                child instanceof InsertIntoStatement insert
                    && of.test(insert)
                    && targets.add(ParsedName.of(insert.table(), parser)));
    targets.removeIf(Objects::isNull);
    return targets;
  }
}
