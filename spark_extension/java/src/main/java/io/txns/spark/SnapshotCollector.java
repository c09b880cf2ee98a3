package io.txns.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listeners;

/**
 * Collects the summaries of the snapshots that a piece of code makes. Iceberg notifies on the
 * thread that commits, which is the one that runs the statement.
 */
final class SnapshotCollector {

  /**
   * @param commitTable name of a table that does not count: its archive may grow on the way
   */
  private record Collection(String commitTable, List<Map<String, String>> summaries) {
    void add(CreateSnapshotEvent event) {
      String table = event.tableName();
      if (!table.equals(commitTable) && !table.endsWith("." + commitTable)) {
        summaries.add(event.summary());
      }
    }
  }

  private static final ThreadLocal<Collection> CURRENT = new ThreadLocal<>();

  static {
    Listeners.register(SnapshotCollector::created, CreateSnapshotEvent.class);
  }

  private SnapshotCollector() {}

  private static void created(CreateSnapshotEvent event) {
    Collection current = CURRENT.get();
    if (current != null) {
      current.add(event);
    }
  }

  /** Runs {@code body} and returns the summaries of its snapshots of data tables. */
  static List<Map<String, String>> collect(TableIdentifier commitTable, Callable<?> body)
      throws Exception {
    Collection outer = CURRENT.get();
    Collection mine = new Collection(commitTable.toString(), new ArrayList<>());
    CURRENT.set(mine);
    try {
      body.call();
      return mine.summaries();
    } finally {
      if (outer == null) {
        CURRENT.remove();
      } else {
        CURRENT.set(outer);
      }
    }
  }
}
