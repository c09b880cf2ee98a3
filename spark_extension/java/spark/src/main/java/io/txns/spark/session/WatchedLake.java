package io.txns.spark.session;

import com.codahale.metrics.Gauge;
import io.txns.iceberg.SeenHead;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnHandle;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.ToDoubleFunction;

/**
 * A lake as the sessions of this driver have seen it: the newest head that any of them has loaded
 * or made. Who looks loads nothing, and keeps no session.
 */
final class WatchedLake {
  private static final double MS_PER_SECOND = 1000;

  private final Set<TxnHandle> handles = Collections.newSetFromMap(new WeakHashMap<>());
  private SeenHead last = SeenHead.NONE;

  synchronized void add(TxnHandle handle) {
    handles.add(handle);
  }

  /** By their names in docs/operations.md, which are Python's. */
  Map<String, Gauge<Double>> gauges() {
    return Map.of(
        "txns_head_entries", gauge(SeenHead::entries),
        "txns_head_bytes", gauge(SeenHead::bytes),
        "txns_oldest_maybe_unapplied_age_seconds",
            gauge(head -> head.oldestMaybeUnappliedAgeMs(nowMs()) / MS_PER_SECOND),
        "txns_clock_skew_seconds", gauge(head -> head.skewMs(nowMs()) / MS_PER_SECOND),
        "txns_upper_timestamp_seconds", gauge(head -> head.upperTs() / MS_PER_SECOND),
        "txns_off", gauge(head -> head.off() ? 1 : 0));
  }

  private Gauge<Double> gauge(ToDoubleFunction<SeenHead> of) {
    return () -> of.applyAsDouble(newest());
  }

  private synchronized SeenHead newest() {
    for (TxnHandle handle : handles) {
      SeenHead seen = handle.seen();
      last = seen.isNewer(last) ? seen : last;
    }
    return last;
  }

  private static long nowMs() {
    return TxnClock.system().nowMs();
  }
}
