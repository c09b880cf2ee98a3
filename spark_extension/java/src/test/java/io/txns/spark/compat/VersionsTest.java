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
    assertThatCode(() -> Versions.check("Spark", version, "4.1", "3", "4"))
        .doesNotThrowAnyException();
  }

  @ParameterizedTest
  @ValueSource(strings = {"4.0.5", "4.2.1", "5.1.3", "4.10.0", "unknown"})
  void refusesAnotherMinorVersionByName(String version) {
    assertThatThrownBy(() -> Versions.check("Spark", version, "4.1", "3", "4"))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("Spark " + version)
        .hasMessageContaining("4.1.3");
  }

  @Test
  void theVersionsOfThisBuildAreTested() {
    assertThatCode(Versions::check).doesNotThrowAnyException();
  }
}
