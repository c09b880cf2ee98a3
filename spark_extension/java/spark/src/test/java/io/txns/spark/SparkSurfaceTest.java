package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What else Spark offers, inside a transaction and beside one. */
class SparkSurfaceTest extends SparkTestBase {

  @BeforeEach
  void create() {
    spark.sql("CREATE TABLE " + table + " (id BIGINT, v STRING) USING iceberg");
  }

  // SQL

  @Test
  void parameters() {
    spark.sql(
        "INSERT INTO " + table + " VALUES (:id, :v)", Map.<String, Object>of("id", 1L, "v", "a"));
    spark.sql("INSERT INTO " + table + " VALUES (?, ?)", new Object[] {2L, "b"});
    Row updated =
        spark
            .sql(
                "UPDATE " + table + " SET v = :v WHERE id = :id",
                Map.<String, Object>of("id", 2L, "v", "B"))
            .first();
    assertThat(updated.<Long>getAs("num_affected_rows")).isEqualTo(1);
    assertThat(
            spark
                .sql("SELECT v FROM " + table + " WHERE id = ?", new Object[] {2L})
                .first()
                .getString(0))
        .isEqualTo("B");
    spark.sql("DELETE FROM IDENTIFIER(:t) WHERE id = 1", Map.<String, Object>of("t", table));
    assertThat(count(spark, table)).isEqualTo(1);
  }

  @Test
  void namesAndWithClauses() {
    String name = table.substring(table.lastIndexOf('.') + 1);
    assertThat(
            affected(spark, "INSERT INTO " + name + " WITH x AS (SELECT 1L, 'a') SELECT * FROM x"))
        .isEqualTo(1);
    assertThat(affected(spark, "WITH x AS (SELECT 2L, 'b') INSERT INTO db." + name + " TABLE x"))
        .isEqualTo(1);
    assertThat(affected(spark, "INSERT INTO IDENTIFIER('" + table + "') VALUES (3, 'c')"))
        .isEqualTo(1);
    assertThat(
            affected(
                spark,
                "UPDATE "
                    + table
                    + " AS t SET v = 'z' WHERE id IN (SELECT max(id) FROM "
                    + name
                    + ")"))
        .isEqualTo(1);
    assertThat(rows(spark, "SELECT * FROM " + name + " ORDER BY id"))
        .containsExactly("1|a", "2|b", "3|z");
    assertThat(affected(spark, "UPDATE " + table + " SET v = 'q' WHERE id = 99")).isZero();
    fails("42703", spark, "UPDATE " + table + " SET nosuch = 'q' WHERE id = 99");
    assertThat(affected(spark, "DELETE FROM " + table)).isEqualTo(3);
  }

  @Test
  void multiInsert() {
    spark.sql("CREATE TABLE " + table + "_b (id BIGINT, v STRING) USING iceberg");
    String both =
        "FROM (SELECT 1L AS id, 'x' AS v) INSERT INTO "
            + table
            + " SELECT id, v INSERT INTO "
            + table
            + "_b SELECT id, %s";
    spark.sql("BEGIN");
    spark.sql(both.formatted("v"));
    assertThat(count(spark, table)).isEqualTo(1);
    assertThat(count(other, table + "_b")).isZero();
    spark.sql("COMMIT");
    assertThat(count(other, table + "_b")).isEqualTo(1);
    spark.sql("BEGIN");
    assertThatThrownBy(() -> spark.sql(both.formatted("raise_error('no')"))).isNotNull();
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");
    assertThat(count(other, table)).isEqualTo(1);
  }

  @Test
  void createOrReplace() {
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    spark.sql("BEGIN");
    spark.sql("CREATE OR REPLACE TABLE " + table + " USING iceberg AS SELECT 7 AS n");
    assertThat(rows(spark, "SELECT * FROM " + table)).containsExactly("7");
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1|a");
    spark.sql("ROLLBACK");
    assertThat(rows(spark, "SELECT * FROM " + table)).containsExactly("1|a");
    spark.sql("CREATE OR REPLACE TABLE " + table + " USING iceberg AS SELECT 8 AS n");
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("8");
  }

