package io.txns.iceberg;

import io.txns.iceberg.meta.DelegatingOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * Real table operations, with a test's own code in place of the commit, or of what it overrides.
 */
public class HookedOperations extends DelegatingOperations {
  private final TableOperations real;
  private final Hook hook;

  public HookedOperations(TableOperations real) {
    this(real, TableOperations::commit);
  }

  public HookedOperations(TableOperations real, Hook hook) {
    this.real = real;
    this.hook = hook;
  }

  /** What is done instead of {@code real.commit(base, next)}, which it may call. */
  public interface Hook {
    void commit(TableOperations real, TableMetadata base, TableMetadata next);
  }

  /** A client of the lake's catalog that has the hook around the swaps of one table. */
  public static JdbcCatalog catalog(Lake lake, TableIdentifier table, Hook hook) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            TableOperations real = super.newTableOps(identifier);
            return identifier.equals(table) ? new HookedOperations(real, hook) : real;
          }
        };
    catalog.initialize("lake", lake.options());
    return catalog;
  }

  /** The protocol over such a catalog, which applies what it commits. */
  public static TxnHandle open(Lake lake, TableIdentifier table, Hook hook, TxnClock clock) {
    return TxnHandle.open("lake", catalog(lake, table, hook), Lake.INLINE, clock);
  }

  @Override
  public TableOperations real() {
    return real;
  }

  @Override
  public TableMetadata current() {
    return real.current();
  }

  @Override
  public TableMetadata refresh() {
    return real.refresh();
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    hook.commit(real, base, metadata);
  }
}
