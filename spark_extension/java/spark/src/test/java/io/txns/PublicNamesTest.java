package io.txns;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.spark.procedure.Procedures;
import java.io.IOException;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
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
  void catalogOptionsAreTheseTen() {
    assertThatThrownBy(() -> TxnConfig.from(Map.of("txns.nonsense", "")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining(
            "known=`[txns.apply, txns.autocommit-isolation, txns.commit-table,"
                + " txns.conflicts, txns.create-locations, txns.id-retention-days, txns.isolation,"
                + " txns.max-age-s, txns.register, txns.tidy-after]`");
  }

  /** Each stands in the sources as users write it, so that whoever looks for it finds it. */
  @Test
  void sessionOptionsAreTheseNine() throws IOException {
    assertThat(found("\"(spark\\.sql\\.txns\\.[a-z-]+)\"", Path.of("src/main/java")))
        .containsExactly(
            "spark.sql.txns.abort-on-error",
            "spark.sql.txns.apply",
            "spark.sql.txns.autocommit-isolation",
            "spark.sql.txns.conflicts",
            "spark.sql.txns.early-doom",
            "spark.sql.txns.idle-timeout-s",
            "spark.sql.txns.isolation",
            "spark.sql.txns.register",
            "spark.sql.txns.rehearse-conflicts");
  }

  @Test
  void proceduresAreTheseTen() {
    assertThat(Procedures.NAMES)
        .containsExactlyInAnyOrder(
            "apply",
            "forget",
            "off",
            "on",
            "purge",
            "register",
            "repair",
            "settings",
            "tidy",
            "transactions");
  }

  /** The jar is named by its module and version. */
  @Test
  void theJarIsNamedByWhatItIsFor() throws IOException {
    assertThat(found("<artifactId>(txns-spark.*)</artifactId>", Path.of("pom.xml")))
        .containsExactly("txns-spark-4.1_2.13");
  }

  /** What the group of a pattern matches in the files below a path, in order, each once. */
  private static Set<String> found(String pattern, Path below) throws IOException {
    Set<String> found = new TreeSet<>();
    try (Stream<Path> files = Files.walk(below)) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        Pattern.compile(pattern)
            .matcher(Files.readString(file))
            .results()
            .forEach(match -> found.add(match.group(1)));
      }
    }
    return found;
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
