package io.txns.spark.compat;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import org.junit.jupiter.api.Test;

class VersionFunctionTest extends SparkTestBase {

  @Test
  void tellsTheVersionOfTheJar() {
    assertThat(rows(spark, "SELECT txns_version()"))
        .singleElement()
        .asString()
        .matches("\\d+\\.\\d+\\.\\d+.*");
  }
}
