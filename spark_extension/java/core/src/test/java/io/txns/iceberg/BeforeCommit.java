package io.txns.iceberg;

import java.util.List;
import org.apache.iceberg.BaseMetastoreCatalog;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ForbiddenException;

/** A catalog, of any kind, in which something happens before each commit of one table. */
public final class BeforeCommit extends BaseMetastoreCatalog {
  private final Catalog real;
  private final TableIdentifier table;
  private final Runnable deed;

  /**
   * @param deed what it throws is thrown in place of the commit
   */
  public BeforeCommit(Catalog real, TableIdentifier table, Runnable deed) {
    this.real = real;
    this.table = table;
    this.deed = deed;
  }

  /** A catalog in which one table may be read and not written. */
  public static BeforeCommit forbidding(Catalog real, TableIdentifier table) {
    return new BeforeCommit(
        real,
        table,
        () -> {
          throw new ForbiddenException("not allowed to write %s", table);
        });
  }

  @Override
  public Table loadTable(TableIdentifier identifier) {
    Table loaded = real.loadTable(identifier);
    if (!identifier.equals(table)) {
      return loaded;
    }
    TableOperations operations = ((BaseTable) loaded).operations();
    HookedOperations hooked =
        new HookedOperations(
            operations,
            (ops, base, next) -> {
              deed.run();
              ops.commit(base, next);
            });
    return new BaseTable(hooked, loaded.name());
  }

  @Override
  protected TableOperations newTableOps(TableIdentifier identifier) {
    return ((BaseTable) loadTable(identifier)).operations();
  }

  @Override
  protected String defaultWarehouseLocation(TableIdentifier identifier) {
    throw new IllegalStateException("nothing is created here");
  }

  @Override
  public List<TableIdentifier> listTables(Namespace namespace) {
    return real.listTables(namespace);
  }

  @Override
  public boolean dropTable(TableIdentifier identifier, boolean purge) {
    return real.dropTable(identifier, purge);
  }

  @Override
  public void renameTable(TableIdentifier from, TableIdentifier to) {
    real.renameTable(from, to);
  }
}
