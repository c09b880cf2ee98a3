package io.txns.iceberg.catalog;

import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.HasRows;
import io.txns.iceberg.meta.JdbcRows;
import io.txns.iceberg.meta.Rows;
import java.io.Closeable;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * The rows of a catalog that are locked by who moves the log, or the log and its tables together.
 */
public final class MovableRows implements Supplier<Optional<Rows>>, Closeable {
  private final Catalog delegate;
  private final Map<String, String> options;
  private final Supplier<TxnConfig> config;
  private Optional<Rows> rows; // null before it is looked for

  /**
   * @param options those that the catalog was made with
   * @throws TxnException as {@link #get}
   */
  MovableRows(Catalog delegate, Map<String, String> options, Supplier<TxnConfig> config) {
    this.delegate = delegate;
    this.options = options;
    this.config = config;
    if (config.get().apply() == TxnConfig.Apply.ATOMIC) {
      get();
    }
  }

  /**
   * The catalog's rows; empty where each table has a swap of its own. They are asked for also by
   * who moves the log alone: who went by the swap would never come beside those who wait in a
   * queue.
   *
   * @throws TxnException Unsupported where several are to be moved, and the catalog cannot
   */
  @Override
  public synchronized Optional<Rows> get() {
    if (rows == null) {
      rows = ofCatalog();
    }
    if (rows.isEmpty() && config.get().apply() == TxnConfig.Apply.ATOMIC) {
      throw TxnException.unsupported(
          "txns.apply=`atomic` needs Iceberg's JDBC catalog, whose tables are rows of one"
              + " PostgreSQL database, or of one file of SQLite: leave it out, or use `inline`");
    }
    return rows;
  }

  /**
   * Load a table that need not be read; empty where the catalog has to. Who has not moved anything
   * yet does not ask for rows: that takes a connection of its own.
   */
  Optional<Table> known(TableIdentifier table) {
    Optional<Rows> found;
    synchronized (this) {
      found = rows == null ? Optional.empty() : rows;
    }
    return found.flatMap(known -> known.load(table));
  }

  private Optional<Rows> ofCatalog() {
    return delegate instanceof HasRows own ? own.rows() : JdbcRows.of(delegate, options);
  }

  /** Close its connections, if any. */
  @Override
  public synchronized void close() {
    if (rows != null) {
      rows.ifPresent(Rows::close);
    }
  }
}
