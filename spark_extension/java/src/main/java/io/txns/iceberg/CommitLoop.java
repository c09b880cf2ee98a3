package io.txns.iceberg;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
    CommitGroup.Member member = new CommitGroup.Member(key, attempt);
    CommitGroup.of(log.uuid()).run(member, this::appendAll);
    return member.result();
  }

  /** Append those of the members that are valid, one validated against those before it. */
  private void appendAll(List<CommitGroup.Member> members) {
    long deadlineMs = clock.nowMs() + MAX_MS;
    for (int tries = 0; tries < MAX_ATTEMPTS && clock.nowMs() < deadlineMs; tries++) {
      if (tries > 0) {
        clock.backOff(BACK_OFF_MAX_MS);
      }
      if (attempt(members)) {
        return;
      }
    }
    settle(members);
  }

  /** One swap; whether no member is open any more. */
  private boolean attempt(List<CommitGroup.Member> members) {
    Head head = log.loadOrCreate();
    lookUp(members, head);
    Map<CommitGroup.Member, Entry> entries = new LinkedHashMap<>();
    Map<CommitGroup.Member, RuntimeException> refused = new LinkedHashMap<>();
    Head at = head;
    for (CommitGroup.Member member : open(members)) {
      try {
        Entry entry = member.attempt().at(at, nextTs(at));
        refuseWhenOff(at, entry);
        Head next = at.with(entry);
        checkKeepsInvariants(next, entry);
        entries.put(member, entry);
        at = next;
      } catch (RuntimeException e) {
        if (Thread.currentThread().isInterrupted()) {
          throw e; // the leader has been cancelled, not the member
        }
        refused.put(member, e);
      }
    }
    CommitLog.Swap swap =
        entries.isEmpty() ? null : log.append(head, List.copyOf(entries.values()));
    if (swap == null || swap.outcome() == CommitLog.Swap.Outcome.WON) {
      refused.forEach(CommitGroup.Member::failed);
      entries.forEach(CommitGroup.Member::committed);
      return true;
    }
    if (swap.outcome() == CommitLog.Swap.Outcome.MAYBE) {
      LOG.warn("the catalog's answer was lost, asking the log", swap.cause());
    }
    // Who was refused stays as well: it may have been because of entries that have not landed.
    entries.keySet().forEach(member -> member.notWon(head, swap));
    return false;
  }

  /** What would make the log unreadable for everybody fails one transaction instead. */
  private void checkKeepsInvariants(Head next, Entry entry) {
    try {
      next.state().validate();
    } catch (TxnException e) {
      throw TxnException.conflict(
          log.identifier(), entry.txnId(), "", entry.prevTs(), "refused: " + e.getMessage());
    }
  }

  /** What a newer head tells of the members: who has landed, and whose attempts never will. */
  private void lookUp(List<CommitGroup.Member> members, Head head) {
    for (CommitGroup.Member member : open(members)) {
      Optional<Entry> known =
          member.mayBeKnown()
              ? find(head, member.key().txnId(), member.key().sinceTs())
              : Optional.empty();
      known.ifPresentOrElse(member::committed, () -> member.settle(head));
    }
  }

  private static List<CommitGroup.Member> open(List<CommitGroup.Member> members) {
    return members.stream().filter(CommitGroup.Member::isOpen).toList();
  }

  /** Find a transaction by its id in a head, and in rows that have left the head since. */
  Optional<Entry> find(Head head, String txnId, long sinceTs) {
    Optional<Entry> known = head.state().find(txnId);
    if (known.isPresent() || head.state().tidiedUpto() <= sinceTs) {
      return known;
    }
    return archive.find(txnId, sinceTs);
  }

  private void settle(List<CommitGroup.Member> members) {
    Head head = log.load();
    lookUp(members, head);
    open(members)
        .forEach(
            member ->
                member.failed(
                    TxnException.conflict(
                        log.identifier(),
                        member.key().txnId(),
                        "",
                        head.upper(),
                        "too many others were committing")));
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
      throw TxnException.off();
    }
  }
}
