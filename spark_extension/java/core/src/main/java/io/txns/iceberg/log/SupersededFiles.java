package io.txns.iceberg.log;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnLogger;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.iceberg.io.FileIO;

/**
 * Removes files that the commit table has superseded, a grace period after their time: metadata
 * files, and what a tidy leaves behind.
 *
 * <p>Iceberg's own delete-after-commit would do it inside the swap, and was measured to make it
 * twice as slow. Files whose committer died stay until {@code txns tidy --files}.
 */
final class SupersededFiles {
  private static final TxnLogger LOG = TxnLogger.of(SupersededFiles.class);
  private static final ExecutorService BACKGROUND =
      Executors.newSingleThreadExecutor(
          task -> {
            Thread thread = new Thread(task, "txns-superseded-files");
            thread.setDaemon(true);
            return thread;
          });

  private record Superseded(FileIO io, String location, long dueMs) {}

  private final TxnClock clock;
  private final Deque<Superseded> queue = new ArrayDeque<>();

  SupersededFiles(TxnClock clock) {
    this.clock = clock;
  }

  /** Note that a file has been superseded, and remove those whose time has come. */
  synchronized void add(FileIO io, String location) {
    long nowMs = clock.nowMs();
    if (location != null) {
      queue.addLast(new Superseded(io, location, nowMs + CommitLog.GRACE_MS));
    }
    while (!queue.isEmpty() && queue.peekFirst().dueMs() <= nowMs) {
      Superseded due = queue.removeFirst();
      BACKGROUND.execute(() -> delete(due));
    }
  }

  private static void delete(Superseded due) {
    try {
      due.io().deleteFile(due.location());
    } catch (RuntimeException e) {
      LOG.debug("a superseded file stays: {}", due.location(), e);
    }
  }
}
