package io.txns.spark.session;

import io.txns.iceberg.catalog.Transaction;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * The writes that run in one session: statements, CALLs, and what a DataFrame writes. They belong
 * to threads, unlike everything else of it, because a write begins and ends in one call.
 */
final class RunningWrites {

  private final Map<Thread, Write> running = new ConcurrentHashMap<>();
  private final ReentrantLock turn = new ReentrantLock();

  /** How many statements of ours run: Spark knows no query of them while it analyzes them. */
  private final AtomicInteger statements = new AtomicInteger();

  /**
   * A write that runs: as a transaction of its own, or in the session's open one.
   *
   * @param catalog the catalog of its own transaction, else null
   * @param transaction its own transaction, else null
   * @param owner the open transaction that it belongs to, else null
   */
  record Write(TransactionCatalog catalog, Transaction transaction, OpenTransaction owner) {}

  /** Whether any thread runs one, or another statement of ours. */
  boolean isAny() {
    return !running.isEmpty() || statements.get() > 0;
  }

  /** The one that this thread runs, or null. */
  Write ofThisThread() {
    return running.get(Thread.currentThread());
  }

  /** Whether this thread runs one that is a transaction of its own. */
  boolean isImplicit() {
    Write write = ofThisThread();
    return write != null && write.owner() == null;
  }

  /** Runs {@code body} as {@code write} of this thread. */
  <T> T run(Write write, Callable<T> body) throws Exception {
    running.put(Thread.currentThread(), write);
    try {
      return body.call();
    } finally {
      running.remove(Thread.currentThread());
    }
  }

  /** Runs a statement of ours, which is a write, or holds some, or none. */
  <T> T runStatement(Supplier<T> body) {
    statements.incrementAndGet();
    try {
      return body.get();
    } finally {
      statements.decrementAndGet();
    }
  }

  /** Lets writes that are undone by themselves take turns: a savepoint holds what all have done. */
  <T> T inTurn(Callable<T> body) throws Exception {
    turn.lockInterruptibly();
    try {
      return body.call();
    } finally {
      turn.unlock();
    }
  }
}
