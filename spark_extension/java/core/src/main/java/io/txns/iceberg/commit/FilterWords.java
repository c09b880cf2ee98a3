package io.txns.iceberg.commit;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.Schema;
import org.apache.iceberg.expressions.And;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expression.Operation;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.NamedReference;
import org.apache.iceberg.expressions.Not;
import org.apache.iceberg.expressions.Or;
import org.apache.iceberg.expressions.UnboundPredicate;
import org.apache.iceberg.expressions.UnboundTerm;
import org.apache.iceberg.expressions.UnboundTransform;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.transforms.Transforms;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Type.TypeID;
import org.apache.iceberg.types.Types;

/** Filters of a table in words, as SQL says them. */
final class FilterWords {
  private static final int SHOWN = 5;
  private static final int LONGEST = 1000;

  /** Of these a filter has numbers, of days or of parts of a second. */
  private static final Set<TypeID> TIMES = Set.of(TypeID.DATE, TypeID.TIME, TypeID.TIMESTAMP);

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

  private final Schema schema;

  /**
   * @param schema of the table: it knows which numbers are days
   */
  FilterWords(Schema schema) {
    this.schema = schema;
  }

  /** A filter in words; {@code true} for all rows. */
  String of(Expression filter) {
    return ofAny(List.of(filter));
  }

  /** What any of some filters matches. */
  String ofAny(Collection<Expression> filters) {
    String all = filters.stream().map(this::words).distinct().collect(Collectors.joining(" or "));
    return all.length() <= LONGEST ? all : all.substring(0, LONGEST) + "...";
  }

  private String words(Expression filter) {
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

  private String ofColumn(UnboundPredicate<?> predicate) {
    String word = WORDS.get(predicate.op());
    if (word == null) {
      return predicate.op().toString();
    }
    UnboundTerm<?> term = predicate.term();
    List<? extends Literal<?>> literals = predicate.literals();
    String start = name(term) + " " + word;
    if (literals == null || literals.isEmpty()) {
      return start;
    }
    if (predicate.op() != Operation.IN && predicate.op() != Operation.NOT_IN) {
      return start + " " + value(term, literals.get(0));
    }
    Stream<String> shown = literals.stream().limit(SHOWN).map(each -> value(term, each));
    Stream<String> more = literals.size() > SHOWN ? Stream.of("...") : Stream.empty();
    return start + Stream.concat(shown, more).collect(Collectors.joining(", ", " (", ")"));
  }

  private static String name(UnboundTerm<?> term) {
    if (term instanceof UnboundTransform<?, ?> transformed) {
      return transformed.transform() + "(" + transformed.ref().name() + ")";
    }
    return term instanceof NamedReference<?> named ? named.name() : term.toString();
  }

  /** A value; days and times as people write them. */
  private String value(UnboundTerm<?> term, Literal<?> literal) {
    Types.NestedField column = schema.caseInsensitiveFindField(term.ref().name());
    if (column == null || !(literal.value() instanceof Number)) {
      return String.valueOf(literal);
    }
    Transform<?, ?> transform =
        term instanceof UnboundTransform<?, ?> transformed
            ? transformed.transform()
            : Transforms.identity();
    if (!column.type().isPrimitiveType() || !transform.canTransform(column.type())) {
      return String.valueOf(literal);
    }
    Type type = transform.getResultType(column.type());
    boolean isTime = TIMES.contains(type.typeId()) || !transform.isIdentity();
    return isTime && type.typeId().javaClass().isInstance(literal.value())
        ? human(transform, type, literal.value())
        : String.valueOf(literal);
  }

  @SuppressWarnings("unchecked") // the value is of the transform's results
  private static String human(Transform<?, ?> transform, Type type, Object value) {
    return ((Transform<?, Object>) transform).toHumanString(type, value);
  }
}
