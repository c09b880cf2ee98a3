package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Limits;
import java.util.Comparator;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.Collectors;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Keeps the head bounded: whoever meets a large one applies and tidies before the swap.
 *
 * <p>Docs/spec.md 10. A commit that has no room in it all the same is refused (4.7). Nothing
 * depends on the first, which is tried again by the next who meets it; entries that cannot leave,
 * as those of a table in quarantine, are no reason to try at each commit. Threads may share it, and
 * all who commit in one group know of each other's tries.
 */
public final class HeadBounds {
  private static final TxnLogger LOG = TxnLogger.of(HeadBounds.class);

  /** The part of a bound by which a head has to grow until it is tried again. */
  private static final int PART = 16;

  /** After how long a head that could not be made small is tried again, though it has not grown. */
  private static final long AGAIN_MS = 60_000;

  private static final int NAMED = 5;

  private final CommitLog log;
  private final Applier applier;
  private final Tidier tidier;
  private final TxnClock clock;

  /** How large a head was after it had been applied and tidied, and when in ms that was. */
  private record Left(int entries, long size, long atMs) {}

  /** What all know of each other's tries who commit in one group. */
  static final class Tries {
    private final ReentrantLock lock = new ReentrantLock();
    private volatile Left left;
  }

  public HeadBounds(CommitLog log, Applier applier, Tidier tidier, TxnClock clock) {
    this.log = log;
    this.applier = applier;
    this.tidier = tidier;
    this.clock = clock;
  }

  /**
   * Apply and tidy where the newest head that was seen is large; errors are logged. One thread
   * does, the others go on meanwhile.
   */
  void keep(Tries tries) {
    if (!isDue(log.newest(), tries) || !tries.lock.tryLock()) {
      return;
    }
    try {
      makeSmall(tries);
    } finally {
      tries.lock.unlock();
    }
  }

  /**
   * Apply and tidy for a transaction that has no room, or wait for who does.
   *
   * @return whether there may be room now
   */
  boolean makeRoom(Tries tries) {
    tries.lock.lock();
    try {
      if (isDue(log.load(), tries)) {
        makeSmall(tries);
        return true;
      }
      return !isLarge(log.newest());
    } finally {
      tries.lock.unlock();
    }
  }

  private boolean isDue(Head head, Tries tries) {
    Left last = tries.left;
    return isLarge(head)
        && (last == null
            || head.state().entries().size() - last.entries() > Limits.HEAD_ENTRIES / PART
            || head.recordBytes() - last.size() > Limits.HEAD_BYTES / PART
            || Math.abs(clock.nowMs() - last.atMs()) > AGAIN_MS);
  }

  private void makeSmall(Tries tries) {
    try {
      applier.applyAll();
      if (!applier.isHanging() && tidier.tidy() == 0) {
        tidier.tidy(); // it takes longer than a commit, and may have lost against one
      }
    } catch (RuntimeException e) {
      LOG.warn("the log stays large, the next who meets it tries again", e);
    }
    Head head = log.newest();
    tries.left = new Left(head.state().entries().size(), head.recordBytes(), clock.nowMs());
  }

  private static boolean isLarge(Head head) {
    return head.state().entries().size() > Limits.HEAD_ENTRIES
        || head.recordBytes() > Limits.HEAD_BYTES;
  }

  /**
   * A transaction for which a head has no room: what fills it has to leave first.
   *
   * @param size how many bytes of records it would have, or have of a table
   * @param most how many it may have
   * @param what for what there is no room
   */
  static TxnException full(Head head, long size, long most, String what) {
    return TxnException.tooMuch(
        String.format(
            "the log has no room for %s: it holds %d entries, most of them not applied to %s; find out why with `txns status`, then `txns apply`, or `txns repair` for a"
                + " table in quarantine (in SQL CALL system.apply() and the repair procedures), and"
                + " run the transaction again; bytes=`%d` most=`%d`",
            what, head.state().entries().size(), mostNamed(head), size, most));
  }

  /** The tables of most entries. */
  private static String mostNamed(Head head) {
    Map<TableIdentifier, Long> counts =
        head.state().entries().stream()
            .flatMap(entry -> entry.carried().stream())
            .collect(Collectors.groupingBy(head.state()::nameOf, Collectors.counting()));
    return counts.entrySet().stream()
        .sorted(Map.Entry.comparingByValue(Comparator.reverseOrder()))
        .limit(NAMED)
        .map(each -> each.getKey().toString())
        .collect(Collectors.joining(", "));
  }
}
