package io.txns.spark.sql;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.DropTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RenameTable;
import org.apache.spark.sql.catalyst.plans.logical.TruncatePartition;
import org.apache.spark.sql.catalyst.plans.logical.TruncateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.plans.logical.V2PartitionCommand;
import scala.collection.immutable.Seq;

/** Tells which plans change tables by DDL, parsed or analyzed. */
public final class DdlPlans {

  /** What Iceberg's extension adds; its plans name the table in their first field. */
  private static final Set<String> OF_ICEBERG =
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

  private DdlPlans() {}

  public static boolean isDdl(LogicalPlan plan) {
    return plan instanceof V2CreateTablePlan
        || plan instanceof AlterTableCommand
        || plan instanceof DropTable
        || plan instanceof TruncateTable
        || plan instanceof TruncatePartition
        || plan instanceof RenameTable
        || plan instanceof V2PartitionCommand
        || isIcebergs(plan);
  }

  private static boolean isIcebergs(LogicalPlan plan) {
    return plan instanceof Command && OF_ICEBERG.contains(plan.getClass().getSimpleName());
  }

  /** The table's name in a plan of Iceberg's extension; empty for others. */
  public static Optional<List<String>> nameInIcebergs(LogicalPlan plan) {
    return isIcebergs(plan) && plan.productElement(0) instanceof Seq<?> name
        ? Optional.of(ParsedName.strings(name))
        : Optional.empty();
  }

  /** The name of the table that a parsed plan changes; null when only analysis can tell. */
  public static List<String> target(LogicalPlan plan, ParserInterface parser) {
    return nameInIcebergs(plan)
        .orElseGet(
            () -> plan.children().isEmpty() ? null : ParsedName.of(plan.children().head(), parser));
  }
}
