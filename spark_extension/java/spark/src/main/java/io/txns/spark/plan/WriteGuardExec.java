package io.txns.spark.plan;

import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.TxnSqlException;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.session.WriteTarget;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/**
 * Runs a planned write under the rules of the session's transaction: the only place that every
 * write passes, sent as SQL, by the DataFrame API or from a script.
 */
final class WriteGuardExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final SparkPlan child;

  WriteGuardExec(SparkPlan child) {
    this.child = child;
  }

  @Override
  public InternalRow[] executeCollect() {
    return guarded(child::executeCollect, () -> new InternalRow[0]);
  }

  /** A multi-insert runs its writes in this way. */
  @Override
  public RDD<InternalRow> doExecute() {
    return guarded(child::execute, () -> emptyRdd());
  }

  private RDD<InternalRow> emptyRdd() {
    return session().sparkContext().emptyRDD(ClassTag.apply(InternalRow.class));
  }

  private <T> T guarded(Callable<T> body, Supplier<T> skipped) {
    return TxnSqlException.translating(
        () -> {
          TxnSession state = TxnSession.of(session());
          Optional<WriteTarget> target = target(child, session());
          if (target.isEmpty()) {
            return body.call();
          }
          if (!state.isExplicit() && !state.isSkipping()) {
            return alone(target.get().catalog(), state, body);
          }
          return new SessionWrites(state)
              .runTo(
                  target.get(),
                  session(),
                  skipped,
                  () -> inTransaction(state, target.get().catalog(), body));
        });
  }

  /** The files that its tasks write are the transaction's own, and what it depends on is noted. */
  private <T> T inTransaction(TxnSession state, TransactionCatalog catalog, Callable<T> body)
      throws Exception {
    Transaction transaction = catalog == null ? null : state.current(catalog);
    if (transaction == null) {
      return body.call();
    }
    ConditionalWrites.target(child.logicalLink().get())
        .ifPresent(table -> table.noteConditionalWrite(transaction));
    return transaction.writes().ofTasks(body);
  }

  /** Outside a transaction: validated where the options say so. */
  private <T> T alone(TransactionCatalog catalog, TxnSession state, Callable<T> body)
      throws Exception {
    LogicalPlan write = child.logicalLink().get();
    if (catalog != null && !state.isInWrite()) {
      WritePlans.replacedByQuery(write).ifPresent(catalog::willReplace);
    }
    boolean validates =
        catalog != null
            && !state.isInWrite()
            && ImplicitTransaction.hasQuery(write)
            && catalog.handle().validatesStatements();
    return validates
        ? new SessionWrites(state)
            .runAlone(catalog, ImplicitTransaction.begin(write, catalog), body)
        : body.call();
  }

  /** What the plan of a command writes to; empty for queries and for commands that do not write. */
  static Optional<WriteTarget> target(SparkPlan plan, SparkSession session) {
    scala.Option<LogicalPlan> logical = plan.logicalLink();
    return logical.isEmpty() ? Optional.empty() : WritePlans.target(logical.get(), session);
  }

  /** The write's own: lineage names jobs by it, and a pipeline that moves here keeps its names. */
  @Override
  public String nodeName() {
    return child.nodeName();
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(java.util.List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new WriteGuardExec(children.head());
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int n) {
    return child;
  }

  @Override
  public boolean canEqual(Object that) {
    return that instanceof WriteGuardExec;
  }

  @Override
  public boolean equals(Object that) {
    return that instanceof WriteGuardExec other && child.equals(other.child);
  }

  @Override
  public int hashCode() {
    return child.hashCode();
  }
}