  @Test
  void scripts() {
    spark.sql("BEGIN SELECT 1; END");
    spark.sql("BEGIN");
    spark.sql(
        "BEGIN DECLARE x INT DEFAULT 5; INSERT INTO "
            + table
            + " VALUES (x, 'script');"
            + " INSERT INTO "
            + table
            + " VALUES (x + 1, 'script'); END");
    assertThat(count(spark, table)).isEqualTo(2);
    assertThat(count(other, table)).isZero();
    spark.sql("ROLLBACK");
    assertThat(count(spark, table)).isZero();

    spark.sql("BEGIN");
    assertThatThrownBy(
            () ->
                spark.sql(
                    "BEGIN INSERT INTO "
                        + table
                        + " VALUES (1, 'x'); INSERT INTO "
                        + table
                        + " SELECT CAST(raise_error('no') AS BIGINT), 'x'; END"))
        .isNotNull();
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");
  }

  @Test
  void executeImmediate() {
    spark.sql("EXECUTE IMMEDIATE 'BEGIN'");
    spark.sql("EXECUTE IMMEDIATE 'INSERT INTO " + table + " VALUES (?, ?)' USING 1, 'a'");
    assertThat(count(other, table)).isZero();
    spark.sql("EXECUTE IMMEDIATE 'COMMIT'");
    assertThat(count(other, table)).isEqualTo(1);
    spark.sql(
        "BEGIN EXECUTE IMMEDIATE 'BEGIN TRANSACTION'; INSERT INTO "
            + table
            + " VALUES (2, 'b');"
            + " EXECUTE IMMEDIATE 'COMMIT'; END");
    assertThat(count(other, table)).isEqualTo(2);
    assertThat(state(spark)).isEqualTo("none");
  }

  @Test
  void explainRunsNothing() {
    for (String begin : List.of("SELECT 1", "BEGIN")) {
      spark.sql(begin);
      for (String statement :
          List.of(
              "INSERT INTO " + table + " VALUES (1, 'a')",
              "UPDATE " + table + " SET v = 'b'",
              "DELETE FROM " + table + " WHERE id = 1",
              "SELECT * FROM " + table)) {
        String plan = row(spark, "EXPLAIN " + statement).getString(0);
        assertThat(plan).contains("== Physical Plan ==").doesNotContain("Error occurred");
      }
    }
    assertThat(row(spark, "EXPLAIN INSERT INTO " + table + " VALUES (1, 'a')").getString(0))
        .contains("AppendData");
    assertThat(row(spark, "COMMIT").getList(4)).isEmpty();
    assertThat(count(spark, table)).isZero();
  }

  /** Nor does it register a table, or refuse what it does not do. */
  @Test
  void explainOfAWriteChangesNothing() {
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    spark.sql("CALL lake.system.forget('" + table.substring("lake.".length()) + "')");
    List<String> writes =
        List.of(
            "INSERT INTO " + table + " VALUES (2, 'b')",
            "INSERT OVERWRITE " + table + " VALUES (2, 'b')",
            "UPDATE " + table + " SET v = 'b'",
            "DELETE FROM " + table + " WHERE id = (SELECT max(id) FROM " + table + ")",
            "MERGE INTO "
                + table
                + " t USING "
                + table
                + " s ON t.id = s.id"
                + " WHEN MATCHED THEN DELETE",
            "FROM (SELECT 2L AS id, 'b' AS v) INSERT INTO "
                + table
                + " SELECT id, v INSERT INTO "
                + table
                + " SELECT id, v");
    spark.conf().set("spark.sql.txns.register", "all");
    for (String begin : List.of("SELECT 1", "BEGIN", "BEGIN READ ONLY")) {
      for (String write : writes) {
        spark.sql(begin);
        assertThat(row(spark, "EXPLAIN " + write).getString(0))
            .as(begin + "; " + write)
            .contains("== Physical Plan ==")
            .doesNotContain("Error occurred");
        assertThat(state(spark)).isNotEqualTo("aborted");
        spark.sql("ROLLBACK");
        assertThat(rows(other, "SHOW TBLPROPERTIES " + table).toString())
            .doesNotContain("txns.commit-table");
      }
    }
    spark.conf().unset("spark.sql.txns.register");
    spark.sql("BEGIN");
    for (String write : writes) {
      assertThat(row(spark, "EXPLAIN " + write).getString(0)).doesNotContain("Error occurred");
    }
    assertThat(state(spark)).isEqualTo("active");
    fails("0A000", spark, writes.get(0));
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");
  }

