package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.sql.ParsedDml;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
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
  private final transient List<ParsedDml> inserts;

  private TxnRowlessCommand(LogicalPlan plan, TransactionCatalog catalog, List<ParsedDml> inserts) {
    super(new StructType());
    this.plan = plan;
    this.catalog = catalog;
    this.inserts = inserts;
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
   */
  static TxnRowlessCommand multiInsert(LogicalPlan plan, List<ParsedDml> inserts) {
    return new TxnRowlessCommand(plan, null, inserts);
  }

  @Override
  protected List<Row> rows(SparkSession session) throws Exception {
    SessionWrites writes = new SessionWrites(TxnSession.of(session));
    if (writes.areAlone()) {
      tell(session, ParsedDml::replaces, TransactionCatalog::willReplace);
    }
    return writes.run(
        session,
        catalog,
        () -> List.<Row>of(),
        () -> {
          tell(session, insert -> true, TransactionCatalog::willWrite);
          Dataset.ofRows(session, plan);
          return List.of();
        });
  }

  private void tell(
      SparkSession session,
      Predicate<ParsedDml> of,
      BiConsumer<TransactionCatalog, Identifier> what) {
    for (ParsedDml insert : inserts) {
      List<String> name = insert.target();
      TransactionCatalog to =
          name != null && of.test(insert) ? Catalogs.ofName(session, name) : null;
      if (to != null) {
        what.accept(to, Catalogs.identifier(session, name, to));
      }
    }
  }

  @Override
  protected Object argument() {
    return plan;
  }
}
