package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import java.time.LocalDate;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** CURRENT_TIMESTAMP and its like are one moment from BEGIN to COMMIT. */
class TimeOfTransactionTest extends SparkTestBase {

  private static void letTimePass() throws InterruptedException {
    Thread.sleep(5);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "current_timestamp()",
        "now()",
        "localtimestamp()",
        "unix_millis(now())",
        "(SELECT max(current_timestamp()) FROM range(2))",
        "to_timestamp(current_date()) + (now() - current_date())"
      })
  void isTheSameForAllItsStatements(String expression) throws Exception {
    String sql = "SELECT " + expression;
    spark.sql("BEGIN");
    List<String> first = rows(spark, sql);
    letTimePass();
    assertThat(rows(spark, sql)).isEqualTo(first);
    assertThat(rows(other, sql)).isNotEqualTo(first);
    spark.sql("COMMIT");
    assertThat(rows(spark, sql)).isNotEqualTo(first);
  }

  @Test
  void isThatOfItsBegin() throws Exception {
    String sql = "SELECT unix_millis(now())";
    long before = Long.parseLong(rows(spark, sql).get(0));
    spark.sql("BEGIN");
    letTimePass();
    long after = Long.parseLong(rows(other, sql).get(0));
    assertThat(Long.parseLong(rows(spark, sql).get(0))).isBetween(before, after - 1);
    spark.sql("ROLLBACK");
  }

  @Test
  void isWhatAllStatementsWrite() throws Exception {
    spark.sql("CREATE TABLE " + table + " (id BIGINT, at TIMESTAMP) USING iceberg");
    spark.sql("INSERT INTO " + table + " VALUES (1, NULL), (2, NULL)");
    spark.sql("BEGIN");
    spark.sql("UPDATE " + table + " SET at = current_timestamp() WHERE id = 1");
    letTimePass();
    spark.sql(
        "MERGE INTO "
            + table
            + " t USING (SELECT id FROM range(2, 4)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET at = now()"
            + " WHEN NOT MATCHED THEN INSERT (id, at) VALUES (s.id, now())");
    letTimePass();
    spark.sql("INSERT INTO " + table + " SELECT 4, current_timestamp()");
    spark.sql("CREATE TABLE " + table + "_copy USING iceberg AS SELECT now() AS at");
    spark.sql("COMMIT");
    String all = "SELECT at FROM %s UNION SELECT at FROM %s_copy".formatted(table, table);
    assertThat(rows(spark, all)).hasSize(1);
  }

  @Test
  void isThatOfWhoRunsADataFrame() throws Exception {
    Dataset<Row> made = spark.range(1).selectExpr("now()");
    spark.sql("BEGIN");
    List<String> begun = rows(spark, "SELECT now()");
    letTimePass();
    assertThat(made.collectAsList().toString()).contains(begun.get(0));
    spark.sql("ROLLBACK");
  }

  /** A zone in which it is another day than in UTC, now and for an hour at least. */
  private static ZoneId ofAnotherDay() {
    int hour = ZonedDateTime.now(ZoneOffset.UTC).getHour();
    return ZoneId.of(hour < 11 ? "Etc/GMT+12" : "Pacific/Kiritimati");
  }

  @Test
  void keepsTheDayOfTheSessionsZone() {
    ZoneId zone = ofAnotherDay();
    SparkSession far = newSession();
    far.sql("SET spark.sql.session.timeZone = " + zone);
    String day = LocalDate.now(zone).toString();
    far.sql("BEGIN");
    String days = "SELECT current_date(), to_date(now()), to_date(localtimestamp())";
    assertThat(rows(far, days)).containsExactly(String.join("|", day, day, day));
    far.sql("ROLLBACK");
  }
}
