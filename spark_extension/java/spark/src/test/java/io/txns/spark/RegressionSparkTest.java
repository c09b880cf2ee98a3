package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.TxnException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Defects that reviews have found in the Spark layer. */
@Timeout(180)
class RegressionSparkTest extends SparkTestBase {

  private void create(String name, String values) {
    spark.sql(
        "CREATE TABLE " + name + " (id BIGINT) USING iceberg TBLPROPERTIES ('format-version'='2')");
    if (values != null) {
      spark.sql("INSERT INTO " + name + " VALUES " + values);
    }
  }

  /**
   * A session whose first touch of the catalog is Catalog.setCurrentCatalog, while another is
   * active.
   */
  @Test
  void catalogFirstLoadedOutsideWithActive() {
    create(table, null);
    SparkSession fresh = spark.newSession();
    SparkSession.setActiveSession(spark);
    try {
      fresh.catalog().setCurrentCatalog("lake");
      fresh.sql("BEGIN");
      fresh.sql("INSERT INTO " + table + " VALUES (1)");
      assertThat(count(fresh, table)).isEqualTo(1);
      assertThat(count(other, table)).isZero();
      fresh.sql("ROLLBACK");
      assertThat(count(other, table)).isZero();
    } finally {
      SparkSession.clearActiveSession();
    }
  }

  /** The other session's transaction is used by a catalog that does not belong to it. */
  @Test
  void foreignTransaction() {
    create(table, null);
    SparkSession fresh = spark.newSession();
    SparkSession.setActiveSession(spark);
    try {
      fresh.catalog().setCurrentCatalog("lake");
    } finally {
      SparkSession.clearActiveSession();
    }
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    try {
      assertThat(count(fresh, table)).isZero();
    } finally {
      spark.sql("ROLLBACK");
    }
  }

  /**
   * 1. Somebody else puts a file into the table's own folder, which the transaction adds. 2. It
   * writes files of its own. 3. ROLLBACK deletes its own, whatever the clocks say: not the other.
   */
  @ParameterizedTest
  @ValueSource(ints = {-3600, 3600})
  void rollbackDeletesExactlyWhatTheTransactionHasWritten(int skewS) throws Exception {
    // As long as the log lives, which names the table.
    Path folder = Files.createTempDirectory("txns-spark-test");
    Path given = folder.resolve("given");
    spark.sql("CREATE TABLE " + table + " (id BIGINT) USING iceberg LOCATION '" + folder + "'");
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    spark.range(3).write().parquet(given.toString());
    Set<Path> before = files(folder);
    spark.sql("BEGIN");
    spark.sql(
        String.format(
            "CALL lake.system.add_files(table => '%s', source_table => '`parquet`.`%s`')",
            table.substring(5), given));
    spark.sql("INSERT INTO " + table + " VALUES (2)");
    spark.sql("DELETE FROM " + table + " WHERE id = 1");
    spark.table(table).writeTo(table).append();
    spark.sql("SAVEPOINT s");
    spark.sql(
        "CREATE TABLE " + table + "x USING iceberg LOCATION '" + folder + "/x' AS SELECT 1 AS id");
    assertThat(files(folder)).hasSizeGreaterThan(before.size() + 4);
    FileTime stored = FileTime.from(Instant.now().plusSeconds(skewS));
    for (Path file : files(folder)) {
      Files.setLastModifiedTime(file, stored);
    }
    spark.sql("ROLLBACK");
    assertThat(files(folder)).isEqualTo(before);
  }

