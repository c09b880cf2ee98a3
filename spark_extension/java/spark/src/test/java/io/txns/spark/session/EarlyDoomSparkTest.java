package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A transaction that has lost learns it at its next statement; other tests turn that off. */
class EarlyDoomSparkTest extends SparkTestBase {
  private static final String OPTION = "spark.sql.txns.early-doom";

  private String second;

  @BeforeEach
  void twoTables() {
    spark.conf().set(OPTION, "true");
    second = table + "_second";
    for (String name : List.of(table, second)) {
      spark.sql("CREATE TABLE " + name + " (day INT, v INT) USING iceberg PARTITIONED BY (day)");
      spark.sql("INSERT INTO " + name + " VALUES (1, 0), (2, 0)");
    }
  }

  /** {@code spark} updates day 1, and somebody else a day; more than a tenth of a second passes. */
  private void clashes(int day) throws InterruptedException {
    spark.sql("BEGIN");
    update(spark, 1, 5);
    update(other, day, 7);
    Thread.sleep(150);
  }

  private void update(SparkSession session, int day, int value) {
    session.sql("UPDATE " + table + " SET v = " + value + " WHERE day = " + day);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT * FROM %s",
        "INSERT INTO %s VALUES (3, 0)",
        "MERGE INTO %s t USING (SELECT 1 AS day) s ON t.day = s.day WHEN MATCHED THEN DELETE",
        "DROP TABLE %s"
      })
  void theLosersNextStatementIsTold(String text) throws Exception {
    String statement = text.formatted(second);
    clashes(1);
    assertThat((Throwable) fails("40001", spark, statement))
        .hasMessageContaining("table=`" + table.substring("lake.".length()) + "`");
    assertThat(state(spark)).isEqualTo("aborted");
    fails("25P02", spark, statement);
    assertThat((Throwable) fails("25P02", spark, "COMMIT")).hasMessageContaining("lost a race");
    spark.sql("ROLLBACK");
    assertThat(rows(spark, "SELECT * FROM " + table + " ORDER BY day"))
        .containsExactly("1|7", "2|0");
    assertThat(rows(spark, "SELECT * FROM " + second + " ORDER BY day"))
        .containsExactly("1|0", "2|0");
  }

  /** Be it told by a statement or by COMMIT: it reserves its tables. */
  @Test
  void theNextBeginIsItsNextTry() throws Exception {
    clashes(1);
    fails("40001", spark, "SELECT * FROM " + second);
    spark.sql("ROLLBACK");
    String id = spark.sql("BEGIN").first().getAs("txn_id");
    assertThat(reserved()).singleElement().asString().startsWith(id);
    update(spark, 1, 6);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("6");
  }

  @Test
  void whoMeetsNobodyGoesOn() throws Exception {
    clashes(2);
    assertThat(count(spark, second)).isEqualTo(2);
    update(spark, 1, 6);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY day"))
        .containsExactly("1|6", "2|7");
  }

  /** What goes wrong is undone with the savepoint; the rest commits. */
  @Test
  void whoGoesBackBehindItsLossGoesOn() throws Exception {
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    spark.sql("INSERT INTO " + second + " VALUES (3, 0)");
    spark.sql("SAVEPOINT before");
    spark.sql("ALTER TABLE " + table + " SET TBLPROPERTIES ('a' = 'b')");
    update(other, 1, 7);
    Thread.sleep(150);
    fails("40001", spark, "SELECT * FROM " + second);
    spark.sql("ROLLBACK TO before");
    assertThat(state(spark)).isEqualTo("active");
    assertThat(count(spark, second)).isEqualTo(3);
    spark.sql("COMMIT");
    assertThat(count(other, second)).isEqualTo(3);
  }

  @Test
  void itCanBeTurnedOff() throws Exception {
    spark.conf().set(OPTION, "false");
    clashes(1);
    assertThat(count(spark, second)).isEqualTo(2);
    fails("40001", spark, "COMMIT");
  }
}
