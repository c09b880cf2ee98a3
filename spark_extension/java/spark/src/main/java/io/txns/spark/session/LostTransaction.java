package io.txns.spark.session;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.catalog.Transaction;
import java.time.Instant;

/**
 * A transaction that has lost at its COMMIT. The next one of its session is its next try, as long
 * as it begins soon: whoever runs a transaction again does so in the same session, be it a block, a
 * DB-API's connection, dbt, or a program.
 *
 * @param tookMs from its BEGIN to its COMMIT, in ms
 * @param atMs when it has lost, by a clock that only grows
 */
record LostTransaction(
    Transaction transaction, TransactionCatalog catalog, long tookMs, long atMs) {
  /** Who runs it again pauses before, for a few seconds at most. */
  private static final long SOON_MS = 10_000;

  /** One that has lost just now. */
  static LostTransaction now(Transaction transaction, TransactionCatalog catalog, Instant begunAt) {
    TxnClock clock = TxnClock.system();
    long tookMs = Math.max(0, clock.nowMs() - begunAt.toEpochMilli());
    return new LostTransaction(transaction, catalog, tookMs, clock.elapsedMs());
  }

  boolean isRecent() {
    return TxnClock.system().elapsedMs() - atMs <= SOON_MS + tookMs;
  }

  /** The next try. */
  Transaction again(BeginOptions options) {
    return catalog.handle().begin(options, transaction, tookMs);
  }
}
