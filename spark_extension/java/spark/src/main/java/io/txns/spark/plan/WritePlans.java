package io.txns.spark.plan;

import io.txns.spark.session.Catalogs;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.WriteTarget;
import io.txns.spark.sql.DdlPlans;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTableWithFilters;
import org.apache.spark.sql.catalyst.plans.logical.DropNamespace;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
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

/** Tells what an analyzed plan writes to. */
final class WritePlans {

  private static final String NOOP = "org.apache.spark.sql.execution.datasources.noop.";

  private WritePlans() {}

  /** The table or place; also of an optimized plan. Empty when it does not write to one. */
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
    } else if (DdlPlans.isDdl(plan) && plan.children().nonEmpty()) {
      return ofPlan(plan.children().head());
    }
    Optional<List<String>> name = DdlPlans.nameInIcebergs(plan);
    if (name.isPresent()) {
      return Optional.of(ofName(name.get(), session));
    }
    return plan instanceof DropNamespace drop && drop.cascade()
        ? withItsTables(drop)
        : elsewhere(plan);
  }

  /** A table that is replaced by a query, which may read it: Spark loads it for that inside. */
  static Optional<Identifier> replacedByQuery(LogicalPlan plan) {
    return plan instanceof ReplaceTableAsSelect replace
            && replace.name() instanceof ResolvedIdentifier name
        ? Optional.of(name.identifier())
        : Optional.empty();
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

  private static WriteTarget ofName(List<String> name, SparkSession session) {
    return WriteTarget.table(Catalogs.ofName(session, name), String.join(".", name));
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
