package io.txns.iceberg.fuzz;

import java.util.List;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.FileIO;

/** A catalog that has one table, of given metadata. */
public record OneTableCatalog(TableMetadata metadata, FileIO io) implements Catalog {
  @Override
  public Table loadTable(TableIdentifier identifier) {
    return new BaseTable(new StaticTableOperations(metadata, io), identifier.name());
  }

  @Override
  public List<TableIdentifier> listTables(Namespace namespace) {
    return List.of();
  }

  @Override
  public boolean dropTable(TableIdentifier identifier, boolean purge) {
    throw new UnsupportedOperationException("nothing is dropped");
  }

  @Override
  public void renameTable(TableIdentifier from, TableIdentifier to) {
    throw new UnsupportedOperationException("nothing is renamed");
  }
}
