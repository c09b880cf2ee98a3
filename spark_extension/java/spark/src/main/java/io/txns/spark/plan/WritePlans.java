package io.txns.spark.plan;

import io.txns.spark.session.Catalogs;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.WriteTarget;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTableWithFilters;
import org.apache.spark.sql.catalyst.plans.logical.DropNamespace;
import org.apache.spark.sql.catalyst.plans.logical.DropTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.TruncatePartition;
import org.apache.spark.sql.catalyst.plans.logical.TruncateTable;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.plans.logical.V2PartitionCommand;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.command.DataWritingCommand;
import org.apache.spark.sql.execution.command.RunnableCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Tells which plans write, and what they write to. */
public final class WritePlans {

  /** What Iceberg's extension adds; its plans name the table in their first field. */
  private static final Set<String> ICEBERG_DDL =
      Set.of(
          "AddPartitionField",
          "DropPartitionField",
          "ReplacePartitionField",
          "SetIdentifierFields",
          "DropIdentifierFields",
          "SetWriteDistributionAndOrdering",
          "CreateOrReplaceBranch",
          "CreateOrReplaceTag",
          "DropBranch",
          "DropTag");

  private static final String NOOP = "org.apache.spark.sql.execution.datasources.noop.";

  private WritePlans() {}

  /** What a DML statement does, as far as its row counts differ. */
  public enum Dml {
    INSERT,
    UPDATE,
    DELETE,
    MERGE
  }

  /**
   * A parsed INSERT, UPDATE, DELETE or MERGE.
   *
   * @param target the table's name, or null when only analysis can tell it
   */
  public record ParsedDml(Dml kind, List<String> target, LogicalPlan statement) {}

  // Parsed plans

  public static Optional<ParsedDml> dml(LogicalPlan parsed, ParserInterface parser) {
    LogicalPlan plan = parsed instanceof UnresolvedWith with ? with.child() : parsed;
    if (plan instanceof PlanWithUnresolvedIdentifier unresolved) {
      List<String> name = literalName(unresolved, parser);
      plan = name == null ? plan : unresolved.planBuilder().apply(seq(name), unresolved.children());
    }
    if (plan instanceof InsertIntoStatement insert) {
      return Optional.of(new ParsedDml(Dml.INSERT, name(insert.table(), parser), plan));
    } else if (plan instanceof V2WriteCommand write) {
      return Optional.of(
          new ParsedDml(Dml.INSERT, name((LogicalPlan) write.table(), parser), plan));
    } else if (plan instanceof UpdateTable update) {
      return Optional.of(new ParsedDml(Dml.UPDATE, name(update.table(), parser), plan));
    } else if (plan instanceof DeleteFromTable delete) {
      return Optional.of(new ParsedDml(Dml.DELETE, name(delete.table(), parser), plan));
    } else if (plan instanceof MergeIntoTable merge) {
      return Optional.of(new ParsedDml(Dml.MERGE, name(merge.targetTable(), parser), plan));
    }
    return Optional.empty();
  }

  /** Whether a parsed plan is {@code FROM ... INSERT INTO ... INSERT INTO ...}. */
  public static boolean isMultiInsert(LogicalPlan parsed) {
    LogicalPlan plan = parsed instanceof UnresolvedWith with ? with.child() : parsed;
    return plan instanceof Union
        && plan.children().forall(child -> child instanceof InsertIntoStatement);
  }

  /** The names of the tables that such a plan writes, as far as its text has them. */
  public static List<List<String>> multiInsertTargets(LogicalPlan parsed, ParserInterface parser) {
    List<List<String>> targets = new ArrayList<>();
    if (isMultiInsert(parsed)) {
      LogicalPlan plan = parsed instanceof UnresolvedWith with ? with.child() : parsed;
      plan.children()
          .foreach(child -> targets.add(name(((InsertIntoStatement) child).table(), parser)));
    }
    targets.removeIf(Objects::isNull);
    return targets;
  }

  /** Whether a parsed plan changes tables by DDL. */
  public static boolean isDdl(LogicalPlan plan) {
    return plan instanceof V2CreateTablePlan
        || plan instanceof AlterTableCommand
        || plan instanceof DropTable
        || plan instanceof TruncateTable
        || plan instanceof TruncatePartition
        || plan instanceof RenameTable
        || plan instanceof V2PartitionCommand
        || isIcebergDdl(plan);
  }

  private static boolean isIcebergDdl(LogicalPlan plan) {
    return plan instanceof Command && ICEBERG_DDL.contains(plan.getClass().getSimpleName());
  }

  /** The name of the table that a parsed DDL plan changes; null when only analysis can tell. */
  public static List<String> ddlTarget(LogicalPlan plan, ParserInterface parser) {
    if (isIcebergDdl(plan) && plan.productElement(0) instanceof Seq<?> name) {
      return strings(name);
    }
    return plan.children().isEmpty() ? null : name(plan.children().head(), parser);
  }

  private static List<String> name(LogicalPlan table, ParserInterface parser) {
    if (table instanceof SubqueryAlias alias) {
      return name(alias.child(), parser);
    } else if (table instanceof UnresolvedRelation relation) {
      return strings(relation.multipartIdentifier());
    } else if (table instanceof UnresolvedIdentifier identifier) {
      return strings(identifier.nameParts());
    } else if (table instanceof UnresolvedTable unresolved) {
      return strings(unresolved.multipartIdentifier());
    } else if (table instanceof UnresolvedTableOrView unresolved) {
      return strings(unresolved.multipartIdentifier());
    } else if (table instanceof PlanWithUnresolvedIdentifier unresolved) {
      return literalName(unresolved, parser);
    }
    return null;
  }

