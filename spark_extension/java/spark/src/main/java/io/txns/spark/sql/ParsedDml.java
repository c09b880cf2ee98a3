package io.txns.spark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
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
 * @param replaces whether rows of the table make way for those of a query, which may read them
 */
public record ParsedDml(Kind kind, List<String> target, boolean replaces) {

  /** What it does, as far as its row counts differ. */
  public enum Kind {
    INSERT,
    UPDATE,
    DELETE,
    MERGE
  }

  /** What a parsed plan is; empty when it is none of them, or several INSERTs at once. */
  public static Optional<ParsedDml> of(LogicalPlan parsed, ParserInterface parser) {
    LogicalPlan plan = filledIn(withoutCtes(parsed), parser);
    if (plan instanceof InsertIntoStatement insert) {
      return Optional.of(of(insert, parser));
    } else if (plan instanceof V2WriteCommand write) {
      List<String> target = ParsedName.of((LogicalPlan) write.table(), parser);
      return Optional.of(new ParsedDml(Kind.INSERT, target, !(plan instanceof AppendData)));
    } else if (plan instanceof UpdateTable update) {
      return of(Kind.UPDATE, update.table(), parser);
    } else if (plan instanceof DeleteFromTable delete) {
      return of(Kind.DELETE, delete.table(), parser);
    } else if (plan instanceof MergeIntoTable merge) {
      return of(Kind.MERGE, merge.targetTable(), parser);
    }
    return Optional.empty();
  }

  private static Optional<ParsedDml> of(Kind kind, LogicalPlan table, ParserInterface parser) {
    return Optional.of(new ParsedDml(kind, ParsedName.of(table, parser), false));
  }

  private static ParsedDml of(InsertIntoStatement insert, ParserInterface parser) {
    List<String> target = ParsedName.of(insert.table(), parser);
    return new ParsedDml(Kind.INSERT, target, insert.overwrite());
  }

  private static LogicalPlan withoutCtes(LogicalPlan parsed) {
    return parsed instanceof UnresolvedWith with ? with.child() : parsed;
  }

  private static LogicalPlan filledIn(LogicalPlan plan, ParserInterface parser) {
    return plan instanceof PlanWithUnresolvedIdentifier unresolved
        ? ParsedName.filledIn(unresolved, parser)
        : plan;
  }

  /**
   * The INSERTs of {@code FROM ... INSERT INTO ... INSERT INTO ...}; empty when a parsed plan is
   * none.
   */
  public static List<ParsedDml> ofMultiInsert(LogicalPlan parsed, ParserInterface parser) {
    List<ParsedDml> inserts = new ArrayList<>();
    if (!(withoutCtes(parsed) instanceof Union union)) {
      return inserts;
    }
    union
        .children()
        .foreach(
            child ->
                filledIn(child, parser) instanceof InsertIntoStatement insert
                    && inserts.add(of(insert, parser)));
    return inserts.size() == union.children().size() ? inserts : List.of();
  }
}
