package io.txns.iceberg.simulation;

import java.sql.SQLNonTransientConnectionException;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.jdbc.UncheckedSQLException;

/** Load, write a metadata file, swap: each a step, with the exceptions of JdbcTableOperations. */
final class SwapTableOperations extends BaseMetastoreTableOperations {
  private final String catalogName;
  private final TableIdentifier table;
  private final FileIO io;

  SwapTableOperations(String catalogName, TableIdentifier table, FileIO io) {
    this.catalogName = catalogName;
    this.table = table;
    this.io = io;
  }

  @Override
  protected String tableName() {
    return catalogName + "." + table;
  }

  @Override
  public FileIO io() {
    return io;
  }

  @Override
  protected void doRefresh() {
    CatalogSteps.Stored stored;
    try {
      stored = CatalogSteps.load(table);
    } catch (StepFailed e) {
      refreshFailed(e);
      return;
    }
    refreshFromMetadataLocation(stored.location(), null, 0, location -> stored.parsed());
  }

  private void refreshFailed(StepFailed e) {
    if (!e.is("NoSuchTable")) {
      throw new UncheckedSQLException(
          new SQLNonTransientConnectionException(e.getMessage()),
          "Failed to get table %s from catalog %s",
          table,
          catalogName);
    }
    if (currentMetadataLocation() != null) {
      throw new NoSuchTableException(
          "Failed to load table %s from catalog %s: dropped by another process",
          table, catalogName);
    }
    disableRefresh();
  }

  @Override
  protected void doCommit(TableMetadata base, TableMetadata metadata) {
    boolean created = base == null;
    String location = writeNewMetadataIfRequired(created, metadata);
    try {
      CatalogSteps.swap(table, created ? null : base.metadataFileLocation(), location);
    } catch (StepFailed e) {
      throw commitFailed(e);
    }
  }

  private RuntimeException commitFailed(StepFailed e) {
    return switch (e.type()) {
      case "CommitFailed", "NoSuchTable" ->
          new CommitFailedException(
              "Failed to update table %s from catalog %s: %s", table, catalogName, e.getMessage());
      case "AlreadyExists" -> new AlreadyExistsException("Table already exists: %s", table);
      case "NoSuchNamespace" ->
          new NoSuchNamespaceException(
              "Cannot create table %s in catalog %s. Namespace %s does not exist",
              table, catalogName, table.namespace());
      default ->
          new UncheckedSQLException(
              new SQLNonTransientConnectionException(e.getMessage()), "Database Connection failed");
    };
  }
}
