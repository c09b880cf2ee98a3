package io.txns.spark.command;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The count of a DELETE from files that have lost rows before. */
@Timeout(180)
class DeletedRowsTest extends SparkTestBase {

  private void create(int format, String deleteMode) {
    spark.sql(
        "CREATE TABLE "
            + table
            + " (id BIGINT, day BIGINT) USING iceberg PARTITIONED BY (day) TBLPROPERTIES ("
            + "'format-version' = '"
            + format
            + "', 'write.update.mode' = 'merge-on-read', 'write.delete.mode' = '"
            + deleteMode
            + "')");
    spark.sql(
        "INSERT INTO "
            + table
            + " SELECT /*+ REPARTITION(1) */ id, id % 2 AS day FROM range(20) SORT BY id");
    // Days 0 and 1 have 10 rows each in one file; one of each is in a file of its own from here on.
    assertThat(affected(spark, "UPDATE " + table + " SET id = 100 + id WHERE id < 2")).isEqualTo(2);
  }

  @Tag("sampled")
  @ParameterizedTest
  @CsvSource({"2, copy-on-write", "2, merge-on-read", "3, copy-on-write", "3, merge-on-read"})
  void areThoseThatWereThere(int format, String deleteMode) {
    create(format, deleteMode);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id = 2")).isEqualTo(1);
    String oldest = "(SELECT min(id) FROM " + table + ")"; // 3
    assertThat(affected(spark, "DELETE FROM " + table + " AS t WHERE t.id = " + oldest))
        .isEqualTo(1);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id = 2")).isZero();
    spark.sql("BEGIN");
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id = 4")).isEqualTo(1);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE day = 0")).isEqualTo(8);
    spark.sql("COMMIT");
    assertThat(rows(spark, "SELECT id FROM " + table + " ORDER BY id"))
        .containsExactly("5", "7", "9", "11", "13", "15", "17", "19", "101");
    String days = "WITH days AS (SELECT 1L AS day) ";
    assertThat(
            affected(spark, days + "DELETE FROM " + table + " WHERE day IN (SELECT day FROM days)"))
        .isEqualTo(9);
    assertThat(count(spark, table)).isZero();
  }

  /** Statistics tell that every row of a file matches: its rows are not looked at. */
  @ParameterizedTest
  @CsvSource({"2", "3"})
  void ofWholeFiles(int format) {
    create(format, "merge-on-read");
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id < 90")).isEqualTo(18);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id >= 0")).isEqualTo(2);
  }

  @ParameterizedTest
  @CsvSource({"2", "3"})
  void ofAWholeTable(int format) {
    create(format, "merge-on-read");
    assertThat(affected(spark, "DELETE FROM " + table)).isEqualTo(20);
  }

  /** A delete file of many data files does not say how many rows of each it marks. */
  @Test
  void areNotKnownWhereOneDeleteFileMarksManyFiles() {
    create(2, "merge-on-read");
    spark.sql(
        "ALTER TABLE "
            + table
            + " SET TBLPROPERTIES ('write.delete.granularity' = 'partition', "
            + "'write.update.mode' = 'copy-on-write')");
    spark.sql("INSERT INTO " + table + " VALUES (200, 0), (201, 0)");
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id IN (4, 201)")).isEqualTo(2);
    assertThat(affected(spark, "UPDATE " + table + " SET id = 106 WHERE id = 6")).isEqualTo(1);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE day = 1")).isEqualTo(10);
    Row whole = row(spark, "DELETE FROM " + table + " WHERE day = 0");
    assertThat(whole.isNullAt(0)).isTrue();
    assertThat(count(spark, table)).isZero();
  }

  @ParameterizedTest
  @CsvSource({"2", "3"})
  void ofABranch(int format) {
    create(format, "merge-on-read");
    spark.sql("ALTER TABLE " + table + " CREATE BRANCH b");
    spark.sql("ALTER TABLE " + table + " UNSET TBLPROPERTIES ('write.update.mode')");
    assertThat(affected(spark, "DELETE FROM " + table + ".branch_b WHERE day = 1")).isEqualTo(10);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE day = 1")).isEqualTo(10);
  }
}