  @Test
  void icebergStatements() {
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    spark.sql("BEGIN");
    spark.sql("ALTER TABLE " + table + " ADD PARTITION FIELD bucket(2, id)");
    spark.sql("ALTER TABLE " + table + " WRITE ORDERED BY id");
    spark.sql("ALTER TABLE " + table + " CREATE TAG old");
    spark.sql("INSERT INTO " + table + " VALUES (2, 'b')");
    assertThat(count(spark, table + ".tag_old")).isEqualTo(1);
    assertThat(rows(spark, "SELECT * FROM " + table + " VERSION AS OF 'old'"))
        .containsExactly("1|a");
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT count(*) FROM " + table + ".partitions")).containsExactly("2");
    assertThat(count(other, table + ".tag_old")).isEqualTo(1);
  }

  @Test
  void branches() {
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    spark.sql("ALTER TABLE " + table + " CREATE BRANCH work");
    spark.sql("BEGIN");
    assertThat(affected(spark, "INSERT INTO " + table + ".branch_work VALUES (2, 'b')"))
        .isEqualTo(1);
    assertThat(count(spark, table + ".branch_work")).isEqualTo(2);
    assertThat(count(spark, table)).isEqualTo(1);
    assertThat(count(other, table + ".branch_work")).isEqualTo(1);
    spark.sql("COMMIT");
    assertThat(count(other, table + ".branch_work")).isEqualTo(2);
    assertThat(count(other, table)).isEqualTo(1);
  }

