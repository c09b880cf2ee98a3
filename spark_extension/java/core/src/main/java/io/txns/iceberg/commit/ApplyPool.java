package io.txns.iceberg.commit;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics.Phase;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Applies tables side by side, for one client of a catalog: each waits for its own calls, and a
 * table that hangs keeps nobody.
 *
 * <p>Threads are this client's own, with the rights of whoever uses it, and end when they have
 * nothing to do for a minute. What they have not done in time may be late: the next writer looks.
 */
final class ApplyPool {
  private static final TxnLogger LOG = TxnLogger.of(ApplyPool.class);
  private static final int AT_ONCE = 4;

  /** How long nothing may be done until those who wait go on without the rest. */
  private static final long WAIT_MS = 30_000;

  private final long waitMs;
  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "txns-apply");
            thread.setDaemon(true);
            return thread;
          });

  /** Those that somebody has gone on without, and that are not done yet; nobody begins them. */
  private final Set<TableIdentifier> hanging = new HashSet<>();

  ApplyPool() {
    this(WAIT_MS);
  }

  ApplyPool(long waitMs) {
    this.waitMs = waitMs;
  }

  /**
   * Run some work for each table.
   *
   * @param apply gives whether nothing is left to do for a table
   * @return the tables for which it did not say so, or not in time
   */
  Set<TableIdentifier> left(Set<TableIdentifier> tables, Predicate<TableIdentifier> apply) {
    Run run = new Run(apply);
    synchronized (hanging) {
      tables.stream().filter(table -> !hanging.contains(table)).forEach(run.waiting::add);
    }
    int due = run.waiting.size();
    ClassLoader classes = Thread.currentThread().getContextClassLoader();
    LogFields callers = LogFields.here();
    for (int thread = 0; thread < Math.min(due, AT_ONCE); thread++) {
      threads.execute(() -> within(classes, () -> callers.alone(run::work)));
    }
    Set<TableIdentifier> left = new LinkedHashSet<>(tables);
    for (; due > 0; due--) {
      Done done = run.next();
      if (done == null) {
        run.goOnWithout();
        break;
      }
      if (done.complete()) {
        left.remove(done.table());
      }
    }
    return left;
  }

  /** Whether somebody has gone on without a table that is not done yet. */
  boolean isHanging() {
    synchronized (hanging) {
      return !hanging.isEmpty();
    }
  }

  /** Begin nothing any more; what runs is finished. */
  void close() {
    threads.shutdown();
  }

  /** Engines load drivers and file systems through the caller's class loader. */
  private static void within(ClassLoader classes, Runnable task) {
    Thread thread = Thread.currentThread();
    ClassLoader own = thread.getContextClassLoader();
    thread.setContextClassLoader(classes);
    try {
      task.run();
    } finally {
      thread.setContextClassLoader(own);
    }
  }

  private record Done(TableIdentifier table, boolean complete) {}

  /** What one caller waits for. */
  private final class Run {
    private final Predicate<TableIdentifier> apply;
    private final Queue<TableIdentifier> waiting = new ConcurrentLinkedQueue<>();
    private final Set<TableIdentifier> running = new HashSet<>();
    private final LinkedBlockingQueue<Done> done = new LinkedBlockingQueue<>();

    private Run(Predicate<TableIdentifier> apply) {
      this.apply = apply;
    }

    private void work() {
      for (TableIdentifier table = begin(); table != null; table = begin()) {
        boolean complete = false;
        try {
          complete = apply.test(table);
        } catch (RuntimeException | LinkageError e) { // failures are told by its answer
          LOG.warn(LogFields.of(table).in(Phase.APPLY), "entries stay unapplied", e);
        } finally {
          end(table);
          done.add(new Done(table, complete));
        }
      }
    }

    private TableIdentifier begin() {
      synchronized (hanging) {
        TableIdentifier table = waiting.poll();
        if (table != null) {
          running.add(table);
        }
        return table;
      }
    }

    private void end(TableIdentifier table) {
      synchronized (hanging) {
        if (running.remove(table)) {
          hanging.remove(table);
        }
      }
    }

    /** The next one that is done; null where nothing was for too long, or the caller is stopped. */
    private Done next() {
      try {
        return done.poll(waitMs, TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return null;
      }
    }

    private void goOnWithout() {
      synchronized (hanging) {
        waiting.clear();
        hanging.addAll(running);
        for (TableIdentifier table : running) {
          LOG.warn(
              LogFields.of(table).in(Phase.APPLY).took(waitMs),
              "applying takes long: going on without, the next writer looks");
        }
      }
    }
  }
}
