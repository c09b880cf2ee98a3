package io.txns.spark.compat;

import io.txns.iceberg.TxnException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.IcebergBuild;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataTypes;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple3;

/** What this jar was tested with. Another minor version fails later in worse ways. */
public final class Versions {

  private static final Logger LOG = LoggerFactory.getLogger(Versions.class);
  private static final Pattern VERSION = Pattern.compile("(\\d+\\.\\d+)\\.(\\d+).*");

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
    check("Spark", org.apache.spark.package$.MODULE$.SPARK_VERSION(), "4.1", "3", "4");
    check("Iceberg", IcebergBuild.version(), "1.11", "0");
  }

  public static void check(String product, String version, String minor, String... testedPatches) {
    Matcher matcher = VERSION.matcher(version);
    if (!matcher.matches() || !matcher.group(1).equals(minor)) {
      throw TxnException.unsupported(
          String.format(
              "%s %s does not work with this jar, which is for %s %s.x; install the jar for your"
                  + " version or use %s %s.%s",
              product, version, product, minor, product, minor, testedPatches[0]));
    }
    for (String patch : testedPatches) {
      if (matcher.group(2).equals(patch)) {
        return;
      }
    }
    LOG.warn(
        "{} {} is not tested with this jar; tested: {}.{}",
        product,
        version,
        minor,
        String.join(", ", testedPatches));
  }
}
