package io.txns.iceberg.commit;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.TxnMetrics.Count;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.stage.StagedTable;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What a commit counts, and how long its phases take, on the protocol's own clock.
 *
 * @param to where it is counted
 */
record CommitMetrics(TxnMetrics to, TxnClock clock) {
  private static final TxnLogger LOG = TxnLogger.of(CommitMetrics.class);

  /** Note how long a phase takes, whatever it ends with. */
  boolean during(Phase phase, BooleanSupplier work) {
    long beganMs = clock.nowMs();
    try {
      return LogFields.of(phase).during(work::getAsBoolean);
    } finally {
      took(phase, beganMs);
    }
  }

  void took(Phase phase, long beganMs) {
    long ms = Math.max(0, clock.nowMs() - beganMs);
    to.took(phase, ms);
    LOG.debug(LogFields.of(phase).took(ms), "a phase has ended");
  }

  /**
   * Append an entry; note how long its attempts took, and what validated them.
   *
   * @param tables those that its swap may move with the log
   * @param proposedTs see {@link CommitLoop#append}
   */
  Entry append(
      CommitLoop loop,
      CommitGroup.Key key,
      CommitGroup.Attempt attempt,
      Map<TableIdentifier, StagedTable> tables,
      long proposedTs,
      Turns.Claim claim) {
    AtomicLong attempts = new AtomicLong();
    AtomicLong validatingMs = new AtomicLong();
    LogFields validates = LogFields.of(key.txnId()).in(Phase.VALIDATE); // in another's thread
    CommitGroup.Attempt measured =
        (head, commitTs) -> {
          attempts.incrementAndGet();
          long validatedFromMs = clock.nowMs();
          try {
            return validates.during(() -> attempt.at(head, commitTs));
          } finally {
            validatingMs.addAndGet(clock.nowMs() - validatedFromMs);
            validates.during(() -> took(Phase.VALIDATE, validatedFromMs));
          }
        };
    long beganMs = clock.nowMs();
    try {
      return LogFields.of(Phase.SWAP)
          .during(() -> loop.append(key, measured, tables, proposedTs, claim));
    } finally {
      took(Phase.SWAP, beganMs + validatingMs.get());
      to.count(Count.RETRIED, Math.max(0, attempts.get() - 1));
    }
  }

  /** Count a transaction that has not committed, or of which nobody knows. */
  void refused(RuntimeException failure) {
    if (failure instanceof TxnException known && known.kind() == ErrorKind.CONFLICT) {
      to.count(Count.CONFLICTED, 1);
      LOG.info(LogFields.NONE, "not committed: {}", known.getMessage());
    }
    if (failure instanceof TxnException known && known.kind() == ErrorKind.COMMIT_STATE_UNKNOWN) {
      to.count(Count.UNKNOWN, 1);
      LOG.warn("nobody knows yet whether it has committed", known);
    }
  }

  /** Count a transaction that has committed. */
  void committed(Entry entry) {
    to.count(Count.COMMITTED, 1);
    LOG.debug("committed at {}", entry.commitTs());
  }
}
