package io.txns.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listeners;

/**
 * Collects the summaries of the snapshots that a piece of code makes. Iceberg notifies on the
 * thread that commits, which is the one that runs the statement.
 */
final class SnapshotCollector {

  private static final ThreadLocal<List<Map<String, String>>> COLLECTED = new ThreadLocal<>();

  static {
    Listeners.register(SnapshotCollector::created, CreateSnapshotEvent.class);
  }

  private SnapshotCollector() {}

  private static void created(CreateSnapshotEvent event) {
    List<Map<String, String>> collected = COLLECTED.get();
    if (collected != null) {
      collected.add(event.summary());
    }
  }

  /** Runs {@code body} and returns the summaries of its snapshots. */
  static List<Map<String, String>> collect(Callable<?> body) throws Exception {
    List<Map<String, String>> outer = COLLECTED.get();
    List<Map<String, String>> summaries = new ArrayList<>();
    COLLECTED.set(summaries);
    try {
      body.call();
      return summaries;
    } finally {
      if (outer == null) {
        COLLECTED.remove();
      } else {
        COLLECTED.set(outer);
      }
    }
  }
}
