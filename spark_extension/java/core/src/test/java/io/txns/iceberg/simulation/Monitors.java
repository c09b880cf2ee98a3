package io.txns.iceberg.simulation;

import java.util.EnumMap;
import java.util.IdentityHashMap;
import java.util.Map;

/**
 * The monitors of one simulated process, in the place of the JVM's: whom one keeps out, or who
 * waits in one, stands in a step, so that the world decides who goes on.
 *
 * <p>Processes share nothing, so the monitor of a class is another one in each.
 */
final class Monitors {
  private final Map<Object, Monitor> held = new IdentityHashMap<>();
  private final Map<Object, Long> notices = new IdentityHashMap<>();
  private final Map<Change, Long> changes = new EnumMap<>(Change.class);
  private int standing;

  /** What somebody stands by for. */
  enum Change {
    RELEASED,
    NOTICED
  }

  private record Monitor(SimulatedThread owner, int depth) {}

  /** How often there was one while somebody stood by. */
  long count(Change change) {
    return changes.getOrDefault(change, 0L);
  }

  /** What {@code synchronized} begins with. */
  void enter(SimulatedThread thread, Object of) {
    take(thread, of, 1);
  }

  private void take(SimulatedThread thread, Object of, int times) {
    Monitor monitor = held.get(of);
    while (monitor != null && monitor.owner() != thread) {
      standBy(thread, Change.RELEASED);
      monitor = held.get(of);
    }
    held.put(of, new Monitor(thread, (monitor == null ? 0 : monitor.depth()) + times));
  }

  /** What {@code synchronized} ends with. */
  void exit(SimulatedThread thread, Object of) {
    Monitor monitor = held.get(of);
    if (monitor != null && monitor.owner() == thread) {
      letGo(of, monitor, monitor.depth() - 1);
    } else if (!thread.isDead()) { // who dies while it waits has none
      throw new IllegalMonitorStateException("not the owner of " + of.getClass());
    }
  }

  private void letGo(Object of, Monitor monitor, int left) {
    if (left > 0) {
      held.put(of, new Monitor(monitor.owner(), left));
    } else {
      held.remove(of);
      note(Change.RELEASED);
    }
  }

  /** {@link Object#wait()}: a notice of this very monitor wakes it. */
  void await(SimulatedThread thread, Object of) {
    Monitor monitor = owned(thread, of);
    long seen = notices.getOrDefault(of, 0L);
    letGo(of, monitor, 0);
    while (notices.getOrDefault(of, 0L) == seen) {
      standBy(thread, Change.NOTICED);
    }
    take(thread, of, monitor.depth());
  }

  /** {@link Object#notifyAll()}, and for one of them as well. */
  void giveNotice(SimulatedThread thread, Object of) {
    owned(thread, of);
    notices.merge(of, 1L, Long::sum);
    note(Change.NOTICED);
  }

  private Monitor owned(SimulatedThread thread, Object of) {
    Monitor monitor = held.get(of);
    if (monitor == null || monitor.owner() != thread) {
      throw new IllegalMonitorStateException("not the owner of " + of.getClass());
    }
    return monitor;
  }

  private void note(Change change) {
    if (standing > 0) { // lines do not tell what the first use of a class has locked
      changes.merge(change, 1L, Long::sum);
    }
  }

  private void standBy(SimulatedThread thread, Change change) {
    standing++;
    try {
      thread.standBy(change);
    } finally {
      standing--;
    }
  }
}
