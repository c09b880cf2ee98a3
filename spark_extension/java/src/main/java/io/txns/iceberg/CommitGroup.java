package io.txns.iceberg;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
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
final class CommitGroup {
  /** Those that somebody waits in, perhaps more. */
  private static final Map<CommitGroup, Sharing> GROUPS = new WeakHashMap<>();

  /** More would make the swap's metadata large for everybody. */
  private static final int MAX_MEMBERS = 32;

  private final List<Member> waiting = new ArrayList<>();
  private boolean led;

  CommitGroup() {}

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
  record Sharing(
      String catalogName,
      Map<String, String> catalogOptions,
      TableIdentifier commitTable,
      String uuid) {}

  /** The group of all whose swaps are the same. */
  static CommitGroup of(Sharing sharing) {
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

  /** What is known of the attempts to append one entry, as long as another one may follow. */
  static final class Attempts {
    private boolean tried;
    private Head stoodOn;
    private RuntimeException cause;

    /** Whether there was one. */
    boolean tried() {
      return tried;
    }

    /** The head that attempts stood on which may still land; null where none may. */
    Head stoodOn() {
      return stoodOn;
    }

    /** Whether one may still land, or has: nothing that they need may be deleted. */
    boolean mayLand() {
      return stoodOn != null;
    }

    /** A swap on {@code head} that was sent and not won: whatever was answered may be false. */
    void notWon(Head head, RuntimeException why) {
      tried = true;
      stoodOn = head;
      cause = why;
    }

    /** A head that does not hold the entry is past what the attempt asserted, or is not. */
    void settle(Head head) {
      if (stoodOn != null && head.isPast(stoodOn)) {
        settled();
      }
    }

    void settled() {
      stoodOn = null;
    }
  }

  /** One waiting transaction, and what became of it. */
  static final class Member {
    private final CommitLoop.Key key;
    private final CommitLoop.Attempt attempt;
    private boolean taken;
    private boolean alone;
    private RuntimeException refusal;
    private RuntimeException conflict;
    private long deadlineMs = Long.MAX_VALUE;
    private int tries;
    private Entry entry;
    private RuntimeException failure;

    Member(CommitLoop.Key key, CommitLoop.Attempt attempt) {
      this.key = key;
      this.attempt = attempt;
    }

    CommitLoop.Key key() {
      return key;
    }

    CommitLoop.Attempt attempt() {
      return attempt;
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

    /** Whether somebody may have used its id before the attempt that comes. */
    boolean mayBeKnown() {
      return attempts().tried() || key.origin() != CommitLoop.Origin.FRESH;
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

    /** What the catalog said to the last attempt; null where it did not refuse it. */
    RuntimeException refusal() {
      return refusal;
    }

    void clearRefusal() {
      refusal = null;
    }

    void committed(Entry appended) {
      entry = appended;
    }

    /** It goes no further; what may have landed is unknown, whatever went wrong since. */
    void failed(RuntimeException reason) {
      RuntimeException cause = attempts().cause == null ? reason : attempts().cause;
      failure = attempts().mayLand() ? TxnException.commitStateUnknown(key.txnId(), cause) : reason;
    }

    /** Nothing of it can have landed, and this is why it goes no further. */
    void notCommitted(RuntimeException reason) {
      attempts().settled();
      failure = reason;
    }

    /** A newer head does not hold it, and this is what the catalog said to it. */
    void failedAsRefused() {
      failure = TxnException.refused(key.txnId(), refusal);
    }

    boolean isOpen() {
      return entry == null && failure == null;
    }

    Entry result() {
      if (failure != null) {
        throw failure;
      }
      return entry;
    }
  }

  /**
   * Wait until {@code member} has been appended or has failed, leading the group when nobody does.
   *
   * @param lead gets it and all that it leads; whom it leaves open goes on under the next one
   */
  void run(Member member, BiConsumer<Member, List<Member>> lead) {
    boolean interrupted = false;
    synchronized (this) {
      waiting.add(member);
    }
    while (true) {
      List<Member> members;
      synchronized (this) {
        while (member.isOpen() && led) {
          try {
            wait();
          } catch (InterruptedException e) {
            interrupted = true;
            if (!member.taken && waiting.remove(member)) {
              member.failed(cancelled()); // nobody has attempted anything for it
            }
          }
        }
        if (!member.isOpen()) {
          break;
        }
        led = true;
        members = take(member);
      }
      try {
        lead.accept(member, members);
      } catch (RuntimeException e) {
        if (member.isOpen()) {
          member.failed(e); // what stops the leader is its own
        }
      } catch (Error e) {
        member.failed(new IllegalStateException(e));
        throw e;
      } finally {
        release(members);
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** The leader and those who wait, the oldest first. */
  private List<Member> take(Member leader) {
    Set<Member> taken = new HashSet<>(Set.of(leader));
    for (Member one : waiting) {
      if (!leader.isAlone() && !one.isAlone() && taken.size() < MAX_MEMBERS) {
        taken.add(one);
      }
    }
    List<Member> members = waiting.stream().filter(taken::contains).toList();
    waiting.removeAll(taken);
    members.forEach(one -> one.taken = true);
    return members;
  }

  private synchronized void release(List<Member> members) {
    waiting.addAll(0, members.stream().filter(Member::isOpen).toList());
    led = false;
    notifyAll();
  }

  private static TxnException cancelled() {
    return TxnException.invalidUsage(
        "57014", "cancelled while it waited to commit: nothing has been committed");
  }
}
