package io.txns.iceberg.meta;

import java.io.Closeable;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * The rows of a catalog that can move several at once (docs/spec.md 11.3). Threads may share it.
 */
public interface Rows extends Closeable {
  /**
   * Lock the rows of tables, the first one first; what is not committed when they are closed is
   * undone.
   *
   * @throws RowsBusyException others held them for too long, or the connection was lost meanwhile
   */
  LockedRows locked(TableIdentifier first, Collection<TableIdentifier> others);

  /**
   * Tables as they were read, which others may move meanwhile; nobody is asked for them.
   *
   * @param first a table of the catalog, whose files are reached as theirs are
   */
  LockedRows lookedAt(TableIdentifier first, Map<TableIdentifier, TableMetadata> tables);

  /**
   * Load a table; its file is not read again if this process has read or written it.
   *
   * @return empty where there is none of that name, as far as its rows tell: the catalog may know
   *     more
   * @throws RuntimeException as the catalog's own
   */
  default Optional<Table> load(TableIdentifier table) {
    return Optional.empty();
  }

  /** What has been read of a file already, elsewhere: it is not read again under a lock. */
  void known(TableMetadata metadata);

  @Override
  void close();
}
