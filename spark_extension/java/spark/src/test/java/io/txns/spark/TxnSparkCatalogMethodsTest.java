package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Set;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.sql.connector.catalog.Column;
import org.junit.jupiter.api.Test;

class TxnSparkCatalogMethodsTest {
  private static final Set<String> OF_TABLES =
      Set.of(
          "loadTable",
          "createTable",
          "alterTable",
          "dropTable",
          "purgeTable",
          "renameTable",
          "stageCreate",
          "stageReplace",
          "stageCreateOrReplace");

  /** Spark's and Iceberg's next overload would be a way past the checks of a write. */
  @Test
  void everyWayToLoadOrChangeATableIsOverridden() {
    assertThat(Arrays.stream(SparkCatalog.class.getMethods()))
        .filteredOn(method -> OF_TABLES.contains(method.getName()))
        .filteredOn(method -> !method.isBridge() && !passesOn(method))
        .hasSizeGreaterThanOrEqualTo(16)
        .allMatch(TxnSparkCatalogMethodsTest::isOurs);
  }

  /** Of columns: the default in Spark's interface, which calls the one that takes a schema. */
  private static boolean passesOn(Method method) {
    return method.isDefault() && Arrays.asList(method.getParameterTypes()).contains(Column[].class);
  }

  private static boolean isOurs(Method method) {
    try {
      return TxnSparkCatalog.class
          .getMethod(method.getName(), method.getParameterTypes())
          .getDeclaringClass()
          .getPackageName()
          .startsWith("io.txns.");
    } catch (NoSuchMethodException e) {
      return false;
    }
  }
}
