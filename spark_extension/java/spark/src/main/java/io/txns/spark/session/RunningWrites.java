package io.txns.spark.session;

import io.txns.iceberg.catalog.Transaction;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;

/**
 * The writes that run in one session: statements, CALLs, and what a DataFrame writes. They belong
 * to threads, unlike everything else of it, because a write begins and ends in one call.
 */
final class RunningWrites {

  private static final String SAVEPOINT = "__txns_statement";

  private final TxnSession state;
  private final Map<Thread, Write> running = new ConcurrentHashMap<>();

  /** Writes that are undone by themselves take turns: a savepoint holds what all have done. */
  private final ReentrantLock turn = new ReentrantLock();

  /**
   * A write that runs: as a transaction of its own, or in the session's open one.
   *
   * @param catalog the catalog of its own transaction, else null
   * @param transaction its own transaction, else null
   * @param owner the open transaction that it belongs to, else null
   */
  record Write(TransactionCatalog catalog, Transaction transaction, OpenTransaction owner) {}

  RunningWrites(TxnSession state) {
    this.state = state;
  }

  /** Whether any thread runs one. */
  boolean isAny() {
    return !running.isEmpty();
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

  /**
   * Runs a write. In an explicit transaction a failure aborts it; outside, and with a catalog, the
   * write is an implicit transaction that reads everything at one moment.
   *
   * @param catalog the target's catalog, or null when it is not ours
   * @param skipped the answer when the transaction has committed earlier
   */
  <T> T run(SparkSession session, TransactionCatalog catalog, Supplier<T> skipped, Callable<T> body)
      throws Exception {
    if (catalog != null) {
      state.current(catalog); // only a transaction that has begun knows if its id has committed
    }
    if (state.isSkipping()) {
      return skipped.get();
    }
    if (ofThisThread() != null) {
      return body.call();
    }
    state.checkNotAborted();
    if (state.isExplicit()) {
      return runExplicit(session, body);
    }
    return catalog == null
        ? body.call()
        : runImplicit(catalog, catalog.handle().beginStatement(), body);
  }

  /** Runs a write outside a transaction as {@code own}. */
  <T> T runImplicit(TransactionCatalog catalog, Transaction own, Callable<T> body)
      throws Exception {
    running.put(Thread.currentThread(), new Write(catalog, own, null));
    try {
      return body.call();
    } finally {
      running.remove(Thread.currentThread());
    }
  }

  private <T> T runExplicit(SparkSession session, Callable<T> body) throws Exception {
    if (state.abortsOnError(session.sessionState().conf())) {
      return runExplicit(true, body);
    }
    turn.lockInterruptibly();
    try {
      return runExplicit(false, body);
    } finally {
      turn.unlock();
    }
  }

  private <T> T runExplicit(boolean abortOnError, Callable<T> body) throws Exception {
    OpenTransaction owner = state.require("a write");
    if (!abortOnError) {
      state.ifOpen(owner, transaction -> transaction.savepoint(SAVEPOINT));
    }
    running.put(Thread.currentThread(), new Write(null, null, owner));
    try {
      T result = body.call();
      if (!abortOnError) {
        state.ifOpen(owner, transaction -> transaction.release(SAVEPOINT));
      }
      return result;
    } catch (Throwable e) {
      failed(owner, abortOnError, e);
      throw e;
    } finally {
      running.remove(Thread.currentThread());
      state.touch();
    }
  }

  private void failed(OpenTransaction owner, boolean abortOnError, Throwable failure) {
    try {
      state.ifOpen(
          owner,
          transaction -> {
            if (abortOnError) {
              transaction.abort();
            } else {
              transaction.rollbackTo(SAVEPOINT);
              transaction.release(SAVEPOINT);
            }
          });
    } catch (RuntimeException e) {
      failure.addSuppressed(e);
    }
  }
}
