package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

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
