package io.txns.spark.compat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;

/**
 * Iceberg's Spark catalog, in those of its methods that not every version has: Spark 4.0 creates
 * tables by a schema only and lists no procedures; 4.2 has {@code createTableLike}, too.
 */
public abstract class IcebergCatalog extends SparkCatalog {

  /** Runs what changes a table, when that may be. */
  protected abstract <T> T writing(Identifier ident, Callable<T> body);

  /** The names of the catalog's own procedures in a namespace. */
  protected abstract List<String> ownProcedures(String[] namespace);

  // With Iceberg 1.11 these pass on to those that take a StructType, which spark_catalog calls;
  // since 1.12 it is the other way round.

  @Override
  public final Table createTable(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException {
    return writing(ident, () -> super.createTable(ident, info));
  }

  @Override
  public final StagedTable stageCreate(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException {
    return writing(ident, () -> super.stageCreate(ident, info));
  }

  @Override
  public final StagedTable stageReplace(Identifier ident, TableInfo info)
      throws NoSuchTableException {
    return writing(ident, () -> super.stageReplace(ident, info));
  }

  @Override
  public final StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) {
    return writing(ident, () -> super.stageCreateOrReplace(ident, info));
  }

  @Override
  public final Identifier[] listProcedures(String[] namespace) {
    return with(ownProcedures(namespace), namespace, super.listProcedures(namespace));
  }

  static Identifier[] with(List<String> own, String[] namespace, Identifier[] icebergs) {
    List<Identifier> all = new ArrayList<>(Arrays.asList(icebergs));
    own.forEach(name -> all.add(Identifier.of(namespace, name)));
    return all.toArray(new Identifier[0]);
  }
}
