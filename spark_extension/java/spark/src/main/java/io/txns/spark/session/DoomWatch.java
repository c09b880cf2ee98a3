package io.txns.spark.session;

import io.txns.iceberg.LogFields;
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
  private final OpenTransaction owner;

  /** The jobs of this write, and no others, have it. */
  private final String tag = "txns-write-" + UUID.randomUUID();

  private Runnable callOff;
  private TxnException loss;
  private boolean ended;

  private DoomWatch(SparkContext context, OpenTransaction owner) {
    this.context = context;
    this.owner = owner;
  }

  /**
   * Runs a write of an open transaction.
   *
   * @throws TxnException 40001: it has lost, and the write was stopped
   */
  static <T> T during(SparkContext context, OpenTransaction owner, Callable<T> body)
      throws Exception {
    Transaction bound = owner.transaction();
    boolean early = bound == null || bound.isToldEarly();
    return early ? new DoomWatch(context, owner).during(body) : body.call();
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

  private synchronized void again() {
    if (!ended) {
      callOff = Background.WATCHING.later(LOOK_MS, this::look);
    }
  }

  private void look() {
    Transaction transaction = owner.transaction(); // null until the write has touched a catalog
    if (transaction != null) {
      transaction.lossWhileWriting().ifPresent(found -> stop(transaction.id(), found));
    }
    again(); // also for the jobs that begin after others were cancelled
  }

  /** One that has ended meanwhile is let be: the next statement of its transaction is told. */
  private synchronized void stop(String txnId, TxnException found) {
    if (ended) {
      return;
    }
    if (loss == null) {
      LOG.info(LogFields.of(txnId), "a write is stopped, its transaction has lost");
    }
    loss = found;
    context.cancelJobsWithTag(tag, "because its transaction " + txnId + " has lost a race");
  }

  /** What was to look at it takes no thread any more, and keeps nothing of it. */
  private synchronized void end() {
    ended = true;
    callOff.run();
  }

  private synchronized void tellWhyItEnded(Throwable failure) {
    if (loss != null) {
      TxnException told = loss.again();
      told.addSuppressed(failure);
      throw told;
    }
  }
}
