package io.txns.spark.compat;

import io.txns.spark.TxnSqlException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.command.LeafRunnableCommand;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import scala.Enumeration;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A command without children, written in Java: the plumbing that Scala's compiler adds to a case
 * class. Spark runs it once, eagerly, when the statement is sent.
 */
public abstract class LeafCommand extends LogicalPlan implements LeafRunnableCommand {
  private static final long serialVersionUID = 1L;

  private final Seq<Attribute> output;
  private transient Seq<Enumeration.Value> nodePatterns;
  private final Map<String, SQLMetric> metrics = Map$.MODULE$.empty();

  public LeafCommand(StructType schema) {
    this.output = attributes(schema);
    Command.$init$(this);
  }

  private static Seq<Attribute> attributes(StructType schema) {
    List<Attribute> attributes =
        List.copyOf(CollectionConverters.asJava(DataTypeUtils.toAttributes(schema)));
    return CollectionConverters.asScala(attributes).toSeq();
  }

  /** What the command shows of itself in a plan. */
  protected abstract Object argument();

  protected abstract List<Row> rows(org.apache.spark.sql.classic.SparkSession session)
      throws Exception;

  @Override
  public final Seq<Row> run(SparkSession session) {
    List<Row> rows =
        TxnSqlException.translating(
            () -> rows((org.apache.spark.sql.classic.SparkSession) session));
    return CollectionConverters.asScala(rows).toSeq();
  }

  /** Runs it while Spark analyzes the statement, as Spark does a CALL: what it leaves. */
  public final LogicalPlan runInAnalysis(SparkSession session) {
    Function1<Object, Object> internal =
        CatalystTypeConverters.createToCatalystConverter(DataTypeUtils.fromAttributes(output));
    List<InternalRow> rows = new ArrayList<>();
    run(session).foreach(row -> rows.add((InternalRow) internal.apply(row)));
    Seq<InternalRow> found = CollectionConverters.asScala(rows).toSeq();
    return new CommandResult(
        output, this, new LocalTableScanExec(output, found, Option.empty()), found);
  }

  @Override
  public final Seq<Attribute> output() {
    return output;
  }

  @Override
  public final Map<String, SQLMetric> metrics() {
    return metrics;
  }

  @Override
  public final Seq<Enumeration.Value> nodePatterns() {
    return nodePatterns;
  }

  @Override
  public final void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(
      Seq<Enumeration.Value> patterns) {
    this.nodePatterns = patterns;
  }

  @Override
  public final Seq<LogicalPlan> children() {
    return CollectionConverters.asScala(List.<LogicalPlan>of()).toSeq();
  }

  @Override
  public final LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
    return this;
  }

  /** Nothing in a command is for rules to rewrite, so a copy is the same command. */
  @Override
  public final LogicalPlan clone() {
    return this;
  }

  @Override
  public final int productArity() {
    return 1;
  }

  @Override
  public final Object productElement(int n) {
    return argument();
  }

  @Override
  public final boolean canEqual(Object that) {
    return that != null && that.getClass() == getClass();
  }

  // The same statement twice is two commands.

  @Override
  public final boolean equals(Object that) {
    return this == that;
  }

  @Override
  public final int hashCode() {
    return System.identityHashCode(this);
  }
}
