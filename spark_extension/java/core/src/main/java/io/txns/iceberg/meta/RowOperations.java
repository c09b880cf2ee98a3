package io.txns.iceberg.meta;

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
final class RowOperations extends StoredOperations {
  /** More would keep others waiting for the row. */
  private static final int RETRIES = 2;

  private final String location;
  private Said said = Said.NOTHING;

  /**
   * What is to become of the table.
   *
   * @param metadata null for nothing
   * @param ready that where it is written already; else null
   */
  record Said(TableMetadata metadata, Ready ready) {
    private static final Said NOTHING = new Said(null, null);
  }

  /**
   * @param location the file that the row names; null where there is no row
   */
  RowOperations(TableIdentifier table, FileIO io, String location, KnownMetadata known) {
    super(table, io, known);
    this.location = location;
  }

  /** What the row names; null where there is none. */
  String location() {
    return location;
  }

  Said said() {
    return said;
  }

  boolean isSaid() {
    return said.metadata() != null;
  }

  /** Go back to what was said before. */
  void say(Said before) {
    said = before;
  }

  /**
   * Let the table become what was made ready of it, if its row still fits, and nothing was said.
   */
  boolean take(Ready ready) {
    if (isSaid() || !ready.from().equals(location)) {
      return false;
    }
    said = new Said(ready.said(), ready);
    return true;
  }

  /** The table as its row has it; null where there is none. */
  TableMetadata stored() {
    return super.current();
  }

  @Override
  public TableMetadata current() {
    if (!isSaid()) {
      return super.current();
    }
    TableMetadata metadata = said.metadata();
    if (!metadata.changes().isEmpty()) {
      // What follows is a change of its own, in the table's history, too.
      metadata = TableMetadataParser.fromJson(null, TableMetadataParser.toJson(metadata));
      said = new Said(metadata, said.ready());
    }
    return metadata;
  }

  @Override
  public TableMetadata refresh() {
    return isSaid() ? current() : super.refresh();
  }

  @Override
  protected void doRefresh() {
    if (location == null) {
      disableRefresh();
    } else {
      read(location, RETRIES);
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
    said = new Said(metadata, null);
  }

  /** Write the file of what was said, as Iceberg's operations do; gives where it is. */
  String write() {
    stored(); // whose number the new one follows
    return writeNewMetadata(said.metadata(), currentVersion() + 1);
  }

  /** What was said, in a file that somebody may take. */
  Ready ready(String file, Object change) {
    return new Ready(table, location, said.metadata(), file, change, io());
  }

  /** What was said, as it is in a file. */
  TableMetadata made(String file) {
    return TableMetadata.buildFrom(said.metadata())
        .discardChanges()
        .withMetadataLocation(file)
        .build();
  }
}
