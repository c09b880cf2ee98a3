package io.txns.spark.session;

import io.txns.iceberg.LogFields;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The threads that undo transactions which nobody ends: each may wait for a statement of its
 * session, or delete many files, while others are undone beside it.
 */
final class Undoing {

  private static final int THREADS = 8;
  private static final long KEPT_S = 10;

  private static final ThreadPoolExecutor POOL =
      new ThreadPoolExecutor(
          THREADS,
          THREADS,
          KEPT_S,
          TimeUnit.SECONDS,
          new LinkedBlockingQueue<>(),
          task -> {
            Thread thread = new Thread(task, "txns-undo");
            thread.setDaemon(true);
            return thread;
          });

  static {
    POOL.allowCoreThreadTimeOut(true);
  }

  private Undoing() {}

  /** Runs soon, and does not hold up the thread that asks for it. */
  static void soon(Runnable task) {
    POOL.execute(() -> LogFields.NONE.alone(task));
  }

  /** Runs after {@code delayMs} ms; until then it takes no thread. */
  static void later(long delayMs, Runnable task) {
    CompletableFuture.delayedExecutor(delayMs, TimeUnit.MILLISECONDS, POOL)
        .execute(() -> LogFields.NONE.alone(task));
  }
}
