package io.txns.spark.compat;

import java.util.List;
import org.apache.iceberg.spark.SparkSessionCatalog;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.ViewCatalog;

/** Iceberg's catalog for {@code spark_catalog}: with Spark 4.0 it lists no procedures. */
public abstract class IcebergSessionCatalog<
        T extends TableCatalog & FunctionCatalog & SupportsNamespaces & ViewCatalog>
    extends SparkSessionCatalog<T> {

  /** The names of the catalog's own procedures in a namespace. */
  protected abstract List<String> ownProcedures(String[] namespace);

  @Override
  public final Identifier[] listProcedures(String[] namespace) {
    return IcebergCatalog.with(
        ownProcedures(namespace), namespace, super.listProcedures(namespace));
  }
}
