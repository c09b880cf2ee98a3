package io.txns.iceberg.stage;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.iceberg.Snapshot;

/** The writes that run in a transaction, each in a thread of its own, and what is noted of them. */
public final class Writes {
  private final Map<Thread, List<WrittenSnapshot>> made = new ConcurrentHashMap<>();
  private final Set<Thread> withoutEmpty = ConcurrentHashMap.newKeySet();
  private final Set<Thread> ofTasks = ConcurrentHashMap.newKeySet();

  /** Ids of snapshots whose data files were written for them. */
  private final Set<Long> own = ConcurrentHashMap.newKeySet();

  Writes() {}

  /** Run a statement; give the snapshots that it stages or, in an implicit one, commits. */
  public List<WrittenSnapshot> snapshotsOf(Runnable statement) {
    List<WrittenSnapshot> snapshots = new ArrayList<>();
    made.put(Thread.currentThread(), snapshots);
    try {
      statement.run();
      return snapshots;
    } finally {
      made.remove(Thread.currentThread());
    }
  }

  /** Run a statement; a row-level write that is given no file is then no commit. */
  public <T> T withoutEmptySnapshots(Supplier<T> statement) {
    withoutEmpty.add(Thread.currentThread());
    try {
      return statement.get();
    } finally {
      withoutEmpty.remove(Thread.currentThread());
    }
  }

  /**
   * Run the write of an engine: the data files that it commits are those that its tasks have
   * written, so they are deleted when it is undone. Files that come in any other way were given to
   * the transaction, and stay.
   */
  public <T> T ofTasks(Callable<T> write) throws Exception {
    boolean outermost = ofTasks.add(Thread.currentThread());
    try {
      return write.call();
    } finally {
      if (outermost) {
        ofTasks.remove(Thread.currentThread());
      }
    }
  }

  /** Whether this thread runs a statement that leaves no empty snapshot. */
  public boolean leavesNoEmptySnapshot() {
    return withoutEmpty.contains(Thread.currentThread());
  }

  /** Whether the data files of a snapshot were written for it. */
  boolean hasOwnFiles(Snapshot snapshot) {
    return own.contains(snapshot.snapshotId());
  }

  /** Note what this thread has staged or committed. */
  public void note(List<WrittenSnapshot> snapshots) {
    if (ofTasks.contains(Thread.currentThread())) {
      snapshots.forEach(snapshot -> own.add(snapshot.id()));
    }
    List<WrittenSnapshot> noted = made.get(Thread.currentThread());
    if (noted != null) {
      noted.addAll(snapshots);
    }
  }
}
