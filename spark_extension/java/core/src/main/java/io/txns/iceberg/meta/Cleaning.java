package io.txns.iceberg.meta;

import io.txns.iceberg.TxnLogger;

/**
 * Deletes what nobody needs. It never decides an answer: what stays harms nobody, and a conflict
 * that it hid, or a success that it turned into an error, would.
 */
public final class Cleaning {
  private static final TxnLogger LOG = TxnLogger.of(Cleaning.class);

  private Cleaning() {}

  /** Run a deletion, or what finds out what to delete; a failure of it is logged. */
  public static void of(String what, Runnable deletion) {
    try {
      deletion.run();
    } catch (RuntimeException | Error e) {
      LOG.warn("it may stay, which harms nobody: {}", what, e);
    }
  }
}
