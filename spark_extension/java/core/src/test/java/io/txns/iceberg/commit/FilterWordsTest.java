package io.txns.iceberg.commit;

import static org.apache.iceberg.expressions.Expressions.alwaysTrue;
import static org.apache.iceberg.expressions.Expressions.and;
import static org.apache.iceberg.expressions.Expressions.bucket;
import static org.apache.iceberg.expressions.Expressions.equal;
import static org.apache.iceberg.expressions.Expressions.greaterThan;
import static org.apache.iceberg.expressions.Expressions.in;
import static org.apache.iceberg.expressions.Expressions.isNull;
import static org.apache.iceberg.expressions.Expressions.not;
import static org.apache.iceberg.expressions.Expressions.or;
import static org.apache.iceberg.expressions.Expressions.startsWith;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.IntStream;
import org.apache.iceberg.expressions.Expressions;
import org.junit.jupiter.api.Test;

/** Filters in words, as SQL says them. */
class FilterWordsTest {
  @Test
  void areShortAndAsInSql() {
    assertThat(FilterWords.of(alwaysTrue())).isEqualTo("true");
    assertThat(FilterWords.of(and(equal("day", 1), not(isNull("id")))))
        .isEqualTo("(day = 1 and not id is null)");
    assertThat(FilterWords.of(or(greaterThan("v", 2L), startsWith("n", "a"))))
        .isEqualTo("(v > 2 or n starts with \"a\")");
    assertThat(FilterWords.of(equal(bucket("id", 4), 2))).contains("bucket").endsWith("= 2");
    Integer[] many = IntStream.range(0, 100).boxed().toArray(Integer[]::new);
    assertThat(FilterWords.of(in("id", (Object[]) many))).hasSizeLessThan(40).endsWith(", ...)");
    assertThat(FilterWords.of(Expressions.equal("n", "x".repeat(5000)))).hasSizeLessThan(1010);
  }
}
