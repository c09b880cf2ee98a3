package io.txns.iceberg.catalog;

import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Data tables with the newest head, which is loaded before them. Throws what they do. */
public record NewestTables(CommitLog log, DataTables tables, Applier applier) {

  /** A table; as the catalog has it while transactions are off. */
  public Loaded load(TableIdentifier table) {
    return load(table, log.loadIfExists());
  }

  /** The same, for who has loaded the newest head. */
  Loaded load(TableIdentifier table, Head head) {
    return tables.loadPlain(table, head).orElseGet(() -> loadLogged(table, head));
  }

  /** A table as the log has it, whether transactions are off or not. */
  Loaded loadLogged(TableIdentifier table) {
    return loadLogged(table, log.loadIfExists());
  }

  private Loaded loadLogged(TableIdentifier table, Head head) {
    Loaded loaded = tables.load(table, head, head.upper());
    if (loaded instanceof Loaded.Forgotten && applier.apply(head, table)) {
      return tables.load(table, head, head.upper());
    }
    return loaded;
  }

  /** The same, for a caller that wants to see a dropped table's marker. */
  public Loaded loadWithDropped(TableIdentifier table) {
    Head head = log.loadIfExists();
    return tables.loadWithDropped(table, head, head.upper());
  }

  /** A table as of {@code readTs}, in ms. */
  public Loaded loadAt(TableIdentifier table, long readTs) {
    return tables.load(table, log.loadIfExists(), readTs);
  }

  /**
   * Whether there is a dropped table of this name whose physical one still stands.
   *
   * @param running the transaction that asks, or null
   */
  public boolean hasDropped(TableIdentifier table, Transaction running) {
    if (running != null && running.writeSet().drops(table)) {
      return true;
    }
    try {
      return loadWithDropped(table).dropped();
    } catch (NoSuchTableException e) {
      return false;
    }
  }
}
