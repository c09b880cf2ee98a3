package io.txns.spark.command;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.AccumulatorContext;
import org.apache.spark.util.AccumulatorV2;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import scala.Option;

/** Counts of UPDATE and MERGE; a count that is shown is right, and nothing depends on it. */
@Timeout(180)
class RowCountsTest extends SparkTestBase {

  private void create(int format, String mode) {
    spark.sql(
        String.format(
            "CREATE TABLE %s (id BIGINT, v BIGINT) USING iceberg TBLPROPERTIES ("
                + "'format-version' = '%d', 'write.update.mode' = '%s', 'write.merge.mode' = '%s')",
            table, format, mode, mode));
    spark.sql("INSERT INTO " + table + " SELECT /*+ REPARTITION(2) */ id, id FROM range(20)");
  }

  private String merge(String columns) {
    return "MERGE INTO "
        + table
        + " t USING (SELECT id FROM range(15, 25)) s ON t.id = s.id"
        + " WHEN MATCHED AND t.id = 15 THEN DELETE WHEN MATCHED THEN UPDATE SET "
        + columns
        + " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0)";
  }

  @Tag("sampled")
  @ParameterizedTest
  @CsvSource({"2, copy-on-write", "2, merge-on-read", "3, copy-on-write", "3, merge-on-read"})
  void ofUpdates(int format, String mode) {
    create(format, mode);
    assertThat(affected(spark, "UPDATE " + table + " SET v = v + 1 WHERE id < 7")).isEqualTo(7);
    assertThat(affected(spark, "UPDATE " + table + " SET v = v WHERE v % 2 = 0")).isEqualTo(9);
    String inQuery = " WHERE id IN (SELECT id FROM range(3)) OR id = 9";
    assertThat(affected(spark, "UPDATE " + table + " SET v = -1" + inQuery)).isEqualTo(4);
    assertThat(affected(spark, "UPDATE " + table + " SET v = 0 WHERE v > 100")).isZero();
    assertThat(affected(spark, "UPDATE " + table + " SET v = NULL")).isEqualTo(20);
    assertThat(rows(spark, "SELECT count(*), count(v) FROM " + table)).containsExactly("20|0");
  }

  /** The columns of who wrote a row, which format 3 has, stay those of Spark's own UPDATE. */
  @Test
  void rowsThatWereCopiedKeepTheirLineage() {
    create(3, "copy-on-write");
    String lineage = "SELECT id, _row_id AS row, _last_updated_sequence_number AS writer FROM ";
    spark.sql("CREATE TABLE " + table + "_before USING iceberg AS " + lineage + table);
    spark.sql("UPDATE " + table + " SET v = v + 1 WHERE id < 7");
    String kept =
        "SELECT now.row = was.row, now.writer = was.writer, count(*), max(id) FROM ("
            + lineage
            + table
            + ") now JOIN "
            + table
            + "_before was USING (id) GROUP BY 1, 2 ORDER BY 2";
    assertThat(rows(spark, kept)).containsExactly("true|false|7|6", "true|true|13|19");
  }

  @Tag("sampled")
  @ParameterizedTest
  @CsvSource({"2, copy-on-write", "2, merge-on-read", "3, copy-on-write", "3, merge-on-read"})
  void ofMerges(int format, String mode) {
    create(format, mode);
    assertThat(rows(spark, merge("t.v = -1"))).containsExactly("10|4|1|5");
    assertThat(rows(spark, merge("t.v = -1"))).containsExactly("10|9|0|1");
    assertThat(count(spark, table)).isEqualTo(25);
  }

  @Test
  void aMergeThatOnlyInsertsIsAnAppend() {
    create(2, "copy-on-write");
    String merge =
        "MERGE INTO "
            + table
            + " t USING (SELECT id FROM range(15, 25)) s ON t.id = s.id"
            + " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 0)";
    assertThat(rows(spark, merge)).containsExactly("5|0|0|5");
  }

