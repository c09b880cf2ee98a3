package io.txns.spark.sql;

import io.txns.iceberg.TxnException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.internal.VariableSubstitution;

/** Variables like {@code ${day}} in a statement, which Spark replaces before it parses anything. */
public final class Variables {

  /** What Spark takes for a variable: a name, perhaps with env:, system: or the like before it. */
  private static final Pattern VARIABLE = Pattern.compile("\\$\\{(?:\\w+?:)?\\S+?}");

  private Variables() {}

  public static String replaced(String sql) {
    return new VariableSubstitution().substitute(sql);
  }

  /**
   * Refuses variables without a value, which Spark replaces by nothing: an id that was meant to
   * change would be the same for each run, and commit once.
   *
   * @throws TxnException 42601 naming the variable
   */
  public static void checkAreSet(String sql) {
    Matcher found = VARIABLE.matcher(sql);
    while (found.find()) {
      String value = replaced(found.group());
      if (value.isEmpty() || value.equals(found.group())) {
        throw TxnException.invalidUsage(
            "42601",
            found.group()
                + " has no value, so that the text would be the same for each run: SET it before"
                + " (and spark.sql.variable.substitute to true), or write \\u0024{ for ${");
      }
    }
  }
}
