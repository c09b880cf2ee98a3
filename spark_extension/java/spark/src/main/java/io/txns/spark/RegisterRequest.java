package io.txns.spark;

import io.txns.iceberg.TxnException;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.spark.sql.connector.catalog.TableChange;

/** {@code ALTER TABLE ... SET TBLPROPERTIES ('txns.commit-table' = ...)}, which registers it. */
final class RegisterRequest {
  private static final String COMMIT_TABLE = "txns.commit-table";

  private RegisterRequest() {}

  /**
   * Whether a change asks for it.
   *
   * @param commitTable of the catalog, which cares for its tables with no other
   * @param catalog its name
   * @throws TxnException 0A000 for another commit table
   */
  static boolean is(TableChange change, TableIdentifier commitTable, String catalog) {
    if (!(change instanceof TableChange.SetProperty set) || !set.property().equals(COMMIT_TABLE)) {
      return false;
    }
    if (!set.value().equals(commitTable.toString())) {
      throw TxnException.unsupported(
          String.format(
              "catalog %s cares for its tables with commit table %s, not %s; use a catalog with"
                  + " txns.commit-table=%s",
              catalog, commitTable, set.value(), set.value()));
    }
    return true;
  }
}
