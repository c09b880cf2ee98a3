package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
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
    int last = work.size() - 1;
    work.stream()
        .limit(Math.max(last, 0))
        .forEach(one -> running.add(CompletableFuture.runAsync(one, ThreadPools.getWorkerPool())));
    work.stream().skip(Math.max(last, 0)).forEach(one -> running.add(here(one)));
    try {
      CompletableFuture.allOf(running.toArray(CompletableFuture[]::new)).join();
    } catch (CompletionException e) {
      if (e.getCause() instanceof Error error) {
        throw error;
      }
      throw e.getCause() instanceof RuntimeException failure ? failure : e;
    }
  }

  private static CompletableFuture<Void> here(Runnable work) {
    return CompletableFuture.runAsync(work, Runnable::run);
  }
}
