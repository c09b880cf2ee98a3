package io.txns.iceberg.meta;

import java.util.function.Function;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;

/**
 * A catalog's table, whose metadata is not read again where this process has read or written it:
 * the row says which file it is, and files never change. What is committed by itself, the catalog
 * commits. One thread's.
 */
final class KnownOperations extends StoredOperations {
  /** As often as Iceberg does. */
  private static final int RETRIES = 20;

  private final Catalog catalog;
  private final Function<TableIdentifier, String> locations;

  /**
   * @param io how the catalog reaches all of its files
   * @param locations asks for the file that a table's row names; gives null where there is none
   */
  KnownOperations(
      Catalog catalog,
      TableIdentifier table,
      FileIO io,
      KnownMetadata known,
      Function<TableIdentifier, String> locations) {
    super(table, io, known);
    this.catalog = catalog;
    this.locations = locations;
  }

  @Override
  protected void doRefresh() {
    String location = locations.apply(table);
    if (location != null) {
      read(location, RETRIES);
    } else if (currentMetadataLocation() != null) {
      throw new NoSuchTableException("Table does not exist any more: %s", table);
    } else {
      disableRefresh();
    }
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    TableOperations own = ((HasTableOperations) catalog.loadTable(table)).operations();
    if (base != current() || !isSameVersion(base, own.current())) {
      throw new CommitFailedException("Cannot commit: stale table metadata");
    }
    own.commit(own.current(), metadata);
    requestRefresh();
  }

  private static boolean isSameVersion(TableMetadata one, TableMetadata other) {
    return one.metadataFileLocation().equals(other.metadataFileLocation());
  }
}
