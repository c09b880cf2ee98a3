package io.txns.iceberg;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * The transactions of one process that wait to be appended to one commit table.
 *
 * <p>One of the waiting threads leads: it takes all that wait and appends them in one swap, while
 * the others sleep. Handles of several sessions share a group, since they contend for one table.
 */
final class CommitGroup {
  /** By the commit table's uuid; a handful in the life of a process. */
  private static final Map<String, CommitGroup> GROUPS = new ConcurrentHashMap<>();

  /** More would make the swap's metadata large for everybody. */
  private static final int MAX_MEMBERS = 32;

  private final Deque<Member> waiting = new ArrayDeque<>();
  private boolean led;

  private CommitGroup() {}

  static CommitGroup of(String commitTableUuid) {
    return GROUPS.computeIfAbsent(commitTableUuid, uuid -> new CommitGroup());
  }

  /** One waiting transaction, and what is known of its attempts. */
  static final class Member {
    private final CommitLoop.Key key;
    private final CommitLoop.Attempt attempt;

    /** An attempt whose answer was lost stood on this head. */
    private Head unsettled;

    /** Whether no head has told yet that the last attempt did not land. */
    private boolean mayHaveLanded;

    private RuntimeException cause;
    private boolean tried;
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

    /** Whether somebody may have used its id before the attempt that comes. */
    boolean mayBeKnown() {
      return tried || !key.fresh();
    }

    /** A head that does not hold the entry: an attempt on an older one can never land. */
    void settle(Head head) {
      if (unsettled != null && !head.isSameVersion(unsettled.metadata())) {
        unsettled = null;
      }
      mayHaveLanded = unsettled != null;
    }

    /** A swap on {@code head} that was not won; a catalog's "lost" may be false. */
    void notWon(Head head, CommitLog.Swap swap) {
      tried = true;
      mayHaveLanded = true;
      cause = swap.cause();
      if (swap.outcome() == CommitLog.Swap.Outcome.MAYBE) {
        unsettled = head;
      }
    }

    void committed(Entry appended) {
      entry = appended;
    }

    /** It goes no further; what may have landed is unknown, whatever went wrong since. */
    void failed(RuntimeException reason) {
      failure =
          mayHaveLanded
              ? TxnException.commitStateUnknown(key.txnId(), cause == null ? reason : cause)
              : reason;
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
   * @param lead appends the members it is given; it leaves none of them open, or throws
   */
  void run(Member member, Consumer<List<Member>> lead) {
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
            if (!member.tried && waiting.remove(member)) {
              member.failed(cancelled()); // nobody has attempted anything for it
            }
          }
        }
        if (!member.isOpen()) {
          break;
        }
        led = true;
        members = take();
      }
      try {
        lead.accept(members);
      } catch (RuntimeException e) {
        leave(member, members, e);
      } catch (Error e) {
        leave(member, members, new IllegalStateException(e));
        throw e;
      } finally {
        synchronized (this) {
          led = false;
          notifyAll();
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** What stopped the leader is its own; the next one goes on with what is known of the others. */
  private synchronized void leave(Member leader, List<Member> members, RuntimeException reason) {
    for (Member one : members) {
      if (one == leader && one.isOpen()) {
        one.failed(reason);
      } else if (one.isOpen()) {
        waiting.addFirst(one);
      }
    }
  }

  private static TxnException cancelled() {
    return TxnException.invalidUsage(
        "57014", "cancelled while it waited to commit: nothing has been committed");
  }

  private List<Member> take() {
    List<Member> members = new ArrayList<>();
    while (!waiting.isEmpty() && members.size() < MAX_MEMBERS) {
      members.add(waiting.removeFirst());
    }
    return members;
  }
}
