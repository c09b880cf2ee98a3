package io.txns.spark;

import io.txns.spark.session.DriverMetrics;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * Shows what transactions count, and the heads that sessions have loaded, in Spark's metrics system
 * ({@code spark.plugins}): in whatever sink it has, under {@code
 * <application>.driver.plugin.io.txns.spark.TxnMetricsPlugin}.
 *
 * <p>Nothing else needs it.
 */
public final class TxnMetricsPlugin implements SparkPlugin {

  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext context, PluginContext plugin) {
        return Map.of();
      }

      @Override
      public void registerMetrics(String appId, PluginContext plugin) {
        DriverMetrics.INSTANCE.register(plugin.metricRegistry());
      }
    };
  }

  /** None: transactions begin and commit on the driver. */
  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }
}
