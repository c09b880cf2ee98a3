package io.txns.spark;

import io.txns.spark.compat.IcebergSessionCatalog;
import io.txns.spark.procedure.Procedures;
import io.txns.spark.session.TransactionCatalog;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.ViewCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Iceberg's catalog for {@code spark_catalog}, with transactions over its Iceberg tables. Tables of
 * other formats are Spark's, as before.
 */
public final class TxnSparkSessionCatalog<
        T extends TableCatalog & FunctionCatalog & SupportsNamespaces & ViewCatalog>
    extends IcebergSessionCatalog<T> implements TransactionCatalog.Around {

  private TxnSparkCatalog tables;

  @Override
  protected TableCatalog buildSparkCatalog(String name, CaseInsensitiveStringMap options) {
    tables = new TxnSparkCatalog();
    tables.initialize(name, options);
    return tables;
  }

  @Override
  public TxnSparkCatalog tables() {
    return tables;
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    try {
      return tables.loadTable(ident);
    } catch (NoSuchTableException e) {
      refuseDropped(ident);
      return super.loadTable(ident);
    }
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    try {
      return tables.loadTable(ident, version);
    } catch (NoSuchTableException e) {
      refuseDropped(ident);
      return super.loadTable(ident, version);
    }
  }

  @Override
  public Table loadTable(Identifier ident, long timestamp) throws NoSuchTableException {
    try {
      return tables.loadTable(ident, timestamp);
    } catch (NoSuchTableException e) {
      refuseDropped(ident);
      return super.loadTable(ident, timestamp);
    }
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges)
      throws NoSuchTableException {
    if (tables.tableExists(ident)) {
      return tables.loadTable(ident, privileges);
    }
    refuseDropped(ident);
    return super.loadTable(ident, privileges);
  }

  /** The metastore underneath still has the table that the log has dropped. */
  private void refuseDropped(Identifier ident) throws NoSuchTableException {
    if (tables.isDropped(ident)) {
      throw new NoSuchTableException(ident);
    }
  }

  @Override
  public boolean tableExists(Identifier ident) {
    return tables.tableExists(ident) || !tables.isDropped(ident) && super.tableExists(ident);
  }

  @Override
  public boolean dropTable(Identifier ident) {
    return tables.tableExists(ident)
        ? tables.dropTable(ident)
        : !tables.isDropped(ident) && super.dropTable(ident);
  }

  @Override
  public boolean purgeTable(Identifier ident) {
    return tables.tableExists(ident)
        ? tables.purgeTable(ident)
        : !tables.isDropped(ident) && super.purgeTable(ident);
  }

  /** Spark's own tables, and Iceberg's as the transaction sees them. */
  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    Set<Identifier> all = new LinkedHashSet<>(Arrays.asList(super.listTables(namespace)));
    if (tables.namespaceExists(namespace)) {
      all.removeAll(tables.listDropped(namespace));
      all.addAll(Arrays.asList(tables.listTables(namespace)));
    }
    return all.toArray(new Identifier[0]);
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    UnboundProcedure own = tables.ownProcedure(ident);
    return own == null ? super.loadProcedure(ident) : own;
  }

  @Override
  protected List<String> ownProcedures(String[] namespace) {
    return Procedures.in(namespace);
  }
}
