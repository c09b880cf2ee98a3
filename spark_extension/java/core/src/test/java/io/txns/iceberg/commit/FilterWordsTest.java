package io.txns.iceberg.commit;

import static org.apache.iceberg.expressions.Expressions.alwaysTrue;
import static org.apache.iceberg.expressions.Expressions.and;
import static org.apache.iceberg.expressions.Expressions.bucket;
import static org.apache.iceberg.expressions.Expressions.day;
import static org.apache.iceberg.expressions.Expressions.equal;
import static org.apache.iceberg.expressions.Expressions.greaterThan;
import static org.apache.iceberg.expressions.Expressions.greaterThanOrEqual;
import static org.apache.iceberg.expressions.Expressions.in;
import static org.apache.iceberg.expressions.Expressions.isNull;
import static org.apache.iceberg.expressions.Expressions.lessThan;
import static org.apache.iceberg.expressions.Expressions.month;
import static org.apache.iceberg.expressions.Expressions.not;
import static org.apache.iceberg.expressions.Expressions.or;
import static org.apache.iceberg.expressions.Expressions.startsWith;
import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.iceberg.Schema;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;

/** Filters in words, as SQL says them. */
class FilterWordsTest {
  private static final FilterWords WORDS =
      new FilterWords(
          new Schema(
              optional(1, "id", Types.IntegerType.get()),
              optional(2, "on", Types.DateType.get()),
              optional(3, "at", Types.TimestampType.withZone()),
              optional(4, "plain", Types.TimestampType.withoutZone())));

  @Test
  void areShortAndAsInSql() {
    assertThat(WORDS.of(alwaysTrue())).isEqualTo("true");
    assertThat(WORDS.of(and(equal("day", 1), not(isNull("id")))))
        .isEqualTo("(day = 1 and not id is null)");
    assertThat(WORDS.of(or(greaterThan("v", 2L), startsWith("n", "a"))))
        .isEqualTo("(v > 2 or n starts with \"a\")");
    assertThat(WORDS.of(equal(bucket("id", 4), 2))).isEqualTo("bucket[4](id) = 2");
    Integer[] many = IntStream.range(0, 100).boxed().toArray(Integer[]::new);
    assertThat(WORDS.of(in("id", (Object[]) many))).hasSizeLessThan(40).endsWith(", ...)");
    assertThat(WORDS.of(Expressions.equal("n", "x".repeat(5000)))).hasSizeLessThan(1010);
  }

  /** Spark pushes down numbers of days and of microseconds. */
  @Test
  void timesAreAsPeopleWriteThem() {
    assertThat(WORDS.of(greaterThanOrEqual("on", 20_454))).isEqualTo("on >= 2026-01-01");
    assertThat(WORDS.of(in("ON", 20_454, 20_455))).isEqualTo("ON in (2026-01-01, 2026-01-02)");
    assertThat(WORDS.of(lessThan("at", 1_767_268_800_000_000L)))
        .isEqualTo("at < 2026-01-01T12:00:00+00:00");
    assertThat(WORDS.of(lessThan("plain", 1_767_268_800_000_001L)))
        .isEqualTo("plain < 2026-01-01T12:00:00.000001");
    assertThat(WORDS.of(equal(day("at"), 20_454))).isEqualTo("day(at) = 2026-01-01");
    assertThat(WORDS.of(equal(month("on"), 672))).isEqualTo("month(on) = 2026-01");
  }

  /** A transaction may have read a table a thousand times. */
  @Test
  void anyOfManyIsShort() {
    Expression one = equal("id", 1);
    assertThat(WORDS.ofAny(List.of(one, equal("id", 2), one))).isEqualTo("id = 1 or id = 2");
    List<Expression> many =
        IntStream.range(0, 5000).<Expression>mapToObj(each -> equal("id", each)).toList();
    assertThat(WORDS.ofAny(many)).hasSizeLessThan(1010);
    assertThat(WORDS.ofAny(Collections.nCopies(900, one))).isEqualTo("id = 1");
  }
}
