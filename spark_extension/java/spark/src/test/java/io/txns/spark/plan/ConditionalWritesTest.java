package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.spark.SparkTestBase;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Writes that depend on what the table holds are validated at SNAPSHOT, whatever they come to. */
@Timeout(180)
class ConditionalWritesTest extends SparkTestBase {

  private static final String SOURCE = " USING (SELECT 5L AS id, 5L AS v) s ON t.id = s.id ";

  private static Arguments sql(String statement) {
    BiConsumer<SparkSession, String> write =
        (session, table) -> session.sql(statement.replace("%t", table)).collectAsList();
    return arguments(statement, write);
  }

  private static Arguments frame(String name, BiConsumer<SparkSession, String> write) {
    return arguments(name, write);
  }

  static Stream<Arguments> conditional() {
    return Stream.of(
        sql("MERGE INTO %t t" + SOURCE + "WHEN NOT MATCHED THEN INSERT *"),
        sql("MERGE INTO %t t" + SOURCE + "WHEN MATCHED THEN UPDATE SET v = 0"),
        sql(
            "MERGE INTO %t t"
                + SOURCE
                + "WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN INSERT *"),
        sql("BEGIN MERGE INTO %t t" + SOURCE + "WHEN NOT MATCHED THEN INSERT *; END"),
        sql("UPDATE %t SET v = 0 WHERE id = 5"),
        sql("DELETE FROM %t WHERE id = 5"),
        sql("INSERT OVERWRITE %t SELECT * FROM VALUES (5L, 5L) s(id, v)"),
        frame(
            "mergeInto",
            (session, table) ->
                session
                    .range(5, 6)
                    .selectExpr("id", "id AS v")
                    .as("s")
                    .mergeInto(
                        table, functions.expr("s.id = " + table.replace("lake.db.", "") + ".id"))
                    .whenNotMatched()
                    .insertAll()
                    .merge()),
        frame("overwritePartitions without rows", ConditionalWritesTest::overwriteNothing),
        frame(
            "overwritePartitions without rows, and an INSERT",
            (session, table) -> {
              overwriteNothing(session, table);
              session.sql("INSERT INTO " + table + " VALUES (5, 5)");
            }));
  }

  private static void overwriteNothing(SparkSession session, String table) {
    try {
      session.range(0).selectExpr("id", "id AS v").writeTo(table).overwritePartitions();
    } catch (NoSuchTableException e) {
      throw new IllegalStateException(e);
    }
  }

  private void create(SparkSession session) {
    session.sql("CREATE TABLE " + table + " (id BIGINT, v BIGINT) USING iceberg");
    session.sql("INSERT INTO " + table + " VALUES (1, 1)");
    session.sql("CREATE TABLE " + table + "_b (id BIGINT, v BIGINT) USING iceberg");
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("conditional")
  void areValidatedAtSnapshot(String name, BiConsumer<SparkSession, String> write) {
    create(other);
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    write.accept(spark, table);
    spark.sql("INSERT INTO " + table + "_b VALUES (1, 1)");
    other.sql("INSERT INTO " + table + " VALUES (5, 6)");
    // As a write: that some of them have read the table, too, is not what refuses them.
    assertThat((Throwable) fails("40001", spark, "COMMIT"))
        .message()
        .containsAnyOf(
            "a table that it wrote over", "a table that it looked through for rows to change");
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id"))
        .containsExactly("1|1", "5|6");
    assertThat(count(other, table + "_b")).isZero();
  }

  /** What was made by an append, and read nothing of the table, never clashes. */
  @Test
  void insertsAreNoConditionalWrites() {
    create(other);
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    spark.sql("INSERT INTO " + table + " VALUES (2, 2)");
    spark.sql("INSERT INTO " + table + " SELECT id + 10, v FROM " + table + "_b");
    other.sql("INSERT INTO " + table + " VALUES (5, 6)");
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id"))
        .containsExactly("1|1", "2|2", "5|6");
  }
}
