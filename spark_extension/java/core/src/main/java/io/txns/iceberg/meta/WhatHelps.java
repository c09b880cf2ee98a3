package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.expressions.And;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expression.Operation;
import org.apache.iceberg.expressions.Not;
import org.apache.iceberg.expressions.Or;
import org.apache.iceberg.expressions.Projections;
import org.apache.iceberg.expressions.UnboundPredicate;

/**
 * What would keep two transactions apart from now on: the end of what a conflict says of its cause.
 * {@code docs/golden/what_helps.json} has cases, which Python has to tell alike; pure.
 */
public final class WhatHelps {
  /** Kinds of clashes, by what helps. */
  public enum Clash {
    /** Rows were written that it has read, or that it wrote by what they are. */
    ROWS(""),
    /** Others have changed files that it replaced or removed. */
    FILES(""),
    /** Others have compacted such files: the rows are the same. */
    COMPACTED(
        "to run it again, since the rows are the same, or to compact while no transaction changes"
            + " those files"),
    /** Others have altered a table that it read or wrote. */
    ALTERED("to alter the table while no transaction is at work on it"),
    /** It alters, drops or replaces a table itself. */
    ALTERS("to alter, drop or replace the table while nobody else writes it"),
    /** Both create one table. */
    CREATED("to create the table once, before both"),
    /** Nothing helps but to run it again. */
    OTHER("");

    private final String words;

    Clash(String words) {
      this.words = words;
    }
  }

  /** What of a filter's columns is shown. */
  private static final int SHOWN = 3;

  private static final String BEGINNING = "; what would help: ";
  private static final String SNAPSHOT =
      "level SNAPSHOT, where what is only read may change meanwhile";

  private WhatHelps() {}

  /**
   * What would help, as a clause to stand behind the reason; empty where nothing is known to.
   *
   * @param base the table that it is about, as the transaction read it; null where it is not known
   * @param filters what met, in columns of {@code base}; all that it read by where tables decide
   * @param byTable whose {@code txns.conflicts} is {@code table}: "transaction", "table" or both
   * @param onlyRead whether there is no such clash at SNAPSHOT
   */
  public static String words(
      Clash clash,
      TableMetadata base,
      List<Expression> filters,
      List<String> byTable,
      boolean onlyRead) {
    String first = clash.words.isEmpty() ? apart(clash, base, filters, byTable) : clash.words;
    String told =
        Stream.of(first, onlyRead ? SNAPSHOT : "")
            .filter(each -> !each.isEmpty())
            .collect(Collectors.joining("; or "));
    return told.isEmpty() ? "" : BEGINNING + told;
  }

  /** The same of a clash of which no filter tells. */
  public static String words(Clash clash, TableMetadata base) {
    return words(clash, base, List.of(), List.of(), false);
  }

  private static String apart(
      Clash clash, TableMetadata base, List<Expression> filters, List<String> byTable) {
    if (clash == Clash.FILES && base != null) {
      String finer = partitionedBy(base).isEmpty() ? "partitioning" : "a finer partitioning of";
      return finer + " the table, so that each changes files of its own";
    }
    if (clash != Clash.ROWS) {
      return "";
    }
    boolean known = base != null && !filters.isEmpty();
    String apart = known ? byFilters(base, filters, byTable.isEmpty()) : "";
    if (byTable.isEmpty()) {
      return apart;
    }
    String byFile =
        "a " + String.join(" and a ", byTable) + " in which files decide (`txns.conflicts=file`)";
    return apart.isEmpty() ? byFile : byFile + ", and " + apart;
  }

  /** By which filters or partitions files would be apart; {@code finer} than what they are by. */
  private static String byFilters(TableMetadata base, List<Expression> filters, boolean finer) {
    Set<String> columns = partitionedBy(base);
    Set<String> unbounded = new LinkedHashSet<>();
    try {
      for (Expression filter : filters) {
        Set<String> bounded = bounded(base, filter);
        columns.stream().filter(name -> !bounded.contains(name)).forEach(unbounded::add);
      }
    } catch (RuntimeException e) { // of columns that the table does not have, or has twice
      return "";
    }
    if (!unbounded.isEmpty()) {
      return "filters that compare "
          + named(columns.stream().filter(unbounded::contains).toList())
          + ", by which the table is partitioned, with literals";
    }
    Set<String> known = columns.stream().map(WhatHelps::folded).collect(Collectors.toSet());
    List<String> others =
        filters.stream()
            .flatMap(filter -> compared(filter).stream())
            .distinct()
            .filter(name -> !known.contains(folded(name)))
            .toList();
    if (columns.isEmpty() && others.isEmpty()) {
      return "partitioning the table by a column that the filters compare with literals";
    }
    if (!finer) {
      return "";
    }
    return others.isEmpty()
        ? "narrower filters, or a finer partitioning of the table"
        : "partitioning the table by " + named(others) + (columns.isEmpty() ? "" : ", too");
  }

  /** The columns by which a table is partitioned. */
  private static Set<String> partitionedBy(TableMetadata base) {
    Set<String> columns = new LinkedHashSet<>();
    for (PartitionField field : base.spec().fields()) {
      String name = base.schema().findColumnName(field.sourceId());
      if (name != null && !field.transform().isVoid()) {
        columns.add(name);
      }
    }
    return columns;
  }

  /** Those of which a filter tells partitions apart: a range does not, of buckets. */
  private static Set<String> bounded(TableMetadata base, Expression filter) {
    Schema schema = base.schema();
    PartitionSpec spec = base.spec();
    Collection<String> within = compared(Projections.inclusive(spec, false).project(filter));
    return spec.fields().stream()
        .filter(field -> within.contains(field.name()))
        .map(field -> schema.findColumnName(field.sourceId()))
        .collect(Collectors.toSet());
  }

  /** The columns that a filter compares with something: that one is not null tells little. */
  private static List<String> compared(Expression filter) {
    List<String> names = new ArrayList<>();
    if (filter instanceof And and) {
      names.addAll(compared(and.left()));
      names.addAll(compared(and.right()));
    } else if (filter instanceof Or or) {
      names.addAll(compared(or.left()));
      names.addAll(compared(or.right()));
    } else if (filter instanceof Not not) {
      names.addAll(compared(not.child()));
    } else if (filter instanceof UnboundPredicate<?> predicate
        && predicate.op() != Operation.NOT_NULL
        && predicate.op() != Operation.NOT_NAN) {
      names.add(predicate.ref().name());
    }
    return names;
  }

  private static String folded(String name) {
    return name.toLowerCase(Locale.ROOT);
  }

  /** A name may be anybody's words. */
  private static String named(List<String> columns) {
    return columns.stream()
        .limit(SHOWN)
        .map(name -> "`" + name.replace('`', '\'') + "`")
        .collect(Collectors.joining(" or "));
  }
}
