package io.txns.spark.session;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import io.txns.iceberg.TxnMetrics;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What all sessions of this driver count; shown by Spark's metrics system where the plugin {@code
 * io.txns.spark.TxnMetricsPlugin} is on, and counted without it all the same.
 */
public final class DriverMetrics implements TxnMetrics {
  /** Those of this driver. */
  public static final DriverMetrics INSTANCE = new DriverMetrics();

  private static final double MS_PER_SECOND = 1000;

  private final Map<Count, Counter> counts = new EnumMap<>(Count.class);
  private final Map<Phase, Took> took = new EnumMap<>(Phase.class);

  private record Took(AtomicLong count, AtomicLong sumMs, AtomicLong maxMs) {}

  private DriverMetrics() {
    for (Count each : Count.values()) {
      counts.put(each, new Counter());
    }
    for (Phase each : Phase.values()) {
      took.put(each, new Took(new AtomicLong(), new AtomicLong(), new AtomicLong()));
    }
  }

  @Override
  public void count(Count what, long by) {
    counts.get(what).inc(by);
  }

  @Override
  public void took(Phase phase, long ms) {
    Took of = took.get(phase);
    of.count().incrementAndGet();
    of.sumMs().addAndGet(ms);
    of.maxMs().accumulateAndGet(ms, Math::max);
  }

  /** Show them in a registry; the names are those of docs/operations.md, labels behind a dot. */
  public void register(MetricRegistry registry) {
    counts.forEach((each, counter) -> registry.register(each.metric(), counter));
    took.forEach(
        (phase, of) -> {
          String behind = "." + phase.word();
          gauge(registry, "txns_phase_seconds_count" + behind, of.count()::get);
          gauge(
              registry, "txns_phase_seconds_sum" + behind, () -> of.sumMs().get() / MS_PER_SECOND);
          gauge(
              registry, "txns_phase_seconds_max" + behind, () -> of.maxMs().get() / MS_PER_SECOND);
        });
  }

  private static void gauge(MetricRegistry registry, String name, Gauge<? extends Number> gauge) {
    registry.register(name, gauge);
  }
}
