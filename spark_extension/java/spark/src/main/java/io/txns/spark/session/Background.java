package io.txns.spark.session;

import io.txns.iceberg.LogFields;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Threads of what nobody waits for: each task may take its time while others run beside it. */
final class Background {

  /** Undoes transactions which nobody ends: waits for statements, deletes files. */
  static final Background UNDOING = new Background("txns-undo");

  /** Looks after writes that run: may wait for the catalog. */
  static final Background WATCHING = new Background("txns-watch");

  private static final int THREADS = 8;
  private static final long KEPT_S = 10;

  private final ThreadPoolExecutor pool;

  private Background(String name) {
    pool =
        new ThreadPoolExecutor(
            THREADS,
            THREADS,
            KEPT_S,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            task -> {
              Thread thread = new Thread(task, name);
              thread.setDaemon(true);
              return thread;
            });
    pool.allowCoreThreadTimeOut(true);
  }

  /** Runs soon, and does not hold up the thread that asks for it. */
  void soon(Runnable task) {
    pool.execute(() -> LogFields.NONE.alone(task));
  }

  /**
   * Runs after {@code delayMs} ms; until then it takes no thread.
   *
   * @return calls it off where it has not begun: then nothing is left of it
   */
  Runnable later(long delayMs, Runnable task) {
    CompletableFuture<Boolean> due =
        new CompletableFuture<Boolean>().completeOnTimeout(true, delayMs, TimeUnit.MILLISECONDS);
    due.thenAccept(
        isDue -> {
          if (isDue) {
            soon(task);
          }
        });
    return () -> due.complete(false); // a cancelled one would keep its timer
  }
}
