package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.StagedTable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * The transactions of one process that wait to be appended to one commit table.
 *
 * <p>One of the waiting threads leads: it takes all that wait and appends them in one swap, while
 * the others sleep. Who leads is in the group that it leads, and whoever is done leaves at once: so
 * nobody waits behind those who came later. Handles of several sessions share a group where their
 * swaps are the same ({@link Sharing}): the leader's log is then every member's own.
 */
public class CommitGroup {
  /** Those that somebody waits in, perhaps more. */
  private static final Map<CommitGroup, Sharing> GROUPS = new WeakHashMap<>();

  /** More would make the swap's metadata large for everybody. */
  private static final int MAX_MEMBERS = 32;

  /** Those whose threads are in {@link #run}, the oldest first. */
  private final List<Member> waiting = new ArrayList<>();

  private final HeadBounds.Tries tries = new HeadBounds.Tries();

  private final AtomicReference<Head> heard = new AtomicReference<>();

  private Turns turns;
  private boolean led;

  public CommitGroup() {}

  /** What its members know of each other's tries to make the head small. */
  HeadBounds.Tries tries() {
    return tries;
  }

  /** A handle has seen a head, which the others may need to know. */
  void hear(Head head) {
    heard.accumulateAndGet(
        head.withoutRows(), (known, seen) -> known == null || isLater(seen, known) ? seen : known);
  }

  /** A log that was recovered counts its versions anew. */
  private static boolean isLater(Head seen, Head known) {
    return !seen.logId().equals(known.logId()) || seen.isNewer(known);
  }

  /** The newest head that any of its handles has told of; null before the first. */
  Head heard() {
    return heard.get();
  }

  /** What its members have seen of reservations; {@code clock} is that of them all. */
  synchronized Turns turns(TxnClock clock) {
    if (turns == null) {
      turns = new Turns(clock);
    }
    return turns;
  }

  /**
   * What handles have in common whose swaps go to one log, and are made with one set of rights.
   *
   * <p>The uuid alone does not say so: a copy of a lake, or a commit table that was registered a
   * second time, has the same one.
   *
   * @param catalogName tells the lakes apart that one catalog holds, as SQL catalogs do
   * @param catalogOptions where the catalog is, and who asks it
   * @param commitTable its name in the catalog
   * @param uuid the commit table's
   */
  public record Sharing(
      String catalogName,
      Map<String, String> catalogOptions,
      TableIdentifier commitTable,
      String uuid) {}

  /** The group of all whose swaps are the same. */
  public static CommitGroup of(Sharing sharing) {
    synchronized (GROUPS) {
      for (Map.Entry<CommitGroup, Sharing> known : GROUPS.entrySet()) {
        if (known.getValue().equals(sharing)) {
          return known.getKey();
        }
      }
      CommitGroup group = new CommitGroup();
      GROUPS.put(group, sharing);
      return group;
    }
  }

  /** Where a transaction id comes from: whether others may append under it. */
  public enum Origin {
    /** Made for this entry: it is another's only who asks with it what became of the entry. */
    FRESH,
    /** Made of what is done: whoever does the same makes the same entry. */
    DERIVED,
    /** The caller's own: other tries under it may be on their way, and need not be the same. */
    CALLERS
  }

  /**
   * The idempotence key of an entry.
   *
   * @param txnId in at most one entry for as long as ids are looked up (I8); aborts of it are none
   * @param sinceTs entries above it, in ms, may hold the id; under a caller's own one it is the
   *     try's {@code read_ts}
   * @param origin where the id comes from
   * @param attempts those under this key; whoever may append again hands them on
   */
  public record Key(String txnId, long sinceTs, Origin origin, Attempts attempts) {
    public Key(String txnId, long sinceTs, Origin origin) {
      this(txnId, sinceTs, origin, new Attempts());
    }

    /** The key of an id that has just been made: nobody knows it before the attempts. */
    public static Key fresh(String txnId) {
      return new Key(txnId, Long.MAX_VALUE, Origin.FRESH);
    }

