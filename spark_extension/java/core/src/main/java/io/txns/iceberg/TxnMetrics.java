package io.txns.iceberg;

import java.util.Locale;

/**
 * Where the protocol counts what it does; docs/operations.md has the names, the same in Python.
 *
 * <p>Threads call it at once, in the middle of commits: it takes no time, and throws nothing.
 */
public interface TxnMetrics {

  /** What is counted. */
  enum Count {
    /** Transactions that were begun, single statements that write included. */
    STARTED,
    /** Further attempts at the swap, after one that was not won. */
    RETRIED,
    /** Transactions that have committed, those that wrote nothing included. */
    COMMITTED,
    /** Transactions that were refused by a conflict, and have not committed. */
    CONFLICTED,
    /** Transactions whose outcome was not known when they ended. */
    UNKNOWN;

    /** Its name as a metric. */
    public String metric() {
      return "txns_transactions_" + name().toLowerCase(Locale.ROOT) + "_total";
    }
  }

  /** What a transaction spends its time on; docs/architecture.md, Phases. */
  enum Phase {
    /** From BEGIN to COMMIT. */
    STAGE,
    /** Of one attempt: against newer entries, what has moved restaged, the entry made. */
    VALIDATE,
    /** The attempts of a commit without that, waiting for others of its group included. */
    SWAP,
    APPLY,
    TIDY;

    /** Its name in a metric. */
    public String word() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** Count something that has happened. */
  void count(Count what, long by);

  /** Note how long a phase took, in ms; not below 0. */
  void took(Phase phase, long ms);

  /** Counts nothing. */
  TxnMetrics NONE =
      new TxnMetrics() {
        @Override
        public void count(Count what, long by) {
          // nobody asks
        }

        @Override
        public void took(Phase phase, long ms) {
          // nobody asks
        }
      };
}
