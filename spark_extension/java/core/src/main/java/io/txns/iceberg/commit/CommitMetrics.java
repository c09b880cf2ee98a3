package io.txns.iceberg.commit;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.TxnMetrics.Count;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.log.Entry;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * What a commit counts, and how long its phases take, on the protocol's own clock.
 *
 * @param to where it is counted
 */
record CommitMetrics(TxnMetrics to, TxnClock clock) {

  /** Note how long a phase takes, whatever it ends with. */
  boolean during(Phase phase, BooleanSupplier work) {
    long beganMs = clock.nowMs();
    try {
      return work.getAsBoolean();
    } finally {
      took(phase, beganMs);
    }
  }

  void took(Phase phase, long beganMs) {
    to.took(phase, Math.max(0, clock.nowMs() - beganMs));
  }

  /** Append an entry; note how long its attempts took, and what validated them. */
  Entry append(CommitLoop loop, CommitGroup.Key key, CommitGroup.Attempt attempt) {
    AtomicLong attempts = new AtomicLong();
    AtomicLong validatingMs = new AtomicLong();
    long beganMs = clock.nowMs();
    try {
      return loop.append(
          key,
          (head, commitTs) -> {
            attempts.incrementAndGet();
            long validatedFromMs = clock.nowMs();
            try {
              return attempt.at(head, commitTs);
            } finally {
              validatingMs.addAndGet(clock.nowMs() - validatedFromMs);
              took(Phase.VALIDATE, validatedFromMs);
            }
          });
    } finally {
      took(Phase.SWAP, beganMs + validatingMs.get());
      to.count(Count.RETRIED, Math.max(0, attempts.get() - 1));
    }
  }

  /** Count a transaction that has not committed, or of which nobody knows. */
  void refused(RuntimeException failure) {
    if (failure instanceof TxnException known && known.kind() == ErrorKind.CONFLICT) {
      to.count(Count.CONFLICTED, 1);
    }
    if (failure instanceof TxnException known && known.kind() == ErrorKind.COMMIT_STATE_UNKNOWN) {
      to.count(Count.UNKNOWN, 1);
    }
  }
}
