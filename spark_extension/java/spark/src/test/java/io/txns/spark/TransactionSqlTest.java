package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TransactionSqlTest extends SparkTestBase {

  private void create(String properties) {
    spark.sql(
        "CREATE TABLE "
            + table
            + " (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ("
            + properties
            + ")");
  }

  private void create() {
    create("'format-version'='2'");
  }

  @ParameterizedTest
  @ValueSource(strings = {"copy-on-write", "merge-on-read"})
  void allStatementsOfATransactionOrNone(String mode) {
    create(
        "'format-version'='2', 'write.update.mode'='%s', 'write.delete.mode'='%s',"
                .formatted(mode, mode)
            + " 'write.merge.mode'='%s'".formatted(mode));
    assertThat(affected(spark, "INSERT INTO " + table + " VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d')"))
        .isEqualTo(4);

    Row begun = row(spark, "BEGIN");
    assertThat(begun.<String>getAs("state")).isEqualTo("active");
    assertThat(begun.<String>getAs("txn_id")).isNotEmpty();
    assertThat(begun.<Long>getAs("read_ts")).isPositive();
    assertThat(affected(spark, "INSERT INTO " + table + " VALUES (5,'e')")).isEqualTo(1);
    assertThat(affected(spark, "UPDATE " + table + " SET v = upper(v) WHERE id <= 2")).isEqualTo(2);
    assertThat(affected(spark, "DELETE FROM " + table + " WHERE id = 3")).isEqualTo(1);
    Row merged =
        row(
            spark,
            "MERGE INTO "
                + table
                + " t USING (SELECT * FROM VALUES (4,'x'),(6,'f') s(id, v)) s"
                + " ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
                + " WHEN NOT MATCHED THEN INSERT *");
    assertThat(merged.<Long>getAs("num_affected_rows")).isEqualTo(2);
    assertThat(merged.<Long>getAs("num_updated_rows")).isEqualTo(1);
    assertThat(merged.<Long>getAs("num_deleted_rows")).isZero();
    assertThat(merged.<Long>getAs("num_inserted_rows")).isEqualTo(1);

    List<String> expected = List.of("1|A", "2|B", "4|x", "5|e", "6|f");
    assertThat(rows(spark, "SELECT * FROM " + table + " ORDER BY id")).isEqualTo(expected);
    assertThat(count(other, table)).isEqualTo(4);

    Row committed = row(spark, "COMMIT");
    assertThat(committed.<String>getAs("state")).isEqualTo("committed");
    assertThat(committed.<Long>getAs("commit_ts")).isGreaterThan(begun.<Long>getAs("read_ts"));
    assertThat(committed.<Boolean>getAs("applied")).isTrue();
    assertThat(committed.getList(4)).isEqualTo(List.of(table.substring("lake.".length())));
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id")).isEqualTo(expected);
    assertThat(rows(spark, "SELECT * FROM " + table + " ORDER BY id")).isEqualTo(expected);
    assertThat(state(spark)).isEqualTo("none");
  }

  @Test
  void rollbackLeavesNothing() {
    create();
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (2,'b')");
    spark.sql("CREATE TABLE " + table + "_new USING iceberg AS SELECT * FROM " + table);
    assertThat(count(spark, table + "_new")).isEqualTo(2);

    assertThat(row(spark, "ROLLBACK").<String>getAs("state")).isEqualTo("rolled back");

    assertThat(count(spark, table)).isEqualTo(1);
    assertThat(spark.catalog().tableExists(table + "_new")).isFalse();
    spark.sql("CREATE TABLE " + table + "_new (id BIGINT) USING iceberg");
    assertThat(count(spark, table + "_new")).isZero();
  }

  @Test
  void createdTablesAreSeenInsideAndAfterCommit() {
    spark.sql("BEGIN");
    create();
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("CREATE TABLE " + table + "_as USING iceberg AS SELECT * FROM " + table);
    String name = table.substring(table.lastIndexOf('.') + 1);
    assertThat(rows(spark, "SHOW TABLES IN lake.db LIKE '" + name + "*'")).hasSize(2);
    assertThat(rows(other, "SHOW TABLES IN lake.db LIKE '" + name + "*'")).isEmpty();
    fails("42P01", other, "SELECT * FROM " + table);

    row(spark, "COMMIT");

    assertThat(count(other, table)).isEqualTo(1);
    assertThat(rows(other, "SELECT * FROM " + table + "_as")).containsExactly("1|a");
  }

  @Test
  void alterTruncateOverwriteAndDropInside() {
    create();
    spark.sql("INSERT INTO " + table + " VALUES (1,'a'),(2,'b')");
    spark.sql("BEGIN");
    spark.sql("ALTER TABLE " + table + " ADD COLUMN extra INT");
    assertThat(rows(spark, "SELECT * FROM " + table + " ORDER BY id"))
        .containsExactly("1|a|null", "2|b|null");
    spark.sql("TRUNCATE TABLE " + table);
    assertThat(count(spark, table)).isZero();
    assertThat(affected(spark, "INSERT OVERWRITE " + table + " VALUES (7,'g',1)")).isEqualTo(1);
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id"))
        .containsExactly("1|a", "2|b");
    row(spark, "COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("7|g|1");

    spark.sql("BEGIN");
    spark.sql("DROP TABLE " + table);
    fails("42P01", spark, "SELECT * FROM " + table);
    spark.sql("ROLLBACK");
    assertThat(count(spark, table)).isEqualTo(1);
    spark.sql("BEGIN");
    spark.sql("DROP TABLE " + table);
    assertThat(count(other, table)).isEqualTo(1);
    spark.sql("COMMIT");
    fails("42P01", other, "SELECT * FROM " + table);
  }

  @Test
  void savepoints() {
    create();
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("SAVEPOINT one");
    spark.sql("INSERT INTO " + table + " VALUES (2,'b')");
    fails("3B001", spark, "ROLLBACK TO nowhere");
    fails("3B001", spark, "RELEASE nowhere");
    spark.sql("ROLLBACK TO SAVEPOINT one");
    assertThat(count(spark, table)).isEqualTo(1);
    spark.sql("INSERT INTO " + table + " VALUES (3,'c')");
    spark.sql("RELEASE one");
    fails("3B001", spark, "ROLLBACK TO one");
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT id FROM " + table + " ORDER BY id")).containsExactly("1", "3");
  }

  @Test
  void statementsOutOfPlace() {
    fails("25P01", spark, "COMMIT");
    fails("25P01", spark, "SAVEPOINT a");
    fails("25P01", spark, "ROLLBACK TO a");
    fails("25P01", spark, "SET TRANSACTION COMMENT 'x'");
    assertThat(row(spark, "ROLLBACK").<String>getAs("state")).isEqualTo("none");
    fails("42601", spark, "BEGIN TRANSACTION foo");
    spark.sql("BEGIN");
    fails("25001", spark, "BEGIN");
    assertThat(state(spark)).isEqualTo("active");
    spark.sql("ROLLBACK");
  }

  @Test
  void readOnlyRefusesWrites() {
    create();
    spark.sql("BEGIN READ ONLY");
    fails("25006", spark, "INSERT INTO " + table + " VALUES (1,'a')");
    fails("25P02", spark, "SELECT 1");
    spark.sql("ROLLBACK");
    spark.sql("START TRANSACTION READ ONLY");
    fails("25006", spark, "DROP TABLE " + table);
    spark.sql("ROLLBACK");
    spark.sql("BEGIN READ ONLY");
    assertThat(count(spark, table)).isZero();
    assertThat(row(spark, "COMMIT").<String>getAs("state")).isEqualTo("committed");
  }

  @Test
  void failedStatementAborts() {
    create();
    for (String bad :
        List.of(
            "INSERT INTO " + table + " VALUES (1)",
            "INSERT INTO " + table + " SELECT CAST(raise_error('no') AS BIGINT), 'x'",
            "UPDATE " + table + " SET nosuch = 1",
            "CREATE TABLE " + table + " (id BIGINT) USING iceberg",
            "ALTER TABLE " + table + " ADD COLUMN v STRING",
            "TRUNCATE TABLE lake.db.nosuch",
            "INSERT INTO lake.db.nosuch VALUES (1)")) {
      spark.sql("BEGIN");
      spark.sql("INSERT INTO " + table + " VALUES (9,'z')");
      org.assertj.core.api.Assertions.assertThatThrownBy(() -> spark.sql(bad)).as(bad).isNotNull();
      assertThat(state(spark)).as(bad).isEqualTo("aborted");
      fails("25P02", spark, "SELECT 1");
      fails("25P02", spark, "COMMIT");
      fails("25P02", spark, "INSERT INTO " + table + " VALUES (2,'b')");
      fails("25P02", () -> spark.read().table(table).count());
      spark.sql("ROLLBACK");
    }
    assertThat(count(spark, table)).isZero();
  }

  @Test
  void rollbackToEndsTheAbortedState() {
    create();
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("SAVEPOINT s");
    org.assertj.core.api.Assertions.assertThatThrownBy(
            () -> spark.sql("INSERT INTO " + table + " VALUES (1)"))
        .isNotNull();
    spark.sql("ROLLBACK TO s");
    assertThat(state(spark)).isEqualTo("active");
    spark.sql("COMMIT");
    assertThat(count(other, table)).isEqualTo(1);
  }

  @Test
  void abortOnErrorCanBeTurnedOff() {
    create();
    spark.conf().set("spark.sql.txns.abort-on-error", "false");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    org.assertj.core.api.Assertions.assertThatThrownBy(
            () -> spark.sql("INSERT INTO " + table + " VALUES (1)"))
        .isNotNull();
    spark.sql("INSERT INTO " + table + " VALUES (2,'b')");
    spark.sql("COMMIT");
    assertThat(count(other, table)).isEqualTo(2);
  }

  @Test
  void loserOfARaceGets40001() {
    create();
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("BEGIN");
    spark.sql("UPDATE " + table + " SET v = 'mine'");
    other.sql("UPDATE " + table + " SET v = 'theirs'");

    Map<String, String> parameters = fails("40001", spark, "COMMIT").getMessageParameters();

    assertThat(parameters.get("table")).endsWith(table.substring("lake.".length()));
    assertThat(parameters).containsKeys("txnId", "otherTxnId", "leastTs");
    assertThat(state(spark)).isEqualTo("none");
    assertThat(rows(spark, "SELECT v FROM " + table)).containsExactly("theirs");
  }

  @Test
  void appendsDoNotConflict() {
    create();
    spark.sql("BEGIN");
    other.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    other.sql("INSERT INTO " + table + " VALUES (2,'b')");
    spark.sql("COMMIT");
    other.sql("COMMIT");
    assertThat(count(spark, table)).isEqualTo(2);
  }

  @Test
  void readsArePartOfTheCheck() {
    create();
    spark.sql("CREATE TABLE " + table + "_b (id BIGINT) USING iceberg");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + "_b SELECT count(*) FROM " + table);
    other.sql("INSERT INTO " + table + " VALUES (1,'a')");
    fails("40001", spark, "COMMIT");
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    spark.sql("INSERT INTO " + table + "_b SELECT count(*) FROM " + table);
    other.sql("INSERT INTO " + table + " VALUES (2,'b')");
    spark.sql("COMMIT");
    assertThat(rows(spark, "SELECT * FROM " + table + "_b")).containsExactly("1");
  }

  @Test
  void idCommitsOnce() {
    create();
    for (int attempt = 0; attempt < 2; attempt++) {
      String expected = attempt == 0 ? "active" : "committed";
      assertThat(row(spark, "BEGIN ID '" + table + "'").<String>getAs("state")).isEqualTo(expected);
      assertThat(affected(spark, "INSERT INTO " + table + " VALUES (1,'a')"))
          .isEqualTo(attempt == 0 ? 1 : 0);
      spark.sql("ALTER TABLE " + table + " ADD COLUMN once INT");
      spark.sql("CREATE TABLE " + table + "_x (id INT) USING iceberg");
      spark.range(3).writeTo(table + "_y").using("iceberg").createOrReplace();
      Row committed = row(spark, "COMMIT");
      assertThat(committed.<String>getAs("state")).isEqualTo("committed");
      assertThat(committed.<String>getAs("txn_id")).isEqualTo(table);
      assertThat(committed.<Long>getAs("commit_ts")).isPositive();
    }
    assertThat(count(other, table)).isEqualTo(1);
  }

  @Test
  void modesAndDefaults() {
    create();
    spark.sql("SET TRANSACTION READ ONLY");
    spark.sql("BEGIN");
    fails("25006", spark, "INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("ROLLBACK");
    spark.sql("BEGIN");
    spark.sql("SET TRANSACTION ISOLATION LEVEL SNAPSHOT, READ ONLY");
    assertThat(count(spark, table)).isZero();
    fails("25001", spark, "SET TRANSACTION READ WRITE");
    spark.sql("COMMIT");
    spark.sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY");
    spark.sql("BEGIN");
    fails("25006", spark, "INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("ROLLBACK");
    spark.sql("BEGIN READ WRITE");
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    spark.sql("SET TRANSACTION COMMENT 'a comment'");
    spark.sql("COMMIT");
    spark.sql("BEGIN COMMENT 'said at its begin'");
    spark.sql("SET TRANSACTION READ WRITE");
    spark.sql("INSERT INTO " + table + " VALUES (2,'b')");
    spark.sql("COMMIT");
    assertThat(rows(spark, "SELECT 1")).hasSize(1);
    assertThat(rows(spark, "CALL lake.system.transactions()"))
        .anyMatch(row -> row.contains("a comment"))
        .anyMatch(row -> row.contains("said at its begin"));
  }

  @Test
  void asOfReadsThePast() {
    create();
    spark.sql("INSERT INTO " + table + " VALUES (1,'a')");
    long then = row(spark, "BEGIN").getAs("read_ts");
    spark.sql("COMMIT");
    spark.sql("INSERT INTO " + table + " VALUES (2,'b')");
    assertThat(row(spark, "BEGIN READ ONLY AS OF " + then).<Long>getAs("read_ts")).isEqualTo(then);
    assertThat(count(spark, table)).isEqualTo(1);
    spark.sql("COMMIT");
    assertThat(count(spark, table)).isEqualTo(2);
  }
}
