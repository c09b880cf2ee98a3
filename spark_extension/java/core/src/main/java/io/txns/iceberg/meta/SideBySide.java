package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import org.apache.iceberg.util.ThreadPools;

/** Files that are written at once, by the threads with which Iceberg writes manifests. */
final class SideBySide {
  private SideBySide() {}

  /**
   * Run some work, the last of it in this thread.
   *
   * @throws RuntimeException the first failure; all of it has ended then
   */
  static void run(List<Runnable> work) {
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (int number = 0; number < work.size(); number++) {
      boolean isLast = number == work.size() - 1;
      Executor threads = isLast ? Runnable::run : ThreadPools.getWorkerPool();
      running.add(CompletableFuture.runAsync(work.get(number), threads));
    }
    try {
      CompletableFuture.allOf(running.toArray(CompletableFuture[]::new)).join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof Error error) {
        throw error;
      }
      throw e.getCause() instanceof RuntimeException failure ? failure : e;
    }
  }
}
