package io.txns.iceberg.commit;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.expressions.And;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expression.Operation;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.NamedReference;
import org.apache.iceberg.expressions.Not;
import org.apache.iceberg.expressions.Or;
import org.apache.iceberg.expressions.UnboundPredicate;

/** Filters in words, as SQL says them. */
final class FilterWords {
  private static final int SHOWN = 5;
  private static final int LONGEST = 1000;

  private static final Map<Operation, String> WORDS =
      Map.ofEntries(
          Map.entry(Operation.EQ, "="),
          Map.entry(Operation.NOT_EQ, "!="),
          Map.entry(Operation.GT, ">"),
          Map.entry(Operation.GT_EQ, ">="),
          Map.entry(Operation.LT, "<"),
          Map.entry(Operation.LT_EQ, "<="),
          Map.entry(Operation.IN, "in"),
          Map.entry(Operation.NOT_IN, "not in"),
          Map.entry(Operation.IS_NULL, "is null"),
          Map.entry(Operation.NOT_NULL, "is not null"),
          Map.entry(Operation.IS_NAN, "is nan"),
          Map.entry(Operation.NOT_NAN, "is not nan"),
          Map.entry(Operation.STARTS_WITH, "starts with"),
          Map.entry(Operation.NOT_STARTS_WITH, "does not start with"));

  private FilterWords() {}

  /** A filter in words; {@code true} for all rows. */
  static String of(Expression filter) {
    String words = words(filter);
    return words.length() <= LONGEST ? words : words.substring(0, LONGEST) + "...";
  }

  private static String words(Expression filter) {
    if (filter instanceof And and) {
      return "(" + words(and.left()) + " and " + words(and.right()) + ")";
    } else if (filter instanceof Or or) {
      return "(" + words(or.left()) + " or " + words(or.right()) + ")";
    } else if (filter instanceof Not not) {
      return "not " + words(not.child());
    } else if (filter instanceof UnboundPredicate<?> predicate) {
      return ofColumn(predicate);
    }
    return filter.toString();
  }

  private static String ofColumn(UnboundPredicate<?> predicate) {
    String word = WORDS.get(predicate.op());
    if (word == null) {
      return predicate.op().toString();
    }
    String column =
        predicate.term() instanceof NamedReference<?> named
            ? named.name()
            : predicate.term().toString();
    List<? extends Literal<?>> literals = predicate.literals();
    String start = column + " " + word;
    if (literals == null || literals.isEmpty()) {
      return start;
    }
    if (predicate.op() != Operation.IN && predicate.op() != Operation.NOT_IN) {
      return start + " " + literals.get(0);
    }
    Stream<String> shown = literals.stream().limit(SHOWN).map(String::valueOf);
    Stream<String> more = literals.size() > SHOWN ? Stream.of("...") : Stream.empty();
    return start + Stream.concat(shown, more).collect(Collectors.joining(", ", " (", ")"));
  }
}
