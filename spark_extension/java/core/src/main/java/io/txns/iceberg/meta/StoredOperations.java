package io.txns.iceberg.meta;

import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.FileIO;

/** Operations of one table whose metadata files are read once in a process. One thread's. */
abstract class StoredOperations extends BaseMetastoreTableOperations {
  protected final TableIdentifier table;
  private final FileIO io;
  private final KnownMetadata known;

  StoredOperations(TableIdentifier table, FileIO io, KnownMetadata known) {
    this.table = table;
    this.io = io;
    this.known = known;
  }

  @Override
  protected final String tableName() {
    return table.toString();
  }

  @Override
  public final FileIO io() {
    return io;
  }

  /** Go to what a file says, unless it is the one that was read last. */
  protected final void read(String location, int retries) {
    refreshFromMetadataLocation(location, null, retries, file -> known.read(io, file));
  }
}
