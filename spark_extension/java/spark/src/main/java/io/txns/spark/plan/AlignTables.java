package io.txns.spark.plan;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTable;
import io.txns.spark.TxnSqlException;
import io.txns.spark.compat.PlanCache;
import io.txns.spark.compat.Relations;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * One {@code read_ts} for all tables of a statement that are under one commit table's care. Spark
 * loads them at several moments; this rule sees the whole plan after the last load, also for the
 * DataFrame API, and reloads what differs.
 *
 * <p>Inside an explicit transaction every load is pinned already; there, and in the implicit one of
 * a statement, the rule notes what the plan reads.
 */
public final class AlignTables extends Rule<LogicalPlan> {
  private static final long serialVersionUID = 1L;
  private static final Literal NO_ROW = Literal.create(0, DataTypes.IntegerType);

  private final transient SparkSession session;

  public AlignTables(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    TxnSession state = TxnSession.of(session);
    return TxnSqlException.translating(
        () -> {
          LogicalPlan whole = new SessionWrites(state).areAlone() ? adopted(plan) : plan;
          // A relation that CACHE TABLE keeps may be of another moment, or another transaction.
          boolean cached = !PlanCache.isEmpty(session);
          LogicalPlan loaded = cached ? loadAgain(whole) : whole;
          if (state.isExplicit() || state.isInWrite()) {
            forEachRead(loaded, leaf -> recordRead(leaf, state));
          }
          return state.isExplicit() ? loaded : align(loaded);
        });
  }

  /**
   * Adopts, outside a transaction, what strangers have appended to tables that a plan replaces by
   * queries of them, and reads these again. Spark has not always said that it writes them: it takes
   * a table that it reads for the one that it writes (SPARK-58370), and {@code save} loads a table
   * as who reads it.
   */
  private static LogicalPlan adopted(LogicalPlan plan) {
    List<DataSourceV2Relation> replaced = new ArrayList<>();
    forEach(plan, node -> replacedByItself(node).ifPresent(replaced::add));
    if (replaced.isEmpty()) {
      return plan;
    }
    replaced.forEach(each -> catalog(each).willReplace(each.identifier().get()));
    return writtenAgain(loadAgain(plan));
  }

  private static Optional<DataSourceV2Relation> replacedByItself(LogicalPlan node) {
    boolean replaces =
        node instanceof OverwriteByExpression || node instanceof OverwritePartitionsDynamic;
    return replaces
            && node instanceof V2WriteCommand write
            && write.table() instanceof DataSourceV2Relation target
            && movable(target).filter(table -> reads(write.query(), table)).isPresent()
        ? Optional.of(target)
        : Optional.empty();
  }

  private static boolean reads(LogicalPlan query, TxnTable table) {
    List<TxnTable> read = new ArrayList<>();
    forEach(
        query,
        leaf -> {
          if (leaf instanceof DataSourceV2Relation relation) {
            movable(relation).ifPresent(read::add);
          }
        });
    return read.stream()
        .anyMatch(
            each ->
                each.commitTableUuid().equals(table.commitTableUuid())
                    && each.identifier().equals(table.identifier()));
  }

