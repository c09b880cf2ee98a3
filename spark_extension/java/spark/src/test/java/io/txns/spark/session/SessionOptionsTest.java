package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import java.util.List;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a session sets for itself stands above its catalogs' options, and is no other session's. */
class SessionOptionsTest extends SparkTestBase {

  @BeforeEach
  void create() {
    spark.sql("CREATE TABLE " + table + " (id BIGINT) USING iceberg");
  }

  @Test
  void isolationOfExplicitTransactions() {
    set("isolation", "snapshot");
    assertThat(committed(spark, "BEGIN")).isEqualTo("snapshot");
    assertThat(committed(other, "BEGIN")).isEqualTo("strict-serializable");
    spark.conf().unset("spark.sql.txns.isolation");
    assertThat(committed(spark, "BEGIN")).isEqualTo("strict-serializable");
  }

  @Test
  void beginStandsAboveTheOption() {
    set("isolation", "snapshot");
    String level = committed(spark, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    assertThat(level).isEqualTo("serializable");
  }

  @Test
  void autocommitIsolation() {
    set("autocommit-isolation", "serializable");
    insert(spark);
    assertThat(newestLevel()).isEqualTo("serializable");
    insert(other);
    assertThat(newestLevel()).isEqualTo("snapshot");
  }

  @Test
  void whenToApply() {
    set("apply", "next");
    spark.sql("BEGIN");
    insert(spark);
    assertThat(row(spark, "COMMIT").<Boolean>getAs("applied")).isTrue(); // the log is stricter
    spark.sql("CALL lake.system.settings(apply => 'next')");
    spark.sql("BEGIN");
    insert(spark);
    assertThat(row(spark, "COMMIT").<Boolean>getAs("applied")).isFalse();
    other.conf().set("spark.sql.txns.apply", "inline");
    other.sql("BEGIN");
    insert(other);
    assertThat(row(other, "COMMIT").<Boolean>getAs("applied")).isTrue();
    spark.sql("CALL lake.system.settings(apply => 'inline')");
  }

  /** Spark reads the table first, and writes what it has kept without loading it for the write. */
  @Tag("sampled")
  @ParameterizedTest
  @ValueSource(
      strings = {
        "INSERT INTO %1$s SELECT id + 1 FROM %1$s",
        "INSERT OVERWRITE %1$s SELECT id + 1 FROM %1$s",
        "WITH s AS (SELECT id FROM %1$s) DELETE FROM %1$s WHERE id IN (SELECT id FROM s)",
        "UPDATE %1$s SET id = 2 WHERE id IN (SELECT id FROM %1$s)",
        "WITH s AS (SELECT id FROM %1$s) MERGE INTO %1$s t USING s ON t.id = s.id"
            + " WHEN MATCHED THEN UPDATE SET id = 2"
      })
  void whatReadsItsTargetComesUnderCare(String write) {
    String self = table + "_self";
    set("register", "none");
    spark.sql("CREATE TABLE " + self + " USING iceberg AS SELECT 1L AS id");
    set("register", "all");
    assertThat(affected(spark, write.formatted(self))).isEqualTo(1);
    assertThat(rows(other, "SHOW TBLPROPERTIES " + self).toString()).contains("txns.commit-table");
  }

  /** Each insert of it is a commit of its own, or they are all part of the transaction. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whatAMultiInsertReadsAndWritesComesUnderCare(boolean inside) {
    set("register", "none");
    List<String> tables = List.of(table + "_x", table + "_y");
    tables.forEach(each -> spark.sql("CREATE TABLE " + each + " USING iceberg AS SELECT 1L AS id"));
    set("register", "all");
    if (inside) {
      spark.sql("BEGIN");
    }
    spark.sql(
        "FROM %1$s INSERT INTO %1$s SELECT id + 1 INSERT INTO %2$s SELECT id + 2"
            .formatted(tables.toArray()));
    if (inside) {
      assertThat(count(other, tables.get(1))).isEqualTo(1);
      spark.sql("COMMIT");
    }
    for (String each : tables) {
      assertThat(rows(other, "SHOW TBLPROPERTIES " + each).toString())
          .contains("txns.commit-table");
      assertThat(count(other, each)).isEqualTo(2);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whoseBranchIsWrittenComesUnderCare(boolean asSql) throws Exception {
    String branched = table + "_branched";
    set("register", "none");
    spark.sql("CREATE TABLE " + branched + " USING iceberg AS SELECT 1L AS id");
    spark.sql("ALTER TABLE " + branched + " CREATE BRANCH b");
    set("register", "all");
    if (asSql) {
      spark.sql("INSERT INTO %1$s.branch_b SELECT id + 1 FROM %1$s".formatted(branched));
    } else {
      spark.table(branched).writeTo(branched + ".branch_b").append();
    }
    assertThat(rows(other, "SHOW TBLPROPERTIES " + branched).toString())
        .contains("txns.commit-table");
    assertThat(count(other, branched + ".branch_b")).isEqualTo(2);
    fails("42P01", spark, "INSERT INTO " + table + "_none.branch_b VALUES (1)");
  }

  @Test
  void whatComesUnderCare() {
    set("register", "none");
    spark.sql("CREATE TABLE " + table + "_alone (id BIGINT) USING iceberg");
    spark.sql("BEGIN");
    fails("0A000", spark, "INSERT INTO " + table + "_alone VALUES (1)");
    spark.sql("ROLLBACK");
  }

  /** COMMIT names it: who asks where his transaction stands is told. */
  @Test
  void aBadValueHidesNoTransaction() {
    spark.sql("BEGIN");
    insert(spark);
    set("apply", "sometimes");
    assertThat(state(spark)).isEqualTo("active");
    assertThat(row(spark, "SHOW TRANSACTION").<String>getAs("apply")).isNull();
    fails("42000", spark, "COMMIT");
    spark.conf().unset("spark.sql.txns.apply");
    spark.sql("ROLLBACK");
  }

  @Test
  void aBadValueIsNamed() {
    set("apply", "sometimes");
    SparkThrowable error = fails("42000", () -> insert(spark));
    assertThat(error.toString()).contains("txns.apply", "sometimes", "inline");
  }

  /** What the protocol has no say in is read whatever its options are. */
  @Test
  void aBadValueLeavesTablesAloneThatAreNotUnderCare() {
    spark.sql("CALL lake.system.forget('" + table + "')");
    set("apply", "sometimes");
    assertThat(count(spark, table)).isZero();
    assertThat(spark.catalog().tableExists(table)).isTrue();
  }

  private int commits() {
    return spark.sql("SELECT * FROM " + table + ".snapshots").collectAsList().size();
  }

  private void set(String option, String value) {
    spark.sql("SET `spark.sql.txns." + option + "` = " + value);
  }

  private void insert(SparkSession session) {
    session.sql("INSERT INTO " + table + " VALUES (1)");
  }

  /** The level of a transaction that was begun so. */
  private String committed(SparkSession session, String begin) {
    session.sql(begin);
    insert(session);
    session.sql("COMMIT");
    return newestLevel();
  }

  private String newestLevel() {
    List<Row> log = spark.sql("CALL lake.system.transactions()").collectAsList();
    return log.get(log.size() - 1).getAs("isolation");
  }
}
