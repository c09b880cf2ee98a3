package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import java.util.List;
import java.util.function.BiConsumer;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.StructType;

/** A statement that writes and returns no rows. What it writes to, its plan tells when it runs. */
final class TxnRowlessCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private final LogicalPlan plan;
  private final transient TransactionCatalog catalog;
  private final transient List<List<String>> targets;
  private final transient List<List<String>> replaced;

  private TxnRowlessCommand(
      LogicalPlan plan,
      TransactionCatalog catalog,
      List<List<String>> targets,
      List<List<String>> replaced) {
    super(new StructType());
    this.plan = plan;
    this.catalog = catalog;
    this.targets = targets;
    this.replaced = replaced;
  }

  /**
   * A statement inside an explicit transaction: a failure, also one of its analysis, aborts it.
   *
   * @param catalog the catalog of the table that it changes; null when it is not ours or not known
   */
  static TxnRowlessCommand inside(LogicalPlan plan, TransactionCatalog catalog) {
    return new TxnRowlessCommand(plan, catalog, List.of(), List.of());
  }

  /**
   * {@code FROM ... INSERT INTO ... INSERT INTO ...}: part of the current transaction; outside of
   * one each of its inserts commits on its own.
   *
   * @param targets the names of the tables that it writes, as far as the text has them
   * @param replaced those of which it replaces rows
   */
  static TxnRowlessCommand multiInsert(
      LogicalPlan plan, List<List<String>> targets, List<List<String>> replaced) {
    return new TxnRowlessCommand(plan, null, targets, replaced);
  }

  @Override
  protected List<Row> rows(SparkSession session) throws Exception {
    SessionWrites writes = new SessionWrites(TxnSession.of(session));
    if (writes.areAlone()) {
      tell(session, replaced, TransactionCatalog::willReplace);
    }
    return writes.run(
        session,
        catalog,
        () -> List.<Row>of(),
        () -> {
          tell(session, targets, TransactionCatalog::willWrite);
          Dataset.ofRows(session, plan);
          return List.of();
        });
  }

  private static void tell(
      SparkSession session,
      List<List<String>> names,
      BiConsumer<TransactionCatalog, Identifier> what) {
    for (List<String> name : names) {
      TransactionCatalog catalog = Catalogs.ofName(session, name);
      if (catalog != null) {
        what.accept(catalog, Catalogs.identifier(session, name, catalog));
      }
    }
  }

  @Override
  protected Object argument() {
    return plan;
  }
}
