package io.txns.iceberg.catalog;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.table.Loaded;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Tables as of one head, for all loads of one statement outside a transaction: the log is asked
 * once, and each table once.
 */
public final class ReadMoment {
  /**
   * For how long tables are what they were, in ms: as long as Iceberg's own cache gives them, by
   * default. What a catalog gives to read a table with may run out, and a stranger may take its
   * files away, or put another table in its place.
   */
  private static final long KEPT_MS_MAX = 30_000;

  private final NewestTables newest;
  private final TxnClock clock;
  private final Head head;
  private final Map<TableIdentifier, Loaded> loaded = new HashMap<>();
  private long loadedAtMs;

  private ReadMoment(NewestTables newest, TxnClock clock) {
    this.newest = newest;
    this.clock = clock;
    this.head = newest.log().loadIfExists();
  }

  /** The moment of the newest head. */
  public static ReadMoment now(NewestTables newest, TxnClock clock) {
    return new ReadMoment(newest, clock);
  }

  /**
   * A later moment, of the newest head. Where nothing has been committed since this one, tables
   * under care are for half a minute what they were: what strangers do to them is not seen before
   * it is adopted.
   */
  public synchronized ReadMoment later() {
    ReadMoment later = now(newest, clock);
    boolean isKept = clock.elapsedMs() - loadedAtMs <= KEPT_MS_MAX;
    if (isKept && head.exists() && later.head.exists() && !later.head.isNewer(head)) {
      later.loadedAtMs = loadedAtMs;
      loaded.forEach(
          (name, table) -> {
            if (table instanceof Loaded.Registered) {
              later.loaded.put(name, table);
            }
          });
    }
    return later;
  }

  /** Load a table, the same one every time; throws what {@link NewestTables#load} does. */
  synchronized Loaded load(TableIdentifier table) {
    Loaded known = loaded.get(table);
    if (known == null) {
      known = loadOnce(table);
      loaded.put(table, known);
      loadedAtMs = clock.elapsedMs();
    }
    return known;
  }

  private Loaded loadOnce(TableIdentifier table) {
    try {
      return newest.load(table, head);
    } catch (TxnException e) {
      if (e.kind() != ErrorKind.CONFLICT) {
        throw e;
      }
      return newest.load(table); // it has moved on so far that nobody can tell how it was
    }
  }
}
