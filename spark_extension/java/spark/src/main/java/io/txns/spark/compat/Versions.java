package io.txns.spark.compat;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.iceberg.IcebergBuild;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataTypes;
import scala.Tuple3;

/** What this jar was tested with. Another minor version fails later in worse ways. */
public final class Versions {

  private static final TxnLogger LOG = TxnLogger.of(Versions.class);
  private static final Pattern VERSION = Pattern.compile("((\\d+\\.\\d+)\\.\\d+).*");
  // The same as in txns_spark's _versions.py.
  static final List<String> SPARK_TESTED = List.of("4.1.4", "4.1.3");
  static final List<String> ICEBERG_TESTED = List.of("1.12.0", "1.11.0");

  private static final String FUNCTION = "txns_version";

  private Versions() {}

  /** This jar's version. */
  static String ofJar() {
    Properties found = new Properties();
    try (InputStream stream =
        Versions.class.getResourceAsStream("/io/txns/spark/version.properties")) {
      found.load(stream);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return found.getProperty("version");
  }

  /** {@code SELECT txns_version()} tells a client which jar its server runs. */
  public static void injectFunction(SparkSessionExtensions extensions) {
    Literal version = Literal.create(ofJar(), DataTypes.StringType);
    extensions.injectFunction(
        new Tuple3<>(
            new FunctionIdentifier(FUNCTION),
            new ExpressionInfo(Literal.class.getName(), FUNCTION),
            arguments -> version));
  }

  /**
   * Refuses other minor versions of Spark and Iceberg and warns about other patches.
   *
   * @throws TxnException 0A000 that names the version
   */
  public static void check() {
    check("Spark", org.apache.spark.package$.MODULE$.SPARK_VERSION(), SPARK_TESTED);
    check("Iceberg", IcebergBuild.version(), ICEBERG_TESTED);
  }

  /**
   * @param tested the newest first
   */
  static void check(String product, String version, List<String> tested) {
    Matcher matcher = VERSION.matcher(version);
    Set<String> minors =
        tested.stream().map(Versions::minor).collect(Collectors.toCollection(LinkedHashSet::new));
    if (!matcher.matches() || !minors.contains(matcher.group(2))) {
      throw TxnException.unsupported(
          String.format(
              "%s %s does not work with this jar, which is for %s %s; install the jar for your"
                  + " version or use %s %s",
              product, version, product, String.join(" and ", minors), product, tested.get(0)));
    }
    if (!tested.contains(matcher.group(1))) {
      LOG.warn(
          "{} {} is not tested with this jar; tested: {}",
          product,
          version,
          String.join(", ", tested));
    }
  }

  private static String minor(String version) {
    return version.substring(0, version.lastIndexOf('.'));
  }
}
