package io.txns.spark.compat;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.TxnException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class VersionsTest {

  @ParameterizedTest
  @ValueSource(strings = {"4.1.3", "4.1.4", "4.1.9", "4.1.3-amzn-0"})
  void acceptsAnyPatch(String version) {
    assertThatCode(() -> Versions.check("Spark", version, Versions.SPARK_TESTED))
        .doesNotThrowAnyException();
  }

  @ParameterizedTest
  @ValueSource(strings = {"4.0.5", "4.2.1", "5.1.3", "4.10.0", "unknown"})
  void refusesAnotherMinorVersionByName(String version) {
    assertThatThrownBy(() -> Versions.check("Spark", version, Versions.SPARK_TESTED))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("Spark " + version)
        .hasMessageContaining("which is for Spark 4.1;")
        .hasMessageContaining("use Spark 4.1.4");
  }

  @ParameterizedTest
  @ValueSource(strings = {"1.12.0", "1.12.3", "1.11.0", "1.11.1"})
  void acceptsTwoMinorVersionsOfIceberg(String version) {
    assertThatCode(() -> Versions.check("Iceberg", version, Versions.ICEBERG_TESTED))
        .doesNotThrowAnyException();
  }

  @ParameterizedTest
  @ValueSource(strings = {"1.10.2", "1.13.0", "1.1.2", "2.12.0"})
  void refusesOtherMinorVersionsOfIceberg(String version) {
    assertThatThrownBy(() -> Versions.check("Iceberg", version, Versions.ICEBERG_TESTED))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("Iceberg " + version)
        .hasMessageContaining("which is for Iceberg 1.12 and 1.11;")
        .hasMessageContaining("use Iceberg 1.12.0");
  }

  @Test
  void theVersionsOfThisBuildAreTested() {
    assertThatCode(Versions::check).doesNotThrowAnyException();
  }
}
