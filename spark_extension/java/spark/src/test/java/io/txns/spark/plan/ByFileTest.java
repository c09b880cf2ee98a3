package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.spark.SparkTestBase;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Conflicts by file (docs/isolation.md), of what Spark writes and reads. */
@Timeout(180)
class ByFileTest extends SparkTestBase {
  private static final List<String> MODES = List.of("copy-on-write", "merge-on-read");

  private static final List<String> WRITES =
      List.of(
          "UPDATE %t SET v = v + 1 WHERE day = %d AND id = %d0",
          "DELETE FROM %t WHERE day = %d AND id = %d0",
          "MERGE INTO %t t USING (SELECT %dL * 10 AS id) s ON t.day = %d AND t.id = s.id"
              + " WHEN MATCHED THEN UPDATE SET v = 7"
              + " WHEN NOT MATCHED THEN INSERT (id, day, v) VALUES (s.id, %d, 7)");

  /** Of these the mode is all one. */
  private static final List<String> OF_PARTITIONS =
      List.of(
          "DELETE FROM %t WHERE day = %d",
          "INSERT OVERWRITE %t SELECT %dL * 10 + 5, %d, 1L",
          "INSERT INTO %t SELECT max(id) + 2, %d, 1L FROM %t WHERE day = %d",
          "INSERT INTO %t SELECT max(id) + 2, %d, 1L FROM (SELECT id FROM %t WHERE day = %d"
              + " ORDER BY id LIMIT 1)");

  private void create(String mode) {
    other.sql(
        "CREATE TABLE "
            + table
            + " (id BIGINT, day INT, v BIGINT) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ("
            + Stream.of("update", "delete", "merge")
                .map(each -> "'write." + each + ".mode'='" + mode + "'")
                .reduce((a, b) -> a + ", " + b)
                .get()
            + ")");
    other.sql("INSERT INTO " + table + " VALUES (10, 1, 0), (11, 1, 0), (20, 2, 0), (21, 2, 0)");
    spark.sql("SET spark.sql.sources.partitionOverwriteMode = dynamic");
    other.sql("SET spark.sql.sources.partitionOverwriteMode = dynamic");
  }

  static Stream<Arguments> writes() {
    List<Arguments> all = new ArrayList<>();
    for (String mode : MODES) {
      WRITES.forEach(write -> all.add(arguments(write, mode)));
    }
    OF_PARTITIONS.forEach(write -> all.add(arguments(write, MODES.get(0))));
    return all.stream();
  }

  private String of(String write, int day) {
    return write.replace("%t", table).replace("%d", Integer.toString(day));
  }

  /** Another day's rows are another's, and one that reads the same day's loses. */
  @Tag("sampled")
  @ParameterizedTest(name = "{0} {1}")
  @MethodSource("writes")
  void daysAreApart(String write, String mode) {
    for (int day = 2; day >= 1; day--) {
      table = table + day;
      create(mode);
      String sum = "SELECT count(*), sum(id), sum(v) FROM %t WHERE day = %d";
      List<String> before = rows(other, of(sum, day));
      spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
      spark.sql(of(write, 1));
      List<String> inside = rows(spark, of(sum, 1));
      other.sql("BEGIN");
      other.sql(of(write, day));
      other.sql("COMMIT");
      List<String> outside = rows(other, of(sum, day));
      assertThat(outside).isNotEqualTo(before);
      if (day == 2) {
        spark.sql("COMMIT");
        assertThat(rows(other, of(sum, 1))).isEqualTo(inside);
      } else {
        fails("40001", spark, "COMMIT");
      }
      assertThat(rows(other, of(sum, day))).isEqualTo(outside);
    }
  }

  /** All in one transaction, which is made again as one operation, at the strictest level. */
  @Test
  void severalWritesAreMadeAgainAsOne() {
    for (String mode : MODES) {
      table = table + "x";
      create(mode);
      spark.sql("BEGIN");
      spark.sql(of(WRITES.get(0), 1));
      spark.sql("INSERT INTO " + table + " VALUES (12, 1, 0), (13, 1, 0)");
      spark.sql("DELETE FROM " + table + " WHERE day = 1 AND id = 12");
      spark.sql("UPDATE " + table + " SET v = 9 WHERE day = 1 AND id = 13");
      other.sql("UPDATE " + table + " SET v = 5 WHERE day = 2");
      other.sql("INSERT INTO " + table + " VALUES (30, 3, 0)");
      spark.sql("COMMIT");
      assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id"))
          .containsExactly("10|1|1", "11|1|0", "13|1|9", "20|2|5", "21|2|5", "30|3|0");
    }
  }

