package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.catalog.Services;
import java.util.Arrays;
import java.util.Optional;

/** Commit loops over the parts of a handle, for tests that lead groups of their own. */
final class Loops {
  private Loops() {}

  /** Wait until a thread waits in its group; it may wait for other things before. */
  static void awaitInGroup(Thread thread) {
    while (thread.getState() != Thread.State.WAITING || !isInGroup(thread)) {
      Thread.onSpinWait();
    }
  }

  private static boolean isInGroup(Thread thread) {
    return Arrays.stream(thread.getStackTrace())
        .anyMatch(frame -> frame.getClassName().equals(CommitGroup.class.getName()));
  }

  static CommitLoop over(Services services, TxnClock clock, CommitGroup group) {
    HeadBounds bounds =
        new HeadBounds(services.log(), services.applier(), services.tidier(), clock);
    return new CommitLoop(
        services.log(), services.timeline(), bounds, clock, uuid -> group, Optional::empty);
  }
}