  private static Set<Path> files(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      return files
          .filter(file -> Files.isRegularFile(file) && !file.toString().endsWith(".crc"))
          .collect(Collectors.toSet());
    }
  }

  @Test
  void dataFrameFromBeforeBegin() {
    create(table, "(1)");
    Dataset<Row> df = spark.table(table);
    other.sql("INSERT INTO " + table + " VALUES (2)");
    spark.sql("BEGIN");
    other.sql("INSERT INTO " + table + " VALUES (3)");
    try {
      assertThat(df.count()).isEqualTo(2);
      spark.sql("INSERT INTO " + table + " VALUES (4), (5)");
      assertThat(count(spark, table)).isEqualTo(4);
      assertThat(df.count()).isEqualTo(4);
      assertThat(df.collectAsList()).hasSize(4);
    } finally {
      spark.sql("ROLLBACK");
    }
    assertThat(df.count()).isEqualTo(3);
  }

  /** What a DataFrame has run once is its plan, as on plain Iceberg: the guide says so. */
  @Test
  void dataFrameThatWasCollectedBeforeBegin() {
    create(table, "(1)");
    create(table + "x", null);
    Dataset<Row> df = spark.table(table);
    assertThat(df.collectAsList()).hasSize(1);
    other.sql("INSERT INTO " + table + " VALUES (2)");
    spark.sql("BEGIN");
    assertThat(df.collectAsList()).hasSize(1);
    assertThat(df.count()).isEqualTo(2);
    spark.sql("ROLLBACK");

    spark.sql("BEGIN");
    assertThat(df.collectAsList()).hasSize(1);
    spark.sql("INSERT INTO " + table + "x VALUES (9)");
    other.sql("INSERT INTO " + table + " VALUES (3)");
    spark.sql("COMMIT");
  }

  @Test
  void dataFrameOfARolledBackTransaction() {
    create(table, "(1)");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (2)");
    Dataset<Row> df = spark.table(table);
    assertThat(df.count()).isEqualTo(2);
    spark.sql("ROLLBACK");
    assertThat(df.count()).isEqualTo(1);
    assertThat(df.collectAsList()).hasSize(1);
  }

  /** It is of the table that it was made of, not of what has taken its name since. */
  @Test
  void dataFrameOfATableThatWasCreatedAgain() {
    create(table, "(1)");
    Dataset<Row> df = spark.table(table);
    other.sql("DROP TABLE " + table);
    other.sql("CREATE TABLE " + table + " USING iceberg AS SELECT 7L AS id");
    spark.sql("BEGIN");
    assertThatThrownBy(df::count)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
        .hasMessageContaining("load it again");
    spark.sql("ROLLBACK");
    assertThat(rows(spark, "SELECT * FROM " + table)).containsExactly("7");
  }

  /** Old partition fields are bound to the columns of today: one cannot bucket by a double. */
  @Test
  void tableThatIsCreatedAgainByOtherTypes() {
    String columns = " (id BIGINT, k %s) USING iceberg";
    spark.sql(
        "CREATE TABLE " + table + columns.formatted("BIGINT") + " PARTITIONED BY (bucket(4, k))");
    spark.sql("INSERT INTO " + table + " VALUES (1, 2)");
    spark.sql("DROP TABLE " + table);
    spark.sql("CREATE TABLE " + table + columns.formatted("DOUBLE"));
    spark.sql("INSERT INTO " + table + " VALUES (1, 0.5)");
    assertThat(rows(newSession(), "SELECT k FROM " + table)).containsExactly("0.5");
  }

  @Test
  void readThroughADataFrameFromBeforeBeginIsValidated() {
    create(table, null);
    create(table + "x", null);
    Dataset<Row> df = spark.table(table);
    spark.sql("BEGIN ISOLATION LEVEL SERIALIZABLE");
    try {
      df.writeTo(table + "x").append();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
    spark.sql("INSERT INTO " + table + "x VALUES (9)");
    other.sql("INSERT INTO " + table + " VALUES (1)");
    fails("40001", spark, "COMMIT");
  }

  @Test
  void unrelatedCachedFrame() {
    create(table, "(1)");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (2)");
    spark.sql("CACHE TABLE c AS SELECT * FROM " + table);
    assertThat(count(spark, "c")).isEqualTo(2);
    assertThat(count(other, table)).isEqualTo(1);
    spark.sql("ROLLBACK");
    assertThat(count(spark, "c")).isEqualTo(1);
    assertThat(count(spark, table)).isEqualTo(1);
  }

  @Test
  void wapInsideATransaction() {
    create(table, null);
    spark.sql("ALTER TABLE " + table + " SET TBLPROPERTIES ('write.wap.enabled'='true')");
    spark.conf().set("spark.wap.id", "w1");
    try {
      spark.sql("BEGIN");
      spark.sql("INSERT INTO " + table + " VALUES (7)");
      other.sql("INSERT INTO " + table + " VALUES (1)");
      fails("40001", spark, "COMMIT");
    } finally {
      spark.conf().unset("spark.wap.id");
    }
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1");
  }

  @Test
  void renameMakesALostUpdate() {
    create(table, "(1)");
    spark.sql("BEGIN");
    spark.sql("UPDATE " + table + " SET id = 10");
    other.sql("ALTER TABLE " + table + " RENAME TO " + table.substring(5) + "_r");
    other.sql("INSERT INTO " + table + "_r VALUES (2)");
    other.sql("CALL lake.system.tidy()");
    fails("40001", spark, "COMMIT");
    assertThat(rows(newSession(), "SELECT * FROM " + table + "_r")).contains("2");
  }

  @Test
  void rollbackToSnapshotProcedure() {
    String db = "second.db.q";
    spark.sql("CREATE TABLE " + db + " (id BIGINT) USING iceberg");
    spark.sql("INSERT INTO " + db + " VALUES (1)");
    spark.sql("INSERT INTO " + db + " VALUES (2)");
    String first =
        rows(spark, "SELECT snapshot_id FROM " + db + ".snapshots ORDER BY committed_at LIMIT 2")
            .get(1);
    spark.sql("CALL second.system.rollback_to_snapshot('db.q', " + first + ")");
    assertThat(rows(newSession(), "SELECT * FROM " + db)).containsExactly("1");
  }

  @Test
  void deleteFromTheCommitTable() {
    String db = "uncached.db.q";
    spark.sql("CREATE TABLE " + db + " (id BIGINT) USING iceberg");
    spark.sql("INSERT INTO " + db + " VALUES (1)");
    spark.sql("CALL uncached.system.tidy()");
    fails("0A000", spark, "DELETE FROM uncached.txns.commits");
    assertThat(rows(newSession(), "SELECT * FROM " + db)).containsExactly("1");
  }
}