  /** A range partitioning samples the rows first: Spark counts them twice. */
  @ParameterizedTest
  @ValueSource(strings = {"copy-on-write", "merge-on-read"})
  void whatSparkCountsTwiceIsNotShown(String mode) {
    create(2, mode);
    spark.conf().set("spark.sql.shuffle.partitions", 2);
    spark.sql("ALTER TABLE " + table + " WRITE ORDERED BY v");
    spark.sql(
        "ALTER TABLE "
            + table
            + " SET TBLPROPERTIES ('write.update.distribution-mode' = 'range',"
            + " 'write.merge.distribution-mode' = 'range')");
    Row updated = row(spark, "UPDATE " + table + " SET v = v + 1 WHERE id < 7");
    assertThat(updated.get(0)).isEqualTo(mode.equals("copy-on-write") ? null : 7L);
    assertThat(rows(spark, merge("t.v = -1"))).containsExactly("null|null|null|null");
    assertThat(rows(spark, "SELECT count(*), sum(v) FROM " + table)).containsExactly("24|108");
  }

  /**
   * 1. An UPDATE or MERGE rewrites files. 2. What its tasks report does not arrive. 3. It commits
   * what it has written all the same, and its count is not known.
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatIsWrittenCommitsWhenReportsAreLost(boolean explicit) {
    create(2, "copy-on-write");
    spark
        .udf()
        .register(
            "forget_reports", (UDF1<Long, Long>) RowCountsTest::forgetReports, DataTypes.LongType);
    if (explicit) {
      spark.sql("BEGIN");
    }
    Row update = row(spark, "UPDATE " + table + " SET v = forget_reports(v) WHERE id < 7");
    Row merge = row(spark, merge("t.v = forget_reports(t.v)"));
    if (explicit) {
      spark.sql("COMMIT");
    }
    assertThat(rows(other, "SELECT count(*), count_if(v = -1) FROM " + table))
        .containsExactly("24|11");
    assertThat(update.isNullAt(0)).isTrue();
    assertThat(merge.isNullAt(0)).isTrue();
  }

  /** Leaves the driver without the counts that this task would add to. */
  private static Long forgetReports(Long value) {
    TaskContext.get().taskMetrics().accumulators().foreach(RowCountsTest::forget);
    return -1L;
  }

  private static Object forget(AccumulatorV2<?, ?> report) {
    Option<AccumulatorV2<?, ?>> known = AccumulatorContext.get(report.id());
    if (known.isDefined() && known.get().toString().matches(".*(target|updated) rows.*")) {
      AccumulatorContext.remove(report.id());
    }
    return null;
  }

  /** Rows that are written again as they were are a commit: only files tell what was written. */
  @Test
  void rowsThatWereOnlyRewrittenAreNone() {
    create(2, "copy-on-write");
    spark.conf().set("spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled", "false");
    long before = count(spark, table + ".snapshots");
    assertThat(affected(spark, "UPDATE " + table + " SET v = 0 WHERE id * 2 = 3")).isZero();
    assertThat(count(spark, table + ".snapshots")).isEqualTo(before + 1);
    assertThat(count(spark, table)).isEqualTo(20);
  }

  @ParameterizedTest
  @ValueSource(strings = {"copy-on-write", "merge-on-read"})
  void anUpdateThatWritesNoFileLeavesNoSnapshot(String mode) {
    create(2, mode);
    long before = count(spark, table + ".snapshots");
    assertThat(affected(spark, "UPDATE " + table + " SET v = 0 WHERE id * 2 = 3")).isZero();
    spark.sql("BEGIN");
    assertThat(affected(spark, "UPDATE " + table + " SET v = 0 WHERE id * 2 = 3")).isZero();
    assertThat(
            row(spark, "SHOW TRANSACTION")
                .getList(row(spark, "SHOW TRANSACTION").fieldIndex("tables")))
        .isEmpty();
    spark.sql("COMMIT");
    assertThat(count(spark, table + ".snapshots")).isEqualTo(before);
  }
}
