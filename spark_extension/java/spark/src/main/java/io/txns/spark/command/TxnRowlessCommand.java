package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;

/** A statement that writes and returns no rows. What it writes to, its plan tells when it runs. */
final class TxnRowlessCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private final LogicalPlan plan;
  private final transient TransactionCatalog catalog;
  private final transient List<List<String>> targets;

  private TxnRowlessCommand(
      LogicalPlan plan, TransactionCatalog catalog, List<List<String>> targets) {
    super(new StructType());
    this.plan = plan;
    this.catalog = catalog;
    this.targets = targets;
  }

  /**
   * A statement inside an explicit transaction: a failure, also one of its analysis, aborts it.
   *
   * @param catalog the catalog of the table that it changes; null when it is not ours or not known
   */
  static TxnRowlessCommand inside(LogicalPlan plan, TransactionCatalog catalog) {
    return new TxnRowlessCommand(plan, catalog, List.of());
  }

  /**
   * {@code FROM ... INSERT INTO ... INSERT INTO ...}: part of the current transaction; outside of
   * one each of its inserts commits on its own.
   *
   * @param targets the names of the tables that it writes, as far as the text has them
   */
  static TxnRowlessCommand multiInsert(LogicalPlan plan, List<List<String>> targets) {
    return new TxnRowlessCommand(plan, null, targets);
  }

  @Override
  protected List<Row> rows(SparkSession session) throws Exception {
    return new SessionWrites(TxnSession.of(session))
        .run(
            session,
            catalog,
            () -> List.<Row>of(),
            () -> {
              targets.forEach(target -> willWrite(session, target));
              Dataset.ofRows(session, plan);
              return List.of();
            });
  }

  private static void willWrite(SparkSession session, List<String> target) {
    TransactionCatalog catalog = Catalogs.ofName(session, target);
    if (catalog != null) {
      catalog.willWrite(Catalogs.identifier(session, target, catalog));
    }
  }

  @Override
  protected Object argument() {
    return plan;
  }
}
