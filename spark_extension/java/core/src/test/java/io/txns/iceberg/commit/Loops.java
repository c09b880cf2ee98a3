package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.catalog.Services;
import java.util.Optional;

/** Commit loops over the parts of a handle, for tests that lead groups of their own. */
final class Loops {
  private Loops() {}

  static CommitLoop over(Services services, TxnClock clock, CommitGroup group) {
    HeadBounds bounds =
        new HeadBounds(services.log(), services.applier(), services.tidier(), clock);
    return new CommitLoop(
        services.log(), services.timeline(), bounds, clock, uuid -> group, Optional::empty);
  }
}
