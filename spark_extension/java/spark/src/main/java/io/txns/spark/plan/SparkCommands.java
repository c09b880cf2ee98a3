package io.txns.spark.plan;

import io.txns.spark.compat.LeafCommand;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.command.AlterTableRenameCommand;
import org.apache.spark.sql.execution.command.AlterTableSetPropertiesCommand;
import org.apache.spark.sql.execution.command.AlterTableUnsetPropertiesCommand;
import org.apache.spark.sql.execution.command.DropDatabaseCommand;
import org.apache.spark.sql.execution.command.DropTableCommand;

/**
 * Which of Spark's own commands may run inside a transaction: those that write to no table. All
 * others are taken for writes, also those of extensions and of later versions of Spark.
 */
final class SparkCommands {

  private static final Pattern HARMLESS =
      Pattern.compile(
          "org\\.apache\\.spark\\.sql\\.execution\\.(command|datasources)\\.("
              // what only tells or sets something of the session
              + "(Show|Describe|List|Refresh|Set|Reset|Explain|StreamingExplain)\\w*"
              + "|ClearCacheCommand\\$"
              + "|Add(Archives|Files|Jars)Command"
              // views, functions and namespaces, which no transaction contains
              + "|(Create|Alter)View\\w*|AlterViewSchemaBinding\\w*"
              + "|CreateTempViewUsing|DropTempViewCommand"
              + "|(Create|CreateSQL|CreateUserDefined|Drop)FunctionCommand"
              + "|(Create|Alter)Database\\w*|UnsetNamespaceProperties\\w*)");

  private SparkCommands() {}

  static boolean isWrite(LogicalPlan command) {
    if (command instanceof DropDatabaseCommand drop) {
      return drop.cascade();
    }
    boolean free =
        command instanceof LeafCommand
            || isOfView(command)
            || HARMLESS.matcher(command.getClass().getName()).matches();
    return !free;
  }

  private static boolean isOfView(LogicalPlan command) {
    return command instanceof DropTableCommand drop && drop.isView()
        || command instanceof AlterTableRenameCommand rename && rename.isView()
        || command instanceof AlterTableSetPropertiesCommand set && set.isView()
        || command instanceof AlterTableUnsetPropertiesCommand unset && unset.isView();
  }
}
