package io.txns.iceberg.log;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnLogger;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Function;
import org.apache.iceberg.io.FileIO;

/**
 * Removes what newer versions of the commit table have no need of, an hour after it was superseded:
 * metadata files, and what a tidy leaves behind.
 *
 * <p>The last version of each minute is kept, with all that it names, so that a catalog that was
 * restored finds it. Those files, and what a process that has ended has not come to, are {@code
 * txns tidy --files}'.
 *
 * <p>Iceberg's own delete-after-commit would do it inside the swap, and was measured to make it
 * twice as slow.
 */
public final class SupersededFiles {
  private static final TxnLogger LOG = TxnLogger.of(SupersededFiles.class);

  /** How long what is superseded stays at least, in ms: readers have learnt of it, and backups. */
  static final long GRACE_MS = 60 * 60 * 1000L;

  /** How many files wait at most: one that finds no room is left to {@code txns tidy --files}. */
  static final int QUEUED = 100_000;

  private static final long MINUTE_MS = 60 * 1000L;

  private record Superseded(FileIO io, String location, long dueMs) {}

  private final TxnClock clock;
  private final Function<String, Optional<Boolean>> mayRemove;
  private final int queued;
  private final Deque<Superseded> queue = new ArrayDeque<>();

  private final ExecutorService background =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "txns-superseded-files");
            thread.setDaemon(true);
            return thread;
          });

  /** Whether a thread removes what is due: there is one at a time. */
  private boolean removing;

  /**
   * @param mayRemove whether a file is to be removed at all, empty for who asks again later; asked
   *     late, since it may ask the catalog
   */
  SupersededFiles(TxnClock clock, Function<String, Optional<Boolean>> mayRemove) {
    this(clock, mayRemove, QUEUED);
  }

  SupersededFiles(TxnClock clock, Function<String, Optional<Boolean>> mayRemove, int queued) {
    this.clock = clock;
    this.mayRemove = mayRemove;
    this.queued = queued;
  }

  /**
   * Whether a minute ends between two uppers in ms, the first one of which is not greater.
   *
   * <p>Of two versions that follow each other the first one is kept then. Of a file that was named
   * from the one upper on, and is no more at the other, some kept version names it then.
   */
  public static boolean endsMinute(long upper, long later) {
    return upper / MINUTE_MS != later / MINUTE_MS;
  }

  /**
   * Note a file that no kept version names, if any; remove those whose time has come.
   *
   * <p>In a thread of this log's own: one whose storage hangs keeps no other log's files, and none
   * is removed with the rights of who uses another. It ends when nothing was due for a minute.
   */
  synchronized void add(FileIO io, String location) {
    if (!removing && isDue()) {
      removing = true;
      background.execute(() -> LogFields.NONE.alone(this::removeDue));
    }
    if (location != null) {
      await(io, location, clock.elapsedMs());
    }
  }

  /** A clock that is set far ahead would end every hour. */
  private boolean isDue() {
    return !queue.isEmpty() && queue.peekFirst().dueMs() <= clock.elapsedMs();
  }

  private void removeDue() {
    for (Superseded due = next(); due != null; due = next()) {
      delete(due);
    }
  }

  /** The next one that is due; after the last one somebody else begins. */
  private synchronized Superseded next() {
    removing = isDue();
    return removing ? queue.removeFirst() : null;
  }

  private synchronized void await(FileIO io, String location, long nowMs) {
    if (queue.size() < queued) {
      queue.addLast(new Superseded(io, location, nowMs + GRACE_MS));
    }
  }

  private void delete(Superseded due) {
    try {
      Optional<Boolean> answer = mayRemove.apply(due.location());
      if (answer.isEmpty()) {
        await(due.io(), due.location(), clock.elapsedMs());
      } else if (answer.get()) {
        due.io().deleteFile(due.location());
      }
    } catch (RuntimeException | Error e) { // of a driver, say: the next file has its turn
      LOG.debug("a superseded file stays: {}", due.location(), e);
    }
  }
}
