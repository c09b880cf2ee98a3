package io.txns.iceberg;

import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * RENAME: the table leaves the log under one name and comes back under the other, so that a
 * transaction that has it open finds a conflict and never commits to a name that is gone.
 */
final class TableRename {
  private final TxnHandle handle;

  TableRename(TxnHandle handle) {
    this.handle = handle;
  }

  /**
   * Rename at once. A process that dies in the middle leaves a table that is to be registered
   * again.
   */
  void rename(TableIdentifier from, TableIdentifier to) {
    handle.refuseCommitTable(from);
    handle.refuseCommitTable(to);
    if (!isRegistered(from)) {
      handle.delegate().renameTable(from, to);
      return;
    }
    handle.forget(from);
    if (handle.apply(from) > 0) {
      throw TxnException.quarantined(from, "entries of the table are not applied");
    }
    TableIdentifier now = from;
    try {
      handle.delegate().renameTable(from, to);
      now = to;
    } finally {
      handle.register(now);
    }
  }

  /** Whether a table is under care; a commit table is refused. */
  private boolean isRegistered(TableIdentifier table) {
    try {
      DataTables.Loaded loaded = handle.loadNewest(table);
      handle.refuseCommitTable(loaded);
      return loaded.registered();
    } catch (NoSuchTableException e) {
      return false; // the catalog says so, in its own words
    }
  }
}
