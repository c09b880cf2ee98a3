package io.txns.iceberg.meta;

import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.FileIO;

/**
 * Operations of one table whose row is locked: what is committed through them is kept, and shown by
 * them alone. One thread's.
 */
final class RowOperations extends BaseMetastoreTableOperations {
  /** More would keep others waiting for the row. */
  private static final int RETRIES = 2;

  private final TableIdentifier table;
  private final FileIO io;
  private final String location;
  private final KnownMetadata known;
  private TableMetadata said;

  /**
   * @param location the file that the row names; null where there is no row
   */
  RowOperations(TableIdentifier table, FileIO io, String location, KnownMetadata known) {
    this.table = table;
    this.io = io;
    this.location = location;
    this.known = known;
  }

  @Override
  protected String tableName() {
    return table.toString();
  }

  @Override
  public FileIO io() {
    return io;
  }

  /** What the row names; null where there is none. */
  String location() {
    return location;
  }

  /** What is to become of the table; null for nothing. */
  TableMetadata said() {
    return said;
  }

  /** Go back to what was said before. */
  void say(TableMetadata metadata) {
    said = metadata;
  }

  /** The table as its row has it; null where there is none. */
  TableMetadata stored() {
    return super.current();
  }

  @Override
  public TableMetadata current() {
    if (said == null) {
      return super.current();
    }
    if (!said.changes().isEmpty()) {
      // What follows is a change of its own, in the table's history, too.
      said = TableMetadataParser.fromJson(null, TableMetadataParser.toJson(said));
    }
    return said;
  }

  @Override
  public TableMetadata refresh() {
    return said == null ? super.refresh() : current();
  }

  @Override
  protected void doRefresh() {
    if (location == null) {
      disableRefresh();
    } else {
      refreshFromMetadataLocation(location, null, RETRIES, file -> known.read(io, file));
    }
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    if (base != current()) {
      if (base == null) {
        throw new AlreadyExistsException("Table already exists: %s", table);
      }
      throw new CommitFailedException("Cannot commit: stale table metadata");
    }
    said = metadata;
  }

  /** Write the file of what was said, as Iceberg's operations do; gives where it is. */
  String write() {
    stored(); // whose number the new one follows
    return writeNewMetadata(said, currentVersion() + 1);
  }

  /** What was said, as it is in a file. */
  TableMetadata made(String file) {
    return TableMetadata.buildFrom(said).discardChanges().withMetadataLocation(file).build();
  }
}