    /**
     * Whether an abort among the entries under its id is for tries as old as this one. A fresh id
     * is the caller's own for whoever asks with it what became of it.
     */
    boolean isBarred(List<Entry> under) {
      return origin != Origin.DERIVED && Entry.abortedTs(under) > sinceTs;
    }
  }

  /** What to append, given the head that it will stand on. */
  public interface Attempt {
    /**
     * Validate against {@code head} and make the entry.
     *
     * @param commitTs the entry's, in ms
     * @throws TxnException definitely not committed
     */
    Entry at(Head head, long commitTs);
  }

  /**
   * The entry that stands in the log for a member.
   *
   * @param holder a head that holds it: its own log has not seen it where another one led
   */
  record Landed(Entry entry, Head holder) {}

  /** What became of a member: {@code landed}, or else the reason why it goes no further. */
  private record Outcome(Landed landed, Throwable failure) {}

  /** One waiting transaction, and what became of it. */
  static final class Member {
    private final Key key;
    private final Attempt attempt;
    private final Map<TableIdentifier, StagedTable> tables;
    private final long proposedTs;
    private final Turns.Claim claim;
    private boolean taken;
    private boolean interrupted;
    private boolean alone;
    private RuntimeException refusal;
    private RuntimeException conflict;
    private RuntimeException noRoom;
    private RuntimeException unsent;
    private long sinceTs;
    private long deadlineMs = Long.MAX_VALUE;
    private int tries;

    /** Null while it is open. One field, as its own thread may wake before its leader is done. */
    private volatile Outcome outcome;

    Member(Key key, Attempt attempt) {
      this(key, attempt, Map.of(), 0, Turns.Claim.NONE);
    }

    /**
     * @param tables those that its swap may move with the log, as they were staged
     * @param proposedTs the {@code commit_ts} that it is to have, in ms, if the log is below; 0 for
     *     none
     * @param claim how it stands to reservations
     */
    Member(
        Key key,
        Attempt attempt,
        Map<TableIdentifier, StagedTable> tables,
        long proposedTs,
        Turns.Claim claim) {
      this.claim = claim;
      this.proposedTs = proposedTs;
      this.key = key;
      this.attempt = attempt;
      this.tables = tables;
      this.sinceTs = key.sinceTs();
    }

    Key key() {
      return key;
    }

    Attempt attempt() {
      return attempt;
    }

    Map<TableIdentifier, StagedTable> tables() {
      return tables;
    }

    long proposedTs() {
      return proposedTs;
    }

    Turns.Claim claim() {
      return claim;
    }

    /** Whether it has ended because it is another's turn. */
    boolean mustWait() {
      return outcome.failure() instanceof Turns.MustWaitException;
    }

    Attempts attempts() {
      return key.attempts();
    }

    /** When its attempts end at the latest, in ms; the first one that leads it says so. */
    void endsBy(long latestMs) {
      deadlineMs = Math.min(deadlineMs, latestMs);
    }

    /** Counts an attempt, whoever leads it. */
    void isTried() {
      tries++;
    }

    /** Whether it has been tried for as often, or as long, as it may. */
    boolean isOver(int mostTries, long nowMs) {
      return tries >= mostTries || nowMs >= deadlineMs;
    }

    /** Entries above it, in ms, may hold its id. */
    long sinceTs() {
      return sinceTs;
    }

    /** What it learns from a head that does not hold its entry: nobody has to look there again. */
    void lookedAt(Head head) {
      sinceTs = head.upper();
      refusal = null;
      attempts().settle(head);
    }

    /** Whether a group with it was refused: nobody knows for whose entry. */
    boolean isAlone() {
      return alone;
    }

    /**
     * The catalog has refused a swap; the next head tells.
     *
     * @param reason what it said, if that was of this member alone; else null
     */
    void refused(RuntimeException reason) {
      refusal = reason;
      alone = true;
    }

    /** An abort of its id is to be swapped; {@code reason} is told when one has landed. */
    void aborting(RuntimeException reason) {
      conflict = reason;
    }

    /** Why it was refused when an abort of its id was to be swapped; null where none was. */
    RuntimeException conflict() {
      return conflict;
    }

