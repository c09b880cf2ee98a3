package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.iceberg.TxnException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.stream.Stream;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A write that its transaction may not do is refused by whatever door it comes, before there is a
 * file, an entry or a table under care because of it.
 */
@Timeout(180)
class RefusedWritesTest extends SparkTestBase {

  private static Arguments sql(String statement) {
    return frame(
        statement,
        (session, table) -> () -> session.sql(statement.replace("%t", table)).collectAsList());
  }

  private static Arguments frame(String name, BiFunction<SparkSession, String, Action> write) {
    return arguments(name, write);
  }

  private static Action rollbackToItself(SparkSession session, String table) {
    String snapshot = rows(session, "SELECT snapshot_id FROM " + table + ".snapshots").get(0);
    String[] name = table.split("[.]", 2);
    String call = "CALL %s.system.rollback_to_snapshot('%s', %s)";
    return () -> session.sql(call.formatted(name[0], name[1], snapshot)).collectAsList();
  }

  private static Dataset<Row> rowsToWrite(SparkSession session) {
    return session.range(2, 3).selectExpr("id", "'b' AS v");
  }

  static Stream<Arguments> doors() {
    return Stream.of(
        sql("INSERT INTO %t VALUES (2, 'b')"),
        sql("INSERT INTO %t SELECT id + 1, v FROM %t"), // not loaded to be written: SPARK-58370
        sql("INSERT OVERWRITE %t VALUES (2, 'b')"),
        sql("UPDATE %t SET v = 'b'"),
        sql("DELETE FROM %t"),
        sql("DELETE FROM %t WHERE id = 1 AND v = 'a'"),
        sql(
            "MERGE INTO %t t USING (SELECT 1L AS id, 'b' AS v) s ON t.id = s.id"
                + " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
        sql(
            "FROM (SELECT 2L AS id, 'b' AS v) INSERT INTO %t SELECT id, v"
                + " INSERT INTO %t SELECT id + 1, v"),
        sql("BEGIN INSERT INTO %t VALUES (2, 'b'); END"),
        sql("EXECUTE IMMEDIATE \"INSERT INTO %t VALUES (2, 'b')\""),
        sql("TRUNCATE TABLE %t"),
        sql("CREATE TABLE %t_new (id BIGINT) USING iceberg"),
        sql("CREATE TABLE %t_new USING iceberg AS SELECT * FROM %t"),
        sql("CREATE OR REPLACE TABLE %t USING iceberg AS SELECT 2L AS id, 'b' AS v"),
        sql("ALTER TABLE %t ADD COLUMN w INT"),
        sql("ALTER TABLE %t ADD PARTITION FIELD id"),
        sql("ALTER TABLE %t CREATE BRANCH b"),
        sql("DROP TABLE %t"),
        frame("CALL", RefusedWritesTest::rollbackToItself),
        frame("append", (session, table) -> () -> rowsToWrite(session).writeTo(table).append()),
        frame(
            "overwritePartitions",
            (session, table) -> () -> rowsToWrite(session).writeTo(table).overwritePartitions()),
        frame(
            "create",
            (session, table) ->
                () -> rowsToWrite(session).writeTo(table + "_new").using("iceberg").create()),
        frame(
            "insertInto", (session, table) -> () -> rowsToWrite(session).write().insertInto(table)),
        frame(
            "saveAsTable",
            (session, table) ->
                () -> rowsToWrite(session).write().mode("append").saveAsTable(table)),
        frame(
            "mergeInto",
            (session, table) ->
                () ->
                    rowsToWrite(session)
                        .as("s")
                        .mergeInto(table, functions.expr("false"))
                        .whenNotMatched()
                        .insertAll()
                        .merge()));
  }

  /** What there is of a table and of its namesakes: every file, and the log of its catalog. */
  private List<String> everything(String of) throws Exception {
    Table loaded = Spark3Util.loadIcebergTable(other, of);
    String location = URI.create(loaded.location()).getPath();
    try (Stream<Path> files = Files.walk(Path.of(location).getParent())) {
      List<String> entries =
          rows(other, "CALL " + of.substring(0, of.indexOf('.')) + ".system.transactions()");
      return Stream.concat(
              files.map(Path::toString).filter(file -> file.startsWith(location)).sorted(),
              entries.stream())
          .toList();
    }
  }

  /** Creates a table with one row that nobody cares for; whoever writes it puts it under care. */
  private void create(String name) {
    other.sql("SET `spark.sql.txns.register` = none");
    other.sql("CREATE TABLE " + name + " USING iceberg AS SELECT 1L AS id, 'a' AS v");
    spark.sql("SET `spark.sql.txns.register` = all");
  }

  private void refused(String sqlState, String of, Action write) throws Exception {
    List<String> before = everything(of);
    fails(sqlState, write);
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");
    assertThat(everything(of)).isEqualTo(before);
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("doors")
  void inAReadOnlyTransaction(String name, BiFunction<SparkSession, String, Action> write)
      throws Exception {
    create(table);
    spark.sql("BEGIN READ ONLY");
    refused("25006", table, write.apply(spark, table));
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("doors")
  void inATransactionOfAnotherCatalog(String name, BiFunction<SparkSession, String, Action> write)
      throws Exception {
    create(table);
    String target = table.replace("lake.", "second.");
    create(target);
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (2, 'b')");
    refused("0A000", target, write.apply(spark, target));
    assertThat(count(other, table)).isEqualTo(1);
  }

  /** The protocol itself refuses it, for programs that use no Spark, too. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void byIcebergsApi(boolean registered) throws Exception {
    create(table);
    if (registered) {
      other.sql("CALL lake.system.register('" + table + "')");
    }
    List<String> before = everything(table);
    spark.sql("BEGIN READ ONLY");
    Table loaded = Spark3Util.loadIcebergTable(spark, table);
    assertThatThrownBy(
            () -> loaded.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit())
        .isInstanceOf(TxnException.class);
    spark.sql("ROLLBACK");
    assertThat(everything(table)).isEqualTo(before);
  }

  /** A batch has a session of its own, and there a transaction. */
  @Test
  void inABatchOfAStream(@TempDir Path folder) throws Exception {
    create(table);
    String source = folder.resolve("source").toString();
    rowsToWrite(spark).write().parquet(source);
    List<String> before = everything(table);
    List<String> refused = new ArrayList<>();
    VoidFunction2<Dataset<Row>, Long> write =
        (batch, id) -> {
          SparkSession session = batch.sparkSession();
          session.sql("BEGIN READ ONLY");
          refused.add(fails("25006", () -> batch.writeTo(table).append()).getSqlState());
          session.sql("ROLLBACK");
        };
    spark
        .readStream()
        .schema("id BIGINT, v STRING")
        .parquet(source)
        .writeStream()
        .foreachBatch(write)
        .trigger(Trigger.AvailableNow())
        .option("checkpointLocation", folder.resolve("checkpoint").toString())
        .start()
        .awaitTermination();
    assertThat(refused).hasSize(1);
    assertThat(everything(table)).isEqualTo(before);
  }
}