  /** Statements that find nothing, and one that brings nothing, beside work elsewhere. */
  @ParameterizedTest
  @ValueSource(strings = {"copy-on-write", "merge-on-read"})
  void whatFindsNothingGoesByWhatItLooksThrough(String mode) {
    create(mode);
    String elsewhere = table + "_elsewhere";
    other.sql("CREATE TABLE " + elsewhere + " (id BIGINT) USING iceberg");
    spark.sql("BEGIN");
    spark.sql("DELETE FROM " + table + " WHERE day = 5");
    spark.sql(
        ("MERGE INTO " + table + " t USING (SELECT 50L AS id) s ON t.day = 5 AND t.id = s.id")
            + " WHEN MATCHED THEN UPDATE SET v = 7");
    spark.sql("INSERT INTO " + table + " SELECT id, 5, 0L FROM range(0)");
    spark.sql("INSERT INTO " + elsewhere + " VALUES (1)");
    other.sql("INSERT INTO " + table + " VALUES (60, 6, 0)");
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT id FROM " + table + " ORDER BY id"))
        .containsExactly("10", "11", "20", "21", "60");
    assertThat(rows(other, "SELECT id FROM " + elsewhere)).containsExactly("1");
  }

  /** What cannot be told counts as the whole table: another day's rows are met. */
  static Stream<String> whole() {
    return Stream.of(
        "SELECT * FROM %t",
        "SELECT * FROM %t LIMIT 1",
        "SELECT count(*), max(id) FROM %t",
        "SELECT * FROM %t.files",
        "SELECT * FROM %t.partitions",
        "SELECT * FROM %t WHERE day % 10 = 1",
        "SELECT * FROM %t WHERE rand() < 2",
        "SELECT * FROM (SELECT * FROM %t WHERE day = 1) JOIN (SELECT max(day) AS d FROM %t)",
        "SELECT * FROM %t t JOIN %t u ON t.day = 1 AND u.id = t.id",
        "CACHE TABLE whole_kept AS SELECT * FROM %t",
        "DELETE FROM %t WHERE id IN (SELECT max(id) FROM %t WHERE day = 1)",
        "DELETE FROM %t WHERE false",
        "TRUNCATE TABLE %t");
  }

