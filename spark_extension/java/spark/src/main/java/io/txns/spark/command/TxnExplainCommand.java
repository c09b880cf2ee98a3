package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.ExplainCommand;
import scala.jdk.javaapi.CollectionConverters;

/**
 * EXPLAIN of an INSERT, UPDATE, DELETE or MERGE. Spark loads the target as one that is about to be
 * written, and here it is not: nothing is registered, refused or aborted for it.
 */
public final class TxnExplainCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private static final ThreadLocal<TxnExplainCommand> RUNNING = new ThreadLocal<>();

  private final ExplainCommand explain;

  TxnExplainCommand(ExplainCommand explain) {
    super(explain.schema());
    this.explain = explain;
  }

  /** Whether this thread explains a write; Spark analyzes it there. */
  public static boolean isRunning() {
    return RUNNING.get() != null;
  }

  @Override
  protected List<Row> rows(SparkSession session) {
    RUNNING.set(this);
    try {
      return CollectionConverters.asJava(explain.run(session));
    } finally {
      RUNNING.remove();
    }
  }

  @Override
  protected Object argument() {
    return explain;
  }
}
