package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;

import com.codahale.metrics.MetricRegistry;
import io.txns.spark.SparkTestBase;
import org.junit.jupiter.api.Test;

/** The gauges of a lake, as a driver's sessions have seen it. */
class WatchedLakeTest extends SparkTestBase {
  private static final String LAKE = ".lake.txns.commits";

  private static double value(MetricRegistry shown, String name) {
    return (Double) shown.getGauges().get(name + LAKE).getValue();
  }

  @Test
  void aDriverShowsTheNewestHeadOfItsSessions() {
    spark.sql("CREATE TABLE " + table + " (id BIGINT) USING iceberg");
    MetricRegistry shown = new MetricRegistry();
    DriverMetrics.INSTANCE.register(shown);
    spark.sql("CALL lake.system.tidy()");
    double entries = value(shown, "txns_head_entries");
    double bytes = value(shown, "txns_head_bytes");
    double upper = value(shown, "txns_upper_timestamp_seconds");
    other.sql("INSERT INTO " + table + " VALUES (1)");
    assertThat(value(shown, "txns_head_entries")).isEqualTo(entries + 1);
    assertThat(value(shown, "txns_head_bytes")).isGreaterThan(bytes + 100);
    assertThat(value(shown, "txns_upper_timestamp_seconds")).isGreaterThan(upper);
    assertThat(value(shown, "txns_clock_skew_seconds")).isBetween(-600.0, 1.0);
    assertThat(value(shown, "txns_oldest_maybe_unapplied_age_seconds")).isBetween(0.0, 600.0);
    assertThat(value(shown, "txns_off")).isZero();
    other.sql("CALL lake.system.off()");
    try {
      assertThat(value(shown, "txns_off")).isEqualTo(1);
    } finally {
      other.sql("CALL lake.system.on()");
    }
    assertThat(value(shown, "txns_off")).isZero();
  }

  /** A catalog that is first used after the plugin has begun has its gauges, too. */
  @Test
  void aLakeOfLaterIsShown() {
    MetricRegistry shown = new MetricRegistry();
    DriverMetrics.INSTANCE.register(shown);
    spark.conf().set("spark.sql.catalog.later", "io.txns.spark.TxnSparkCatalog");
    for (String option : new String[] {"type", "uri", "warehouse", "jdbc.schema-version"}) {
      spark
          .conf()
          .set(
              "spark.sql.catalog.later." + option,
              spark.conf().get("spark.sql.catalog.uncached." + option));
    }
    spark.conf().set("spark.sql.catalog.later.txns.commit-table", "txns.others");
    spark.sql("SHOW NAMESPACES IN later").collectAsList();
    assertThat(shown.getGauges().get("txns_head_entries.later.txns.others").getValue())
        .isEqualTo(0.0);
  }
}
