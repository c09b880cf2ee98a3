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
   * Rename at once. Where the catalog does not, the table comes back under care; a process that
   * dies in the middle leaves it to be registered again.
   *
   * @throws TxnException 55000 where it is not under care now, with the command that registers it
   */
  void rename(TableIdentifier from, TableIdentifier to) {
    handle.refuseCommitTable(from);
    handle.refuseCommitTable(to);
    if (!isRegistered(from)) {
      handle.delegate().renameTable(from, to);
      return;
    }
    handle.forget(from);
    try {
      if (handle.apply(from) > 0) {
        throw TxnException.quarantined(from, "entries of the table are not applied");
      }
      handle.delegate().renameTable(from, to);
    } catch (RuntimeException e) {
      // The answer may have been lost: it is under care where it stands now.
      registerAgain(handle.delegate().tableExists(from) ? from : to, e);
      throw e;
    }
    registerAgain(to, null);
  }

  /** Register a table that was to be renamed; where that fails, say where things stand. */
  private void registerAgain(TableIdentifier table, RuntimeException error) {
    try {
      handle.register(table);
    } catch (RuntimeException e) {
      TxnException left =
          TxnException.invalidUsage(
              "55000",
              String.format(
                  "%s could not be put under care again (%s): CALL %s.system.register('%s') does;"
                      + " table=`%s`",
                  error == null
                      ? "the table was renamed, but"
                      : "the rename failed (" + error.getMessage() + "), and the table",
                  e.getMessage(),
                  handle.catalogName(),
                  table,
                  table));
      left.addSuppressed(error == null ? e : error);
      throw left;
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
