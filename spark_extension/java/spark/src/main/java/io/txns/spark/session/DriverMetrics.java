package io.txns.spark.session;

import com.codahale.metrics.Counter;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnMetrics;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What all sessions of this driver count, and the heads that they have loaded; shown by Spark's
 * metrics system where the plugin {@code io.txns.spark.TxnMetricsPlugin} is on, and counted without
 * it all the same.
 */
public final class DriverMetrics implements TxnMetrics {
  /** Those of this driver. */
  public static final DriverMetrics INSTANCE = new DriverMetrics();

  private static final double MS_PER_SECOND = 1000;

  private final Map<Count, Counter> counts = new EnumMap<>(Count.class);
  private final Map<Phase, Took> took = new EnumMap<>(Phase.class);
  private final Map<String, WatchedLake> lakes = new HashMap<>();
  private MetricRegistry shown;

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

  /**
   * Show what the heads of a lake say that its sessions have loaded; nothing is loaded for that.
   *
   * @param commitTable its name in the catalog
   */
  public synchronized void watch(String catalog, String commitTable, TxnHandle handle) {
    String name = "." + catalog + "." + commitTable;
    WatchedLake lake = lakes.get(name);
    if (lake == null) {
      lake = new WatchedLake();
      lakes.put(name, lake);
      show(name, lake);
    }
    lake.add(handle);
  }

  private void show(String lake, WatchedLake watched) {
    if (shown != null) {
      watched.gauges().forEach((name, gauge) -> gauge(shown, name + lake, gauge));
    }
  }

  /** Show them in a registry; the names are those of docs/operations.md, labels behind a dot. */
  public synchronized void register(MetricRegistry registry) {
    shown = registry;
    lakes.forEach(this::show);
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
