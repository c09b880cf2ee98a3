package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Our statements run while Spark analyzes them: each once, and as if they ran after that. */
class StatementRuleTest extends SparkTestBase {

  @BeforeEach
  void create() {
    spark.sql("CREATE TABLE " + table + " (id BIGINT) USING iceberg");
  }

  @AfterEach
  void end() {
    spark.sql("ROLLBACK");
    spark.catalog().clearCache();
  }

  private SparkSession classic() {
    return (SparkSession) spark;
  }

  private LogicalPlan parsed(String sql) throws Exception {
    return classic().sessionState().sqlParser().parsePlan(sql);
  }

  private String insert(long id) {
    return "INSERT INTO " + table + " VALUES (" + id + ")";
  }

  /** Nothing that is done with its frame runs it again. */
  @Test
  void aStatementRunsOnce() {
    Dataset<Row> frame = spark.sql(insert(1));
    frame.collectAsList();
    frame.collectAsList();
    frame.explain(true);
    frame.select("num_affected_rows").cache().count();
    frame.createOrReplaceTempView("counted");
    assertThat(rows(spark, "SELECT * FROM counted UNION ALL SELECT * FROM counted"))
        .containsExactly("1", "1");
    ((org.apache.spark.sql.classic.Dataset<Row>) frame).queryExecution().assertAnalyzed();
    assertThat(count(other, table)).isEqualTo(1);
  }

  /** As a gateway does that answers what a statement would give, or whence. */
  @Test
  void whoAnalyzesATextAloneDoesNotRunIt() throws Exception {
    Analyzer analyzer = classic().sessionState().analyzer();
    analyzer.checkAnalysis(analyzer.execute(parsed(insert(1))));
    assertThat(count(spark, table)).isZero();
    spark.sql("BEGIN");
    analyzer.checkAnalysis(analyzer.execute(parsed("COMMIT")));
    assertThat(state(spark)).isEqualTo("active");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT s", "BEGIN ATOMIC SELECT 1; END"})
  void noStatementOfOursIsExplained(String statement) {
    spark.sql("BEGIN");
    spark.sql(insert(1));
    fails("42601", spark, "EXPLAIN " + statement);
    assertThat(state(spark)).isEqualTo("active");
  }

  @Test
  void statementsThatAreComposed() {
    for (String each : List.of("BEGIN", insert(1), "SAVEPOINT s", insert(2), "ROLLBACK TO s")) {
      spark.sql("EXECUTE IMMEDIATE '" + each + "'").collectAsList();
    }
    spark.sql("DECLARE OR REPLACE VARIABLE inserted BIGINT");
    spark.sql("EXECUTE IMMEDIATE '" + insert(3) + "' INTO inserted");
    assertThat(rows(spark, "SELECT inserted")).containsExactly("1");
    Row row = row(spark, "EXECUTE IMMEDIATE 'COMMIT'");
    assertThat(row.<String>getAs("state")).isEqualTo("committed");
    assertThat(rows(other, "SELECT id FROM " + table + " ORDER BY id")).containsExactly("1", "3");
  }

  /** Spark has no query of a statement while it analyzes it. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "BEGIN; EXPLAIN INSERT INTO {T} SELECT slow(); INSERT INTO {T} VALUES (1); COMMIT",
        "BEGIN ATOMIC INSERT INTO {T} VALUES (1)\\; SELECT slow()\\; END",
      })
  void whatIsAnalyzedForLongIsNotIdle(String statements) {
    classic()
        .sessionState()
        .functionRegistry()
        .createOrReplaceTempFunction(
            "slow",
            arguments -> {
              pause(2_500);
              return Literal.create(2L, DataTypes.LongType);
            },
            "scala_udf");
    spark.sql("SET `spark.sql.txns.idle-timeout-s` = 1");
    for (String each : statements.split("(?<!\\\\); ")) {
      spark.sql(each.replace("{T}", table).replace("\\", "")).collectAsList();
    }
    assertThat(rows(other, "SELECT id FROM " + table)).containsExactly("1");
  }

  private static void pause(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * What a statement loads again itself, it loads as of then.
   *
   * <ol>
   *   <li>A block caches a table, writes it and loses: the cache is read again.
   *   <li>The block runs again and commits: the cache is read again, with its rows.
   * </ol>
   */
  @Test
  void aCacheIsOfTheMomentAfterABlockThatRanTwice() {
    spark.sql(insert(1));
    spark.conf().set("spark.sql.txns.rehearse-conflicts", "1");
    spark.sql("BEGIN ATOMIC CACHE TABLE " + table + "; " + insert(2) + "; END");
    assertThat(spark.conf().get("spark.sql.txns.rehearse-conflicts")).isEqualTo("0");
    String query = "SELECT id FROM " + table + " ORDER BY id";
    assertThat(rows(spark, query)).containsExactly("1", "2");
    assertThat(row(spark, "EXPLAIN " + query).getString(0)).contains("InMemoryRelation");
  }
}
