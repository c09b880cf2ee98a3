package io.txns.iceberg;

import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Appends entries to the log: the only retry loop of the protocol.
 *
 * <p>An attempt whose answer was lost is settled by the next head: the entry is there, or the head
 * has moved past what the attempt stood on and it can never land.
 */
final class CommitLoop {
  private static final Logger LOG = LoggerFactory.getLogger(CommitLoop.class);
  private static final int MAX_ATTEMPTS = 50;
  private static final long MAX_MS = 30_000;
  private static final long BACK_OFF_MAX_MS = 5;
  private static final long SKEW_WARNING_MS = 60_000;

  private final CommitLog log;
  private final Archive archive;
  private final TxnClock clock;

  CommitLoop(CommitLog log, Archive archive, TxnClock clock) {
    this.log = log;
    this.archive = archive;
    this.clock = clock;
  }

  /**
   * The idempotence key of an entry.
   *
   * @param txnId in at most one entry, ever
   * @param sinceTs archived rows with {@code commit_ts} above it, in ms, may hold the id
   * @param fresh whether nobody can have used the id before the first attempt
   */
  record Key(String txnId, long sinceTs, boolean fresh) {}

  /** What to append, given the head that it will stand on. */
  interface Attempt {
    /**
     * Validate against {@code head} and make the entry.
     *
     * @param commitTs the entry's, in ms
     * @throws TxnException definitely not committed
     */
    Entry at(Head head, long commitTs);
  }

  /**
   * Append one entry, exactly once.
   *
   * @param key an entry that has its id already is returned instead of a second one
   * @return the entry that stands in the log
   * @throws TxnException what {@code attempt} throws; 40001 when every swap was lost; 08007 when
   *     the last answer stays unknown
   */
  Entry append(Key key, Attempt attempt) {
    Pending pending = new Pending();
    try {
      return append(key, attempt, pending);
    } catch (RuntimeException e) {
      if (pending.mayHaveLanded) {
        throw TxnException.commitStateUnknown(key.txnId(), e);
      }
      throw e;
    }
  }

  /** What is known of the attempts so far. */
  private static final class Pending {
    /** An attempt whose answer was lost stood on this head. */
    private Head unsettled;

    /** Whether no head has told yet that the last attempt did not land. */
    private boolean mayHaveLanded;

    private RuntimeException cause;

    /** A head that does not hold the entry: an attempt on an older one can never land. */
    private void settle(Head head) {
      if (unsettled != null && !head.isSameVersion(unsettled.metadata())) {
        unsettled = null;
      }
      mayHaveLanded = unsettled != null;
    }
  }

  private Entry append(Key key, Attempt attempt, Pending pending) {
    long deadlineMs = clock.nowMs() + MAX_MS;
    for (int tries = 0; tries < MAX_ATTEMPTS && clock.nowMs() < deadlineMs; tries++) {
      Head head = log.loadOrCreate();
      Optional<Entry> known =
          key.fresh() && tries == 0 ? Optional.empty() : find(head, key.txnId(), key.sinceTs());
      if (known.isPresent()) {
        return known.get();
      }
      pending.settle(head);
      Entry entry = attempt.at(head, nextTs(head));
      refuseWhenOff(head, entry);
      CommitLog.Swap swap = log.append(head, List.of(entry));
      if (swap.outcome() == CommitLog.Swap.Outcome.WON) {
        return entry;
      }
      pending.mayHaveLanded = true; // a catalog's "lost" may be false
      pending.cause = swap.cause();
      if (swap.outcome() == CommitLog.Swap.Outcome.MAYBE) {
        pending.unsettled = head;
        LOG.warn(
            "the catalog's answer was lost, asking the log; txn={}", key.txnId(), swap.cause());
      }
      clock.backOff(BACK_OFF_MAX_MS);
    }
    return settle(key, pending);
  }

  /** Find a transaction by its id in a head, and in rows that have left the head since. */
  Optional<Entry> find(Head head, String txnId, long sinceTs) {
    Optional<Entry> known = head.state().find(txnId);
    if (known.isPresent() || head.state().tidiedUpto() <= sinceTs) {
      return known;
    }
    return archive.find(txnId, sinceTs);
  }

  private Entry settle(Key key, Pending pending) {
    Head head = log.load();
    Optional<Entry> known = find(head, key.txnId(), key.sinceTs());
    if (known.isPresent()) {
      return known.get();
    }
    pending.settle(head);
    if (pending.mayHaveLanded) {
      throw TxnException.commitStateUnknown(key.txnId(), pending.cause);
    }
    throw TxnException.conflict(
        log.identifier(), key.txnId(), "", head.upper(), "too many others were committing");
  }

  private long nextTs(Head head) {
    long nowMs = clock.nowMs();
    if (head.upper() > nowMs + SKEW_WARNING_MS) {
      LOG.warn("the log is {} ms ahead of this clock: some clock is fast", head.upper() - nowMs);
    }
    return Math.max(nowMs, head.upper() + 1);
  }

  private static void refuseWhenOff(Head head, Entry entry) {
    boolean always = entry.kind() == EntryKind.ON || entry.kind() == EntryKind.OFF;
    if (head.state().off() && !always) {
      throw TxnException.unsupported(
          "transactions are off for this commit table: turn them on with `txns on`");
    }
  }
}