  private static LogicalPlan writtenAgain(LogicalPlan plan) {
    return plan.transform(
        new AbstractPartialFunction<>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return replacedByItself(node).isPresent();
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            DataSourceV2Relation target = replacedByItself(node).orElseThrow();
            Table table = catalog(target).loadTableAgain(movable(target).get().identifier());
            return (LogicalPlan)
                ((V2WriteCommand) node).withNewTable(Relations.over(table, target));
          }
        });
  }

  private static TransactionCatalog catalog(DataSourceV2Relation relation) {
    return Catalogs.ours(relation.catalog().get());
  }

  private static LogicalPlan loadAgain(LogicalPlan plan) {
    return replace(
        plan, table -> true, (catalog, table) -> catalog.loadTableAgain(table.identifier()));
  }

  private static LogicalPlan align(LogicalPlan plan) {
    Map<String, Long> moments = new HashMap<>();
    Map<String, Long> targets = new HashMap<>();
    forEach(
        plan,
        leaf -> {
          if (leaf instanceof DataSourceV2Relation relation) {
            movable(relation).ifPresent(table -> newest(moments, table));
            target(relation.table()).ifPresent(table -> newest(targets, table));
          }
        });
    // The rows that an UPDATE, DELETE or MERGE rewrites are fixed; others of its log follow them.
    moments.putAll(targets);
    return replace(
        plan,
        table -> table.readTs() != moments.get(table.commitTableUuid()),
        (catalog, table) ->
            catalog.loadTableAt(table.identifier(), moments.get(table.commitTableUuid())));
  }

  /** By commit table: each has a time of its own. */
  private static void newest(Map<String, Long> moments, TxnTable table) {
    moments.merge(table.commitTableUuid(), table.readTs(), Math::max);
  }

  private static LogicalPlan replace(
      LogicalPlan plan,
      Predicate<TxnTable> which,
      BiFunction<TransactionCatalog, TxnTable, Table> load) {
    return plan.transformWithSubqueries(
        new AbstractPartialFunction<>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof DataSourceV2Relation relation
                && movable(relation).filter(which).isPresent();
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            DataSourceV2Relation relation = (DataSourceV2Relation) node;
            return Relations.over(load.apply(catalog(relation), movable(relation).get()), relation);
          }
        });
  }

  /** The table of a relation that may be reloaded. */
  private static Optional<TxnTable> movable(DataSourceV2Relation relation) {
    boolean named =
        Relations.timeTravel(relation).isEmpty()
            && relation.catalog().isDefined()
            && Catalogs.ours(relation.catalog().get()) != null
            && relation.identifier().isDefined();
    return named && relation.table() instanceof SparkTable table && table.branch() == null
        ? ours(table).filter(found -> SparkReads.isPlainName(relation.identifier().get(), found))
        : Optional.empty();
  }

  private static Optional<TxnTable> target(Table table) {
    return table instanceof RowLevelOperationTable target
        ? ours((Table) target.table())
        : Optional.empty();
  }

  private static Optional<TxnTable> ours(Table table) {
    return table instanceof SparkTable spark && spark.table() instanceof TxnTable ours
        ? Optional.of(ours)
        : Optional.empty();
  }

  private static void recordRead(LogicalPlan leaf, TxnSession state) {
    if (leaf instanceof DescribeRelation shown && shown.relation() instanceof ResolvedTable table) {
      SparkReads.unseen(table.table()); // it estimates the size by a scan
    } else if (leaf instanceof DataSourceV2Relation relation) {
      TransactionCatalog catalog =
          relation.catalog().isEmpty() ? null : Catalogs.ours(relation.catalog().get());
      Transaction transaction = catalog == null ? null : state.current(catalog);
      if (transaction != null) {
        SparkReads.planned(transaction, relation);
      } else if (relation.catalog().isDefined() || !SparkReads.plannedWithoutCatalog(relation)) {
        state.recordUnprotected(relation.name());
      }
    } else if (leaf instanceof LogicalRelation relation) {
      state.recordUnprotected(name(relation));
    } else if (leaf instanceof HiveTableRelation relation) {
      state.recordUnprotected(relation.tableMeta().identifier().unquotedString());
    }
  }

  private static String name(LogicalRelation relation) {
    if (relation.catalogTable().isDefined()) {
      return relation.catalogTable().get().identifier().unquotedString();
    }
    return relation.relation() instanceof HadoopFsRelation files
        ? files.location().rootPaths().mkString(", ")
        : relation.relation().toString();
  }

  /** Without what a plan takes no row from, as who asks for nothing but columns has it. */
  private static void forEachRead(LogicalPlan plan, Consumer<LogicalPlan> action) {
    if (takesNoRow(plan)) {
      return;
    }
    action.accept(plan);
    CollectionConverters.asJava(plan.subqueries()).forEach(each -> forEachRead(each, action));
    CollectionConverters.asJava(plan.children()).forEach(each -> forEachRead(each, action));
  }

  /** {@code WHERE false} and {@code LIMIT 0}, as they are written. */
  private static boolean takesNoRow(LogicalPlan plan) {
    return plan instanceof Filter filter && Literal.FalseLiteral().equals(filter.condition())
        || plan instanceof GlobalLimit limit && NO_ROW.equals(limit.limitExpr());
  }

  private static void forEach(LogicalPlan plan, Consumer<LogicalPlan> action) {
    plan.foreachWithSubqueries(
        node -> {
          action.accept(node);
          return BoxedUnit.UNIT;
        });
  }
}
