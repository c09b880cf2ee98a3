package io.txns.spark;

import io.txns.iceberg.TxnException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.IcebergBuild;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What this jar was tested with. Another minor version fails later in worse ways. */
final class Versions {

  private static final Logger LOG = LoggerFactory.getLogger(Versions.class);
  private static final Pattern VERSION = Pattern.compile("(\\d+\\.\\d+)\\.(\\d+).*");

  private Versions() {}

  /**
   * Refuses other minor versions of Spark and Iceberg and warns about other patches.
   *
   * @throws TxnException 0A000 that names the version
   */
  static void check() {
    check("Spark", org.apache.spark.package$.MODULE$.SPARK_VERSION(), "4.1", "3", "4");
    check("Iceberg", IcebergBuild.version(), "1.11", "0");
  }

  static void check(String product, String version, String minor, String... testedPatches) {
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
