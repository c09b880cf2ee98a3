package io.txns.iceberg.table;

import java.util.Optional;
import org.apache.iceberg.TableMetadata;

/**
 * A data table as of a timestamp.
 *
 * @param metadata in memory only
 * @param readTs in ms
 * @param stranger who wrote the table outside the protocol, and is not seen here
 */
public record TableView(TableMetadata metadata, long readTs, Optional<Stranger> stranger) {
  /** Whether the table has been dropped: our readers do not see it. */
  public boolean dropped() {
    return TableMark.isDropped(metadata.currentSnapshot());
  }
}
