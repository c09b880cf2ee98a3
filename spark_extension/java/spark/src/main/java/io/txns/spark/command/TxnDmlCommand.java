package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.SessionWrites;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.session.WriteTarget;
import io.txns.spark.sql.ParsedDml;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * An INSERT, UPDATE, DELETE or MERGE into a catalog of ours: runs the plan inside the current
 * transaction, or as one of its own, and returns how many rows it changed.
 */
final class TxnDmlCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private static final StructType COUNT =
      new StructType().add("num_affected_rows", DataTypes.LongType);
  private static final StructType MERGE_COUNTS =
      COUNT
          .add("num_updated_rows", DataTypes.LongType)
          .add("num_deleted_rows", DataTypes.LongType)
          .add("num_inserted_rows", DataTypes.LongType);

  private final LogicalPlan plan;
  private final transient ParsedDml dml;
  private final transient TransactionCatalog catalog;

  TxnDmlCommand(LogicalPlan plan, ParsedDml dml, TransactionCatalog catalog) {
    super(dml.kind() == ParsedDml.Kind.MERGE ? MERGE_COUNTS : COUNT);
    this.plan = plan;
    this.dml = dml;
    this.catalog = catalog;
  }

  @Override
  protected List<Row> rows(SparkSession session) throws Exception {
    SessionWrites writes = new SessionWrites(TxnSession.of(session));
    if (dml.replaces() && writes.areAlone()) {
      catalog.willReplace(Catalogs.identifier(session, dml.target(), catalog));
    }
    RowCounts counts =
        writes.runTo(
            WriteTarget.table(catalog, String.join(".", dml.target())),
            session,
            () -> RowCounts.NONE,
            () -> {
              catalog.willWrite(Catalogs.identifier(session, dml.target(), catalog));
              return new CountedDml(session, catalog, dml).run(plan);
            });
    return List.of(counts.toRow(dml.kind()));
  }

  @Override
  protected Object argument() {
    return plan;
  }
}
