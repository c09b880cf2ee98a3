package io.txns.spark.sql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The names of tables in parsed plans, in their parts. */
final class ParsedName {

  private ParsedName() {}

  /** The name of a table, or null when only analysis can tell it. */
  static List<String> of(LogicalPlan table, ParserInterface parser) {
    if (table instanceof SubqueryAlias alias) {
      return of(alias.child(), parser);
    } else if (table instanceof UnresolvedRelation relation) {
      return strings(relation.multipartIdentifier());
    } else if (table instanceof UnresolvedIdentifier identifier) {
      return strings(identifier.nameParts());
    } else if (table instanceof UnresolvedTable unresolved) {
      return strings(unresolved.multipartIdentifier());
    } else if (table instanceof UnresolvedTableOrView unresolved) {
      return strings(unresolved.multipartIdentifier());
    } else if (table instanceof PlanWithUnresolvedIdentifier unresolved) {
      return literal(unresolved, parser);
    }
    return null;
  }

  /** The plan that {@code IDENTIFIER('a.b')} stands for; itself when that is not a literal. */
  static LogicalPlan filledIn(PlanWithUnresolvedIdentifier unresolved, ParserInterface parser) {
    List<String> name = literal(unresolved, parser);
    return name == null
        ? unresolved
        : unresolved.planBuilder().apply(seq(name), unresolved.children());
  }

  private static List<String> literal(
      PlanWithUnresolvedIdentifier unresolved, ParserInterface parser) {
    if (!(unresolved.identifierExpr() instanceof Literal literal) || literal.value() == null) {
      return null;
    }
    try {
      return strings(parser.parseMultipartIdentifier(literal.value().toString()));
    } catch (ParseException e) {
      return null; // analysis reports it
    }
  }

  static List<String> strings(Seq<?> parts) {
    List<String> strings = new ArrayList<>();
    parts.foreach(part -> strings.add(String.valueOf(part)));
    return strings;
  }

  private static Seq<String> seq(List<String> parts) {
    return CollectionConverters.asScala(new ArrayList<>(parts)).toSeq();
  }
}