  /** A transaction reads, and writes another table, while somebody appends to the one it reads. */
  private void readsWhileAnotherAppends(String read) {
    create("copy-on-write");
    other.sql("CREATE TABLE " + table + "_b (id BIGINT) USING iceberg");
    spark.sql("BEGIN");
    spark.sql(of(read, 1)).collectAsList();
    spark.sql("INSERT INTO " + table + "_b VALUES (1)");
    other.sql("INSERT INTO " + table + " VALUES (30, 3, 0)");
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("whole")
  void whatReadsTheWholeTableMeetsAll(String read) {
    readsWhileAnotherAppends(read);
    fails("40001", spark, "COMMIT");
    spark.sql("UNCACHE TABLE IF EXISTS whole_kept");
  }

  /** Who asks for columns alone, as dbt does, is told nothing of rows. */
  static Stream<String> none() {
    return Stream.of(
        "SELECT * FROM %t WHERE false",
        "SELECT * FROM (SELECT id, count(*) FROM %t GROUP BY id) WHERE false LIMIT 0",
        "SELECT * FROM %t LIMIT 0",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM %t WHERE false)",
        "CREATE TABLE %t_c AS SELECT * FROM %t WHERE false",
        "INSERT INTO %t SELECT * FROM %t WHERE false");
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("none")
  void whatTakesNoRowMeetsNothing(String read) {
    readsWhileAnotherAppends(read);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table + "_b")).containsExactly("1");
    assertThat(rows(other, "SELECT count(*) FROM " + table)).containsExactly("5");
  }

  /** What others do to the columns is met, where what was shown counts. */
  @Test
  void whatTakesNoRowHasSeenTheColumns() {
    create("copy-on-write");
    other.sql("CREATE TABLE " + table + "_b (id BIGINT) USING iceberg");
    spark.sql("BEGIN");
    spark.sql(of("SELECT * FROM %t WHERE false", 1)).collectAsList();
    spark.sql("INSERT INTO " + table + "_b VALUES (1)");
    other.sql("ALTER TABLE " + table + " ADD COLUMN more INT");
    fails("40001", spark, "COMMIT");
  }

  /** The same objects of Spark's, once more: what they read now is noted now. */
  @Test
  void eachStatementIsNoted() {
    create("copy-on-write");
    other.sql("CREATE TABLE " + table + "_b (id BIGINT) USING iceberg");
    var frame = spark.table(table);
    spark.sql("BEGIN");
    frame.where("day = 1").collectAsList();
    frame.selectExpr("max(day)", "count(*)").collectAsList();
    spark.sql("INSERT INTO " + table + "_b VALUES (1)");
    other.sql("INSERT INTO " + table + " VALUES (30, 3, 0)");
    fails("40001", spark, "COMMIT");
  }

  /** What was read with a filter in the same statement: each relation for itself. */
  @Test
  void aFilterKeepsReadersApart() {
    create("copy-on-write");
    other.sql("CREATE TABLE " + table + "_b (id BIGINT) USING iceberg");
    for (int day = 3; day >= 2; day--) {
      spark.sql("BEGIN");
      spark
          .sql(of("SELECT * FROM %t a JOIN %t b ON a.v = b.v WHERE a.day = 1 AND b.day = 2", 1))
          .collectAsList();
      spark.sql("INSERT INTO " + table + "_b VALUES (1)");
      other.sql("INSERT INTO " + table + " VALUES (" + day + "0, " + day + ", 0)");
      if (day == 3) {
        spark.sql("COMMIT");
      } else {
        fails("40001", spark, "COMMIT");
      }
    }
  }

  /** The partitions of what is replaced are told by any transform. */
  @Test
  void overwritesOfDaysAndBucketsAreApart() {
    other.sql(
        "CREATE TABLE "
            + table
            + " (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at), bucket(16, id))");
    other.sql(
        of(
            "INSERT INTO %t VALUES (1, timestamp '2026-01-01 10:00'),"
                + " (1, timestamp '2026-01-02 10:00')",
            1));
    spark.sql("SET spark.sql.sources.partitionOverwriteMode = dynamic");
    other.sql("SET spark.sql.sources.partitionOverwriteMode = dynamic");
    String write = "INSERT OVERWRITE %t SELECT 1L, timestamp '2026-01-0%d 12:00'";
    for (int day = 2; day >= 1; day--) {
      spark.sql("BEGIN");
      spark.sql(of(write, 1));
      other.sql("BEGIN");
      other.sql(of(write, day));
      other.sql("COMMIT");
      if (day == 2) {
        spark.sql("COMMIT");
      } else {
        fails("40001", spark, "COMMIT");
      }
    }
    assertThat(rows(other, of("SELECT day(at), hour(at) FROM %t ORDER BY 1", 1)))
        .containsExactly("1|12", "2|12");
  }

  /** A static one without rows takes all rows away, and a dynamic one none. */
  @ParameterizedTest
  @ValueSource(strings = {"static", "dynamic"})
  void overwritesWithoutRows(String mode) {
    create("copy-on-write");
    spark.sql("SET spark.sql.sources.partitionOverwriteMode = " + mode);
    String write = of("INSERT OVERWRITE %t SELECT * FROM %t WHERE false", 1);
    for (boolean moved : List.of(true, false)) {
      spark.sql("BEGIN");
      spark.sql(write);
      if (moved) {
        other.sql("INSERT INTO " + table + " VALUES (30, 3, 0)");
      }
      if (moved && mode.equals("static")) {
        fails("40001", spark, "COMMIT");
      } else {
        spark.sql("COMMIT");
      }
    }
    assertThat(rows(other, "SELECT count(*) FROM " + table))
        .containsExactly(mode.equals("static") ? "0" : "5");
  }

  /** For a session. */
  @Test
  void byTableDaysClash() {
    create("copy-on-write");
    spark.sql("SET spark.sql.txns.conflicts = table");
    spark.sql("BEGIN");
    spark.sql(of(WRITES.get(0), 1));
    other.sql(of(WRITES.get(0), 2));
    fails("40001", spark, "COMMIT");
  }
}