    /**
     * Its last attempt was not won.
     *
     * @param why what the storage said, if nothing could be sent of it; else null
     */
    void isUnsent(RuntimeException why) {
      unsent = why;
    }

    /** What the storage said when nothing could be sent of the last attempt; null where it was. */
    RuntimeException unsent() {
      return unsent;
    }

    /** The head has no room for it, as {@code reason} tells. */
    void hasNoRoom(RuntimeException reason) {
      noRoom = reason;
    }

    /** Whether it has ended because the head has no room for it. */
    boolean isCrowdedOut() {
      return noRoom != null && outcome.failure() == noRoom;
    }

    /** What the catalog said to the last attempt; null where it did not refuse it. */
    RuntimeException refusal() {
      return refusal;
    }

    void committed(Entry entry, Head holder) {
      outcome = new Outcome(new Landed(entry, holder.withoutRows()), null);
    }

    private void ended(Throwable failure) {
      outcome = new Outcome(null, failure);
    }

    /** It goes no further; what may have landed is unknown, whatever went wrong since. */
    void failed(Throwable reason) {
      Throwable cause = attempts().causeOr(reason);
      ended(attempts().mayLand() ? TxnException.commitStateUnknown(key.txnId(), cause) : reason);
    }

    /** Its own thread can go no further, which is no outcome where it has one. */
    void stopped(Throwable reason) {
      if (isOpen()) {
        failed(reason);
      }
    }

    /** Nothing of it can have landed, and this is why it goes no further. */
    void notCommitted(RuntimeException reason) {
      attempts().settled();
      ended(reason);
    }

    /** A newer head does not hold it, and this is what the catalog said to it. */
    void failedAsRefused() {
      ended(TxnException.refused(key.txnId(), refusal));
    }

    boolean isOpen() {
      return outcome == null;
    }

    Landed result() {
      Outcome end = outcome;
      if (end.landed() != null) {
        return end.landed();
      }
      if (end.failure() instanceof Error e) {
        throw e;
      }
      throw end.failure() instanceof RuntimeException e
          ? e
          : new IllegalStateException(end.failure());
    }
  }

  /**
   * Wait until {@code member} has been appended or has failed, leading the group when nobody does.
   *
   * @param lead gets it and all that it leads; whom it leaves open goes on under the next one. What
   *     it throws is the leader's own, and is no failure of what may have landed
   */
  void run(Member member, BiConsumer<Member, List<Member>> lead) {
    join(member);
    try {
      for (List<Member> led = turn(member); !led.isEmpty(); led = turn(member)) {
        try {
          lead.accept(member, led);
        } catch (Throwable e) {
          member.stopped(e);
        } finally {
          release();
        }
      }
    } finally {
      leave(member);
    }
  }

  private synchronized void join(Member member) {
    waiting.add(member);
  }

  /** Those that a member is to lead; none when it is done. */
  private synchronized List<Member> turn(Member member) {
    while (member.isOpen() && led) {
      try {
        wait();
      } catch (InterruptedException e) {
        member.interrupted = true;
        if (!member.taken) {
          member.failed(cancelled()); // nobody has attempted anything for it
        }
      }
    }
    List<Member> members = member.isOpen() ? take(member) : List.of();
    led = led || !members.isEmpty();
    return members;
  }

  /** The leader and those who wait, the oldest first. */
  private List<Member> take(Member leader) {
    Set<Member> taken = new HashSet<>(Set.of(leader));
    for (Member one : waiting) {
      boolean follows = one.isOpen() && !one.isAlone() && !leader.isAlone();
      if (follows && taken.size() < MAX_MEMBERS) {
        taken.add(one);
      }
    }
    taken.forEach(one -> one.taken = true);
    return waiting.stream().filter(taken::contains).toList();
  }

  private synchronized void release() {
    led = false;
    notifyAll();
  }

  /** Whoever's thread is gone is led by nobody. */
  private synchronized void leave(Member member) {
    waiting.remove(member);
    if (member.interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  static TxnException cancelled() {
    return TxnException.invalidUsage(
        "57014", "cancelled while it waited to commit: nothing has been committed");
  }
}
