package io.txns.iceberg.simulation;

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
  private int standing;
  private long changes;

  private record Monitor(SimulatedThread owner, int depth) {}

  /** How often one was let go, or notice given, while somebody stood by for that. */
  long changes() {
    return changes;
  }

  /** What {@code synchronized} begins with. */
  void enter(SimulatedThread thread, Object of) {
    take(thread, of, 1);
  }

  private void take(SimulatedThread thread, Object of, int times) {
    Monitor monitor = held.get(of);
    while (monitor != null && monitor.owner() != thread) {
      standBy(thread);
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
      giveNotice();
    }
  }

  /** {@link Object#wait()}: any change may wake it, as the JDK permits. */
  void await(SimulatedThread thread, Object of) {
    Monitor monitor = held.get(of);
    if (monitor == null || monitor.owner() != thread) {
      throw new IllegalMonitorStateException("not the owner of " + of.getClass());
    }
    letGo(of, monitor, 0);
    standBy(thread);
    take(thread, of, monitor.depth());
  }

  /** {@link Object#notifyAll()}, and for one of them as well. */
  void giveNotice() {
    changes += standing > 0 ? 1 : 0; // lines do not tell what the first use of a class has locked
  }

  private void standBy(SimulatedThread thread) {
    standing++;
    try {
      thread.standBy();
    } finally {
      standing--;
    }
  }
}