  /** The name in {@code IDENTIFIER('a.b')}, or null when it is not a literal. */
  private static List<String> literalName(
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

  private static List<String> strings(Seq<?> parts) {
    List<String> strings = new ArrayList<>();
    parts.foreach(part -> strings.add(String.valueOf(part)));
    return strings;
  }

  private static Seq<String> seq(List<String> parts) {
    return CollectionConverters.asScala(new ArrayList<>(parts)).toSeq();
  }

  // Analyzed plans

  /** What an analyzed or optimized plan writes to; empty when it does not write to a table. */
  static Optional<WriteTarget> target(LogicalPlan plan, SparkSession session) {
    if (plan instanceof V2WriteCommand write) {
      return ofPlan((LogicalPlan) write.table());
    } else if (plan instanceof DeleteFromTable delete) {
      return ofPlan(delete.table());
    } else if (plan instanceof DeleteFromTableWithFilters delete) {
      return ofPlan(delete.table());
    } else if (plan instanceof V2CreateTablePlan create) {
      return ofPlan(create.name()).map(target -> created(create, target));
    } else if (plan instanceof AlterTableCommand alter) {
      return ofPlan(alter.table());
    } else if (plan instanceof V2PartitionCommand partition) {
      return ofPlan(partition.table());
    } else if (isDdl(plan) && plan.children().nonEmpty()) {
      return ofPlan(plan.children().head());
    } else if (isIcebergDdl(plan) && plan.productElement(0) instanceof Seq<?> name) {
      return ofIcebergDdl(name, session);
    }
    return plan instanceof DropNamespace drop && drop.cascade()
        ? withItsTables(drop)
        : elsewhere(plan);
  }

  /** Spark's catalog drops the tables, too; Iceberg's refuse a namespace that has some. */
  private static Optional<WriteTarget> withItsTables(DropNamespace drop) {
    return drop.namespace() instanceof ResolvedNamespace namespace
            && !(namespace.catalog() instanceof TransactionCatalog)
        ? Optional.of(new WriteTarget(null, "DROP NAMESPACE CASCADE"))
        : Optional.empty();
  }

  private static Optional<WriteTarget> ofPlan(LogicalPlan table) {
    if (table instanceof SubqueryAlias alias) {
      return ofPlan(alias.child());
    } else if (table instanceof DataSourceV2ScanRelation scan) {
      return ofPlan(scan.relation());
    } else if (table instanceof DataSourceV2Relation relation) {
      boolean nothing = relation.table().getClass().getName().startsWith(NOOP);
      return nothing
          ? Optional.empty()
          : Optional.of(
              relation.catalog().isDefined() && relation.identifier().isDefined()
                  ? target(relation)
                  : WriteTarget.table(null, relation.table().name()));
    } else if (table instanceof ResolvedTable resolved) {
      return Optional.of(target(resolved.catalog(), resolved.identifier()));
    } else if (table instanceof ResolvedIdentifier resolved) {
      return Optional.of(target(resolved.catalog(), resolved.identifier()));
    }
    return Optional.empty();
  }

  private static Optional<WriteTarget> ofIcebergDdl(Seq<?> name, SparkSession session) {
    List<String> parts = strings(name);
    return Optional.of(WriteTarget.table(Catalogs.ofName(session, parts), String.join(".", parts)));
  }

  private static WriteTarget target(DataSourceV2Relation relation) {
    CatalogPlugin catalog = relation.catalog().get();
    Identifier identifier = relation.identifier().get();
    // Perhaps one that is being created, and is not in its catalog yet.
    return relation.table() instanceof SparkTable
        ? WriteTarget.table(Catalogs.ours(catalog), catalog.name() + "." + identifier)
        : target(catalog, identifier);
  }

  private static WriteTarget target(CatalogPlugin catalog, Identifier identifier) {
    return WriteTarget.table(Catalogs.ours(catalog, identifier), catalog.name() + "." + identifier);
  }

  /** A new table of Iceberg's in a session catalog is ours, although it is not there yet. */
  private static WriteTarget created(V2CreateTablePlan create, WriteTarget target) {
    boolean iceberg = provider(create).map("iceberg"::equalsIgnoreCase).orElse(true);
    return target.catalog() == null
            && iceberg
            && create.name() instanceof ResolvedIdentifier name
            && name.catalog() instanceof TransactionCatalog.Around session
        ? new WriteTarget(session.tables(), target.what())
        : target;
  }

  private static Optional<String> provider(V2CreateTablePlan create) {
    TableSpecBase spec = null;
    if (create instanceof CreateTable table) {
      spec = table.tableSpec();
    } else if (create instanceof ReplaceTable table) {
      spec = table.tableSpec();
    } else if (create instanceof CreateTableAsSelect table) {
      spec = table.tableSpec();
    } else if (create instanceof ReplaceTableAsSelect table) {
      spec = table.tableSpec();
    }
    return spec == null || spec.provider().isEmpty()
        ? Optional.empty()
        : Optional.of(spec.provider().get());
  }

  /** Files, JDBC, tables of Spark's own catalog, and what nobody knows. */
  private static Optional<WriteTarget> elsewhere(LogicalPlan plan) {
    boolean writes =
        plan instanceof DataWritingCommand
            || plan instanceof RunnableCommand && SparkCommands.isWrite(plan);
    return writes
        ? Optional.of(WriteTarget.table(null, "another place (" + plan.nodeName() + ")"))
        : Optional.empty();
  }
}
