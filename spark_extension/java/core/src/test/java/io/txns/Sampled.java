package io.txns;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Of a test with the tag {@code sampled}, whose cases take long, one case in three runs where slow
 * tests are left out; {@code make test-slow} runs all. Of each three it is another one, as in
 * tests/sampled.py.
 */
public final class Sampled implements ExecutionCondition {
  private static final Pattern CASE = Pattern.compile("test-template-invocation:#([0-9]+)]$");
  private static final int SHARE = 3;

  @Override
  public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
    boolean isLeftOut =
        context.getTags().contains("sampled")
            && "slow".equals(System.getProperty("txns.test.left.out"))
            && !isIn(CASE.matcher(context.getUniqueId()));
    return isLeftOut
        ? ConditionEvaluationResult.disabled("one case in three runs; make test-slow runs all")
        : ConditionEvaluationResult.enabled("");
  }

  private static boolean isIn(Matcher found) {
    if (!found.find()) {
      return true; // the test itself, around its cases
    }
    int number = Integer.parseInt(found.group(1)) - 1;
    return number % SHARE == number / SHARE % SHARE;
  }
}
