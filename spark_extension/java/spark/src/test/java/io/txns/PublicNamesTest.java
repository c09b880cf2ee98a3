package io.txns;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.catalog.Catalog;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What users write into configurations and programs keeps its name, wherever code moves. */
class PublicNamesTest {

  @ParameterizedTest
  @CsvSource({
    "io.txns.spark.TxnSparkCatalog, true",
    "io.txns.spark.TxnSparkSessionCatalog, true",
    "io.txns.spark.TxnSparkExtensions, true",
    "io.txns.iceberg.TxnCatalog, true",
    "io.txns.spark.TxnSqlException, false",
    "io.txns.iceberg.TxnHandle, false",
    "io.txns.iceberg.TxnConfig, false",
    "io.txns.iceberg.BeginOptions, false",
    "io.txns.iceberg.Isolation, false",
    "io.txns.iceberg.TxnException, false",
    "io.txns.iceberg.ErrorKind, false",
    "io.txns.iceberg.Committed, false",
    "io.txns.iceberg.TransactionRow, false",
    "io.txns.iceberg.TxnClock, false"
  })
  void aClassThatIsConfiguredHasAPublicConstructor(String name, boolean configured)
      throws ReflectiveOperationException {
    Class<?> found = Class.forName(name);
    assertThat(Modifier.isPublic(found.getModifiers())).isTrue();
    if (configured) {
      assertThat(Modifier.isPublic(found.getConstructor().getModifiers())).isTrue();
    }
  }

  @Test
  void configuredClassesAreWhatTheirEnginesLoad() throws ReflectiveOperationException {
    assertThat(Catalog.class).isAssignableFrom(Class.forName("io.txns.iceberg.TxnCatalog"));
    assertThat(TableCatalog.class).isAssignableFrom(Class.forName("io.txns.spark.TxnSparkCatalog"));
    assertThat(CatalogExtension.class)
        .isAssignableFrom(Class.forName("io.txns.spark.TxnSparkSessionCatalog"));
    assertThat(scala.Function1.class)
        .isAssignableFrom(Class.forName("io.txns.spark.TxnSparkExtensions"));
    assertThat(AnalysisException.class)
        .isAssignableFrom(Class.forName("io.txns.spark.TxnSqlException"));
  }

  @Test
  void catalogOptionsAreTheseEight() {
    assertThatThrownBy(() -> TxnConfig.from(Map.of("txns.nonsense", "")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining(
            "known=`[txns.apply, txns.autocommit-isolation, txns.commit-table,"
                + " txns.id-retention-days, txns.isolation, txns.max-age-s, txns.register,"
                + " txns.tidy-after]`");
  }

  @ParameterizedTest
  @ValueSource(strings = {"txns.delegate.type", "TXNS.Delegate.uri"})
  void theRealCatalogsOptionsStandUnderOnePrefix(String option) {
    assertThat(TxnConfig.from(Map.of(option, "x"))).isEqualTo(TxnConfig.defaults());
  }

  @Test
  void eachKindOfErrorHasItsSqlState() {
    assertThat(
            Stream.of(ErrorKind.values())
                .collect(Collectors.toMap(ErrorKind::condition, ErrorKind::sqlState)))
        .isEqualTo(
            Map.of(
                "TXNS_CONFLICT", "40001",
                "TXNS_COMMIT_STATE_UNKNOWN", "08007",
                "TXNS_INVALID_USAGE", "42000",
                "TXNS_QUARANTINED", "55000",
                "TXNS_FOREIGN_WRITE", "55000",
                "TXNS_CORRUPT_LOG", "XX001",
                "TXNS_UNSUPPORTED", "0A000"));
  }
}
