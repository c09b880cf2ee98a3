package io.txns.spark.session;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.catalog.Transaction;
import java.util.UUID;
import java.util.concurrent.Callable;
import org.apache.spark.SparkContext;

/**
 * Early doom while a write runs: it may run for hours, and its transaction may have no other. Looks
 * every second whether that can still commit, by what is known of it; where it cannot, the jobs of
 * the write are cancelled, and it ends with what COMMIT would be told.
 */
final class DoomWatch {

  /** How often it looks, in ms: what runs for less is not looked at. */
  private static final long LOOK_MS = 1_000;

  private static final TxnLogger LOG = TxnLogger.of(DoomWatch.class);

  private final SparkContext context;
  private final Transaction transaction;

  /** The jobs of this write, and no others, have it. */
  private final String tag = "txns-write-" + UUID.randomUUID();

  private TxnException loss;
  private boolean ended;

  private DoomWatch(SparkContext context, Transaction transaction) {
    this.context = context;
    this.transaction = transaction;
  }

  /**
   * Runs a write of an open transaction.
   *
   * @throws TxnException 40001: it has lost, and the write was stopped
   */
  static <T> T during(SparkContext context, OpenTransaction owner, Callable<T> body)
      throws Exception {
    if (!owner.isBound() || !owner.transaction().isToldEarly()) {
      return body.call();
    }
    return new DoomWatch(context, owner.transaction()).during(body);
  }

  private <T> T during(Callable<T> body) throws Exception {
    context.addJobTag(tag);
    again();
    try {
      return body.call();
    } catch (Throwable e) {
      tellWhyItEnded(e);
      throw e;
    } finally {
      end();
      context.removeJobTag(tag);
    }
  }

  private void again() {
    Background.WATCHING.later(LOOK_MS, this::look);
  }

  private void look() {
    if (!hasEnded()) {
      transaction.lossWhileWriting().ifPresent(this::stop);
      again(); // also for the jobs that begin after others were cancelled
    }
  }

  private synchronized boolean hasEnded() {
    return ended;
  }

  /** One that has ended meanwhile is let be: the next statement of its transaction is told. */
  private synchronized void stop(TxnException found) {
    if (!ended) {
      loss = found;
      LOG.debug("a write is stopped, its transaction has lost");
      context.cancelJobsWithTag(tag, "because its transaction has lost a race");
    }
  }

  private synchronized void end() {
    ended = true;
  }

  private synchronized void tellWhyItEnded(Throwable failure) {
    if (loss != null) {
      TxnException told = loss.again();
      told.addSuppressed(failure);
      throw told;
    }
  }
}
