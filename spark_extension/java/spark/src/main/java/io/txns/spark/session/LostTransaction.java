package io.txns.spark.session;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.sql.TxnModes;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A transaction that has lost at its COMMIT. The next one of its session is its next try, as long
 * as it begins soon: whoever runs a transaction again does so in the same session, be it a block, a
 * DB-API's connection, dbt, or a program.
 *
 * @param tookMs from its BEGIN to its COMMIT, in ms
 * @param atMs when it has lost, by a clock that only grows
 * @param comment what its BEGIN said; null for nothing
 * @param isSettled whether its next try has begun, or none may any more
 */
record LostTransaction(
    Transaction transaction,
    TransactionCatalog catalog,
    long tookMs,
    long atMs,
    String comment,
    AtomicBoolean isSettled) {
  /** Who runs it again pauses before, a block for 10 s at most; what comes later is another one. */
  private static final long SOON_MS = 15_000;

  /** One that has lost just now; {@code begunMs} by a clock that only grows. */
  static LostTransaction now(
      Transaction transaction, TransactionCatalog catalog, long begunMs, String comment) {
    long nowMs = TxnClock.system().elapsedMs();
    LostTransaction lost =
        new LostTransaction(
            transaction, catalog, nowMs - begunMs, nowMs, comment, new AtomicBoolean(false));
    if (!transaction.turn().held().isEmpty()) {
      Background.UNDOING.later(SOON_MS, lost::giveUpUnlessFollowed);
    }
    return lost;
  }

  /** Whether what begins now with {@code modes} is its next try. */
  boolean isFollowedBy(TxnModes modes) {
    boolean soon = TxnClock.system().elapsedMs() - atMs <= SOON_MS;
    return soon && isTriedAgainBy(modes) && isSettled.compareAndSet(false, true);
  }

  /** Whether what has {@code modes} may be a try of the same: it says nothing else of itself. */
  boolean isTriedAgainBy(TxnModes modes) {
    boolean another =
        areOthers(transaction.id(), modes.id()) || areOthers(comment, modes.comment());
    return !another && !Boolean.TRUE.equals(modes.readOnly());
  }

  private static boolean areOthers(String before, String now) {
    return before != null && now != null && !before.equals(now);
  }

  private void giveUpUnlessFollowed() {
    if (isSettled.compareAndSet(false, true)) {
      giveUp();
    }
  }

  /** There is no next try: what is reserved for one is taken out, soon. */
  void giveUp() {
    giveUp(transaction, catalog);
  }

  static void giveUp(Transaction transaction, TransactionCatalog catalog) {
    if (!transaction.turn().held().isEmpty()) {
      Background.UNDOING.soon(() -> catalog.handle().giveUp(transaction));
    }
  }

  /** Waits for who is older than the next try, for two minutes at most. */
  void awaitTurn() {
    catalog.handle().awaitTurn(transaction);
  }

  /** The next try, whose turn has been awaited: its session's monitor is held by now. */
  Transaction again(BeginOptions options) {
    return catalog.handle().begin(options, transaction, tookMs);
  }
}
