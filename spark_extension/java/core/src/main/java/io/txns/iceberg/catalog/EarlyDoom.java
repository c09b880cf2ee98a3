package io.txns.iceberg.catalog;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.commit.CommitLoop;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Early doom: a transaction that has lost learns it at its next statement, not at its commit. What
 * it still has to do may take hours. Safety does not depend on it: the commit validates again.
 *
 * <p>What this process has heard of the log is known without a question. The catalog is asked less
 * often: most transactions are over before, and each of their statements would be a question more.
 */
final class EarlyDoom {
  /** What a transaction does in less is not worth a look, in ms. */
  static final long PAUSE_MS = 100;

  /** For so long, in ms, it is enough to know what the process has heard of the log. */
  static final long HEARD_MS = 1_000;

  /** One part in so many of a transaction's time is spent on looks, at most. */
  private static final long SHARE = 10;

  /** And one part in so many on waiting for the catalog's answers. */
  private static final long ASKED_SHARE = 50;

  private static final TxnLogger LOG = TxnLogger.of(EarlyDoom.class);

  private final CommitLog log;
  private final CommitLoop loop;
  private final TxnClock clock;
  private final AtomicLong askDueMs;
  private final AtomicLong dueMs;

  /** Begin with a transaction, whose head has just been loaded. */
  EarlyDoom(CommitLog log, CommitLoop loop, TxnClock clock) {
    this.log = log;
    this.loop = loop;
    this.clock = clock;
    long nowMs = clock.elapsedMs();
    this.dueMs = new AtomicLong(nowMs + PAUSE_MS);
    this.askDueMs = new AtomicLong(nowMs + HEARD_MS);
  }

  boolean isDue() {
    return clock.elapsedMs() >= dueMs.get();
  }

  /**
   * Ask the catalog what others have committed, where it is time to. The caller holds no lock: it
   * may take as long to answer as it likes, and who works in the transaction does not wait for it.
   */
  void ask() {
    long askedMs = clock.elapsedMs();
    if (!claim(askDueMs, askedMs)) {
      return;
    }
    try {
      loop.hear(log.loadIfExists());
    } catch (RuntimeException e) {
      LOG.debug("what others have committed is not known, the commit will say it", e);
    } finally {
      long answeredMs = clock.elapsedMs();
      askDueMs.set(answeredMs + Math.max(HEARD_MS, ASKED_SHARE * (answeredMs - askedMs)));
    }
  }

  /** Whether it is time for something, and nobody else does it. */
  private static boolean claim(AtomicLong due, long nowMs) {
    long atMs = due.get();
    return nowMs >= atMs && due.compareAndSet(atMs, Long.MAX_VALUE);
  }

  /**
   * Look whether a transaction can still commit, by what is known of the log, where it is time to
   * and nobody else does. The caller holds no lock here either: tables are loaded for it, and their
   * manifests read.
   *
   * @param check throws 40001 where it cannot on top of a head
   * @throws TxnException 40001: it has lost, run it again from its beginning
   */
  void look(Consumer<Head> check) {
    long beganMs = clock.elapsedMs();
    if (!claim(dueMs, beganMs)) {
      return;
    }
    long nextMs = beganMs; // who has lost is told so by each statement
    try {
      check.accept(loop.heard());
      nextMs = pausedMs(beganMs);
    } catch (RuntimeException e) {
      if (e instanceof TxnException known && known.kind() == ErrorKind.CONFLICT) {
        throw e;
      }
      LOG.debug("whether the transaction has lost is not known, its commit will say it", e);
      nextMs = pausedMs(beganMs);
    } finally {
      dueMs.set(nextMs);
    }
  }

  private long pausedMs(long beganMs) {
    long endedMs = clock.elapsedMs();
    return endedMs + Math.max(PAUSE_MS, SHARE * (endedMs - beganMs));
  }
}
