package io.txns.iceberg.catalog;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.table.Loaded;
import java.util.List;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * RENAME: the table leaves the log under one name and comes back under the other, so that a
 * transaction that has it open finds a conflict and never commits to a name that is gone.
 */
public record TableRename(Services services) {

  /**
   * Rename at once. Where the catalog does not, the table comes back under care; a process that
   * dies in the middle leaves it to be registered again.
   *
   * @throws TxnException 55000 where it is not under care now, with the command that registers it,
   *     and where what the log has of it cannot be applied
   */
  public void rename(TableIdentifier from, TableIdentifier to) {
    services.checks().refuseCommitTable(from);
    services.checks().refuseCommitTable(to);
    services.checks().refuseWithoutNamespace(to);
    String uuid = uuidUnderCare(from);
    services.checks().refuseLogged(to); // before the table is taken from care for it
    if (uuid == null) {
      services.delegate().renameTable(from, to);
      return;
    }
    services.registrar().forget(from);
    try {
      if (!services.applier().apply(from)) {
        // Under its new name nobody would look for what is still to be applied.
        throw TxnException.notApplied(from, "renamed");
      }
      services.delegate().renameTable(from, to);
    } catch (RuntimeException e) {
      // The answer may have been lost: it is under care where it stands now.
      registerAgain(uuid, List.of(from, to), e);
      throw e;
    }
    registerAgain(uuid, List.of(to, from), null);
  }

  /**
   * Register a table that was to be renamed under that of two names which it has, by its uuid:
   * somebody else's table may stand under either. Where that fails, say where things stand; a table
   * that has neither name was dropped, or renamed once more.
   */
  private void registerAgain(String uuid, List<TableIdentifier> names, RuntimeException error) {
    for (TableIdentifier name : names) {
      try {
        services.registrar().register(name, uuid);
        return;
      } catch (NoSuchTableException e) {
        continue; // it may have the other name
      } catch (RuntimeException e) {
        TxnException left = notUnderCare(uuid, names, error, e);
        left.addSuppressed(error == null ? e : error);
        throw left;
      }
    }
  }

  private TxnException notUnderCare(
      String uuid, List<TableIdentifier> names, RuntimeException error, RuntimeException failure) {
    String first =
        error == null
            ? "the table was renamed, but"
            : "the rename failed (" + error.getMessage() + "), and the table";
    return TxnException.invalidUsage(
        "55000",
        String.format(
            "%s could not be put under care again (%s): CALL %s.system.register('%s') does, or the"
                + " same with '%s' where it has that name; table=`%s` uuid=`%s`",
            first,
            failure.getMessage(),
            services.catalogName(),
            names.get(0),
            names.get(1),
            names.get(0),
            uuid));
  }

  /**
   * The uuid of a table that is under care, else null; a commit table is refused.
   *
   * @throws NoSuchTableException also where the catalog has one that the log has dropped
   * @throws TxnException 55000 where the log has taken it from care, and that cannot be applied
   */
  private String uuidUnderCare(TableIdentifier table) {
    Loaded loaded = TableLoading.toWrite(services, table);
    services.checks().refuseCommitTable(loaded);
    if (loaded instanceof Loaded.Forgotten) { // by a rename that died, perhaps
      throw TxnException.notApplied(table, "renamed");
    }
    return loaded.registered() ? TableNames.uuid(loaded.metadata()) : null;
  }
}