  @ParameterizedTest
  @ValueSource(strings = {"lake", "uncached"})
  void metadataTablesShowTheTransaction(String catalog) {
    String name = table.replace("lake.", catalog + ".");
    spark.sql("USE " + catalog + ".db");
    spark.sql("CREATE TABLE IF NOT EXISTS " + name + " (id BIGINT, v STRING) USING iceberg");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + name + " VALUES (1, 'a')");
    String files = "SELECT count(*) FROM " + name + ".files";
    assertThat(row(spark, files).getLong(0)).isEqualTo(1);
    assertThat(row(other, files).getLong(0)).isZero();
    for (String metadata : List.of("snapshots", "history", "partitions", "refs", "manifests")) {
      assertThat(rows(spark, "SELECT * FROM " + name + "." + metadata)).isNotEmpty();
    }
    assertThat(row(spark, "SHOW TRANSACTION").getList(5)).isEmpty();
    spark.sql("ROLLBACK");
    assertThat(row(spark, files).getLong(0)).isZero();
  }

  // DataFrames

  @Test
  void dataFrames() throws Exception {
    Dataset<Row> before = spark.table(table);
    spark.sql("BEGIN");
    spark.range(3).selectExpr("id", "'df' AS v").writeTo(table).append();
    spark.range(3, 4).selectExpr("id", "'df' AS v").write().insertInto(table);
    spark.range(4, 5).selectExpr("id", "'df' AS v").write().mode("append").saveAsTable(table);
    spark.range(2).writeTo(table + "_new").using("iceberg").create();
    assertThat(before.count()).isEqualTo(5);
    assertThat(count(spark, table)).isEqualTo(5);
    assertThat(count(other, table)).isZero();
    spark.sql("COMMIT");
    assertThat(count(other, table)).isEqualTo(5);
    assertThat(count(other, table + "_new")).isEqualTo(2);
  }

  @Test
  void failedDataFrameWriteAborts() {
    spark.sql("BEGIN");
    assertThatThrownBy(
            () ->
                spark
                    .range(1)
                    .selectExpr("CAST(raise_error('no') AS BIGINT) AS id", "'x' AS v")
                    .writeTo(table)
                    .append())
        .isNotNull();
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");

    spark.sql("BEGIN READ ONLY");
    fails("25006", () -> spark.range(1).selectExpr("id", "'x' AS v").writeTo(table).append());
    spark.sql("ROLLBACK");
  }

  @Test
  void cachesServeNothingOfARolledBackTransaction() {
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    Dataset<Row> cached = spark.table(table).filter("id > 0").cache();
    spark.sql("CACHE TABLE " + table);
    assertThat(cached.count()).isEqualTo(1);
    other.sql("INSERT INTO " + table + " VALUES (2, 'b')");

    spark.sql("BEGIN");
    assertThat(count(spark, table)).isEqualTo(2);
    spark.sql("INSERT INTO " + table + " VALUES (3, 'c')");
    spark.sql("CACHE TABLE " + table);
    Dataset<Row> inside = spark.table(table).filter("id > 0").cache();
    assertThat(inside.count()).isEqualTo(3);
    assertThat(count(spark, table)).isEqualTo(3);
    spark.sql("ROLLBACK");
    assertThat(count(spark, table)).isEqualTo(2);
    assertThat(spark.table(table).filter("id > 0").count()).isEqualTo(2);
    assertThat(inside.count()).isEqualTo(2);

    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (4, 'd')");
    assertThat(count(other, table)).isEqualTo(2);
    spark.sql("COMMIT");
    assertThat(count(spark, table)).isEqualTo(3);
    spark.sql("UNCACHE TABLE IF EXISTS " + table);
  }

  // Elsewhere

  @Test
  void writesElsewhereAreRefused(@TempDir Path directory) {
    String file = directory.resolve("x.parquet").toString();
    String second = table.replace("lake.db.", "second.db.w");
    String v1 = "spark_catalog.default." + table.substring("lake.db.".length());
    String dropped = "dropped_" + table.substring("lake.db.".length());
    spark.sql("CREATE TABLE " + second + " (id BIGINT) USING iceberg");
    spark.sql("CREATE TABLE " + v1 + " (id INT, day INT) USING parquet PARTITIONED BY (day)");
    spark.sql("INSERT INTO " + v1 + " VALUES (1, 1)");
    spark.sql("CREATE NAMESPACE spark_catalog." + dropped);
    List<Action> writes =
        List.of(
            () -> spark.sql("INSERT INTO " + second + " VALUES (1)"),
            () -> spark.range(1).writeTo(second).append(),
            () -> spark.sql("CREATE TABLE plain.db.p (id BIGINT) USING iceberg"),
            () -> spark.sql("CREATE TABLE plain.db.p USING iceberg AS SELECT 1 AS id"),
            () -> spark.range(1).writeTo("plain.db.p").using("iceberg").create(),
            () -> spark.sql("DROP TABLE " + second),
            () -> spark.range(1).write().parquet(file),
            () -> spark.sql("INSERT OVERWRITE DIRECTORY '" + file + "' USING parquet SELECT 1"),
            () -> spark.sql("CREATE TABLE spark_catalog.default.v1 (id INT) USING parquet"),
            () -> spark.sql("CREATE TABLE default.v1 LIKE " + v1.substring(14)),
            () -> spark.sql("ALTER TABLE " + v1 + " DROP PARTITION (day = 1)"),
            () -> spark.sql("ALTER TABLE " + v1 + " ADD COLUMN more INT"),
            () -> spark.sql("MSCK REPAIR TABLE " + v1),
            () -> spark.sql("ANALYZE TABLE " + v1 + " COMPUTE STATISTICS"),
            () -> spark.sql("TRUNCATE TABLE " + v1),
            () -> spark.sql("DROP NAMESPACE spark_catalog." + dropped + " CASCADE"),
            () -> spark.sql("LOAD DATA LOCAL INPATH '" + file + "' INTO TABLE " + v1));
    for (int i = 0; i < writes.size(); i++) {
      spark.sql("BEGIN");
      spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
      fails("0A000", writes.get(i));
      assertThat(state(spark)).as("write " + i).isEqualTo("aborted");
      spark.sql("ROLLBACK");
    }
    assertThat(rows(spark, "SELECT * FROM " + v1)).containsExactly("1|1");
  }

  @Test
  void whatIsNoWriteRunsInside(@TempDir Path directory) throws Exception {
    // Spark hands an added file to its executors for as long as it lives, also in other tests.
    Path file = Files.createTempFile("added", ".txt");
    file.toFile().deleteOnExit();
    String v1 = "spark_catalog.default." + table.substring("lake.db.".length());
    spark.sql("CREATE TABLE " + v1 + " (id INT, day INT) USING parquet PARTITIONED BY (day)");
    spark.sql("BEGIN");
    for (String statement :
        List.of(
            "SET spark.sql.shuffle.partitions = 1",
            "SET",
            "RESET spark.sql.shuffle.partitions",
            "SHOW TABLES IN lake.db",
            "SHOW CATALOGS",
            "SHOW NAMESPACES IN spark_catalog",
            "SHOW FUNCTIONS",
            "SHOW VIEWS",
            "SHOW PARTITIONS " + v1,
            "SHOW CREATE TABLE " + v1,
            "SHOW COLUMNS IN " + v1,
            "SHOW CURRENT NAMESPACE",
            "DESCRIBE " + v1,
            "DESCRIBE EXTENDED " + table,
            "DESCRIBE FUNCTION abs",
            "DESCRIBE QUERY SELECT 1",
            "EXPLAIN SELECT * FROM " + table,
            "EXPLAIN EXTENDED INSERT INTO " + table + " VALUES (1, 'a')",
            "CACHE TABLE " + v1,
            "UNCACHE TABLE " + v1,
            "CLEAR CACHE",
            "REFRESH TABLE " + v1,
            "REFRESH '" + directory + "'",
            "ADD FILE '" + file + "'",
            "LIST FILES",
            "DECLARE VARIABLE counter INT",
            "SET VAR counter = 1",
            "CREATE TEMPORARY VIEW inside AS SELECT * FROM " + table,
            "CREATE OR REPLACE TEMPORARY VIEW inside AS SELECT 1 AS one",
            "ALTER VIEW inside AS SELECT 2 AS two",
            "ALTER VIEW inside RENAME TO renamed",
            "DROP VIEW renamed",
            "CREATE TEMPORARY VIEW of_file USING text OPTIONS (path '" + file + "')",
            "DROP TEMPORARY FUNCTION IF EXISTS nosuch",
            "CREATE VIEW " + v1 + "_view AS SELECT * FROM " + v1,
            "ALTER VIEW " + v1 + "_view SET TBLPROPERTIES ('a' = 'b')",
            "DROP VIEW " + v1 + "_view",
            "CREATE NAMESPACE spark_catalog.inside",
            "DROP NAMESPACE spark_catalog.inside",
            "USE spark_catalog.default",
            "USE lake.db",
            "CALL lake.system.transactions()")) {
      rows(spark, statement);
      assertThat(state(spark)).as(statement).isEqualTo("active");
    }
    spark.table(table).write().format("noop").mode("overwrite").save();
    spark.range(1).createOrReplaceTempView("a_view");
    spark.range(1).createOrReplaceGlobalTempView("a_global_view");
    spark.catalog().refreshTable(v1);
    spark.sql("COMMIT");
  }

  @Test
  void readsElsewhereAreUnprotected(@TempDir Path directory) throws Exception {
    String file = directory.resolve("x.parquet").toString();
    String second = table.replace("lake.db.", "second.db.r");
    String unregistered = table + "_plain";
    spark.range(3).write().parquet(file);
    spark.sql("CREATE TABLE " + second + " (id BIGINT) USING iceberg");
    spark.range(2).writeTo(unregistered).using("iceberg").create();
    spark.sql("CALL lake.system.forget('" + unregistered + "')");

    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " SELECT id, 'file' FROM parquet.`" + file + "`");
    spark.sql("INSERT INTO " + table + " SELECT id, 'second' FROM " + second);
    spark.sql("INSERT INTO " + table + " SELECT id, 'plain' FROM " + unregistered);
    List<String> unprotected = row(spark, "SHOW TRANSACTION").getList(5);
    assertThat(unprotected).anyMatch(name -> name.contains("x.parquet"));
    assertThat(unprotected).anyMatch(name -> name.contains(second));
    assertThat(unprotected)
        .anyMatch(name -> name.contains(unregistered.substring("lake.".length())));
    assertThat((Throwable) fails("0A000", spark, "INSERT INTO " + unregistered + " VALUES (1)"))
        .hasMessageContaining("CALL lake.system.register");
    spark.sql("ROLLBACK");
    assertThat(affected(spark, "INSERT INTO " + unregistered + " VALUES (1)")).isEqualTo(1);
  }

  @Test
  void unsafeCommandsAreRefusedInside() {
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    for (String statement :
        List.of(
            "DROP TABLE " + table + " PURGE",
            "ALTER TABLE " + table + " RENAME TO db.other",
            "CALL lake.system.expire_snapshots('" + table + "')",
            "CALL lake.system.remove_orphan_files('" + table + "')",
            "CALL lake.system.register('" + table + "')")) {
      spark.sql("BEGIN");
      fails("0A000", spark, statement);
      spark.sql("ROLLBACK");
    }
    assertThat(count(other, table)).isEqualTo(1);
  }

  // Procedures

  @Test
  void procedures() throws Exception {
    String name = table.substring("lake.".length());
    long forgotten = row(spark, "CALL lake.system.forget('" + name + "')").getAs("commit_ts");
    assertThat(forgotten).isPositive();
    long registered =
        row(spark, "CALL lake.system.register(table => '" + name + "')").getAs("commit_ts");
    assertThat(registered).isGreaterThan(forgotten);
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    assertThat(row(spark, "CALL lake.system.apply()").<Integer>getAs("tables_left")).isZero();
    assertThat(row(spark, "CALL lake.system.apply('" + name + "')").<Integer>getAs("tables_left"))
        .isZero();
    assertThat(row(spark, "CALL lake.system.tidy()").<Integer>getAs("tidied_entries")).isNotNull();
    Dataset<Row> transactions = spark.sql("CALL lake.system.transactions()");
    assertThat(transactions.filter("table_name = '" + name + "' AND kind = 'commit'").count())
        .isGreaterThanOrEqualTo(1);
    assertThat(transactions.filter("NOT applied").count()).isZero();
    fails("42000", spark, "CALL lake.system.repair('" + name + "', 'burn')");
    fails("42000", spark, "CALL lake.system.register('second.db.x')");
    ProcedureCatalog catalog =
        (ProcedureCatalog)
            ((org.apache.spark.sql.classic.SparkSession) spark)
                .sessionState()
                .catalogManager()
                .catalog("lake");
    assertThat(catalog.listProcedures(new String[] {"system"}))
        .extracting(Identifier::name)
        .contains("register", "transactions", "expire_snapshots");
  }

  /** What is not given stays; a catalog's own options are not what is shown. */
  @Test
  void settings() {
    Row first = row(spark, "CALL lake.system.settings()");
    assertThat(first.<Long>getAs("max_age_s")).isEqualTo(86_400L);
    assertThat(first.<Long>getAs("id_retention_s")).isEqualTo(604_800L);
    assertThat(first.<String>getAs("apply")).isEqualTo("inline");
    Row changed = row(spark, "CALL lake.system.settings(max_age_s => 172800)");
    assertThat(changed.<Long>getAs("max_age_s")).isEqualTo(172_800L);
    assertThat(changed.<Long>getAs("id_retention_s")).isEqualTo(604_800L);
    fails("22023", spark, "CALL lake.system.settings(max_age_s => 0)");
    fails("22023", spark, "CALL lake.system.settings(max_age_s => 9223372036854775807)");
    fails("22023", spark, "CALL lake.system.settings(id_retention_s => 60)");
    fails("22023", spark, "CALL lake.system.settings(apply => 'later')");
    spark.sql("BEGIN");
    fails("0A000", spark, "CALL lake.system.settings(max_age_s => 86400)");
    spark.sql("ROLLBACK");
    assertThat(row(spark, "CALL lake.system.settings(max_age_s => 86400)")).isEqualTo(first);
  }

  @Test
  void registerByProperty() {
    String name = table.substring("lake.".length());
    spark.sql("CALL lake.system.forget('" + name + "')");
    spark.sql(
        "ALTER TABLE "
            + table
            + " SET TBLPROPERTIES ('txns.commit-table' = 'txns.commits', 'a'='b')");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    spark.sql("COMMIT");
    assertThat(rows(spark, "SHOW TBLPROPERTIES " + table + " ('a')")).containsExactly("a|b");
    fails(
        "0A000",
        spark,
        "ALTER TABLE " + table + " SET TBLPROPERTIES ('txns.commit-table' = 'x.y')");
  }

  @Test
  void beginWithoutACurrentCatalogOfOurs() {
    spark.sql("USE spark_catalog");
    assertThat(row(spark, "BEGIN").<Long>getAs("read_ts")).isNull();
    spark.sql("SAVEPOINT early");
    spark.sql("INSERT INTO " + table + " VALUES (1, 'a')");
    assertThat(row(spark, "SHOW TRANSACTION").<Long>getAs("read_ts")).isPositive();
    spark.sql("ROLLBACK TO early");
    assertThat(count(spark, table)).isZero();
    spark.sql("INSERT INTO " + table + " VALUES (2, 'b')");
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("2|b");
    spark.sql("BEGIN");
    assertThat(row(spark, "COMMIT").<String>getAs("state")).isEqualTo("committed");
  }

  @Test
  void idWithoutACurrentCatalogOfOurs() {
    spark.sql("USE spark_catalog");
    for (String first :
        List.of("INSERT INTO %s VALUES (1, 'a')", "ALTER TABLE %s ADD COLUMN x INT")) {
      for (int attempt = 0; attempt < 2; attempt++) {
        spark.sql("BEGIN ID \"" + table + first + "\"");
        spark.sql(first.formatted(table));
        assertThat(row(spark, "COMMIT").<Long>getAs("commit_ts")).isPositive();
      }
    }
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1|a|null");
  }

  @Test
  void unknownOptionIsNamed() {
    spark.sql("SET spark.sql.catalog.wrong = " + TxnSparkCatalog.class.getName());
    spark.sql("SET spark.sql.catalog.wrong.type = hadoop");
    spark.sql("SET spark.sql.catalog.wrong.warehouse = /nowhere");
    spark.conf().set("spark.sql.catalog.wrong.txns.comit-table", "x");
    assertThatThrownBy(() -> spark.sql("SHOW NAMESPACES IN wrong"))
        .hasStackTraceContaining("comit-table");
  }
}
