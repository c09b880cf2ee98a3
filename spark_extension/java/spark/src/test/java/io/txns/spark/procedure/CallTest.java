package io.txns.spark.procedure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.spark.SparkTestBase;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** CALL between BEGIN and COMMIT: staged, skipped or refused, as any other write. */
class CallTest extends SparkTestBase {

  private String name;

  @BeforeEach
  void create() {
    name = table.substring("lake.".length());
    createTagged(table);
  }

  private void createTagged(String created) {
    spark.sql("CREATE TABLE " + created + " (id BIGINT) USING iceberg");
    spark.sql("INSERT INTO " + created + " VALUES (1)");
    spark.sql("ALTER TABLE " + created + " CREATE TAG first");
    spark.sql("INSERT INTO " + created + " VALUES (2)");
  }

  private String first(String of) {
    return rows(spark, "SELECT snapshot_id FROM " + of + ".refs WHERE name = 'first'").get(0);
  }

  private List<String> ids() {
    return rows(other, "SELECT id FROM " + table + " ORDER BY id");
  }

  private String rollback() {
    return "CALL lake.system.rollback_to_snapshot('" + name + "', " + first(table) + ")";
  }

  // Sent again

  @Test
  void aCommittedTransactionIsNotCalledAgain(@TempDir Path directory) {
    String files = directory.resolve("files").toString();
    spark.range(8, 9).write().parquet(files);
    List<String> calls =
        List.of(
            rollback(),
            "CALL lake.system.set_current_snapshot(table => '" + name + "', ref => 'first')",
            "CALL lake.system.add_files(table => '%s', source_table => '`parquet`.`%s`')"
                .formatted(name, files));
    for (int attempt = 0; attempt < 2; attempt++) {
      spark.sql("BEGIN ID '" + table + "'");
      for (String call : calls) {
        assertThat(rows(spark, call)).as(call).hasSize(1 - attempt);
      }
      assertThat(rows(spark, "CALL lake.system.apply()")).containsExactly("0");
      spark.sql("INSERT INTO " + table + " VALUES (9)");
      assertThat(row(spark, "COMMIT").<String>getAs("state")).isEqualTo("committed");
      if (attempt == 0) {
        assertThat(ids()).containsExactly("1", "8", "9");
        other.sql("INSERT INTO " + table + " VALUES (10)");
      }
    }
    assertThat(ids()).containsExactly("1", "8", "9", "10");
  }

  @Test
  void norIsOneThatACurrentCatalogHasNotBoundYet() {
    String call = rollback();
    for (int attempt = 0; attempt < 2; attempt++) {
      spark.sql("USE spark_catalog");
      spark.sql("BEGIN ID '" + table + "'");
      spark.sql(call);
      spark.sql("COMMIT");
      other.sql("INSERT INTO " + table + " VALUES (3)");
    }
    assertThat(ids()).containsExactly("1", "3", "3");
  }

  // Elsewhere

  @ParameterizedTest
  @ValueSource(strings = {"second", "plain"})
  void aProcedureOfAnotherCatalogIsRefused(String catalog) {
    String elsewhere = table.replace("lake.", catalog + ".") + "_elsewhere";
    createTagged(elsewhere);
    String target = elsewhere.substring(catalog.length() + 1);
    String call =
        "CALL %s.system.rollback_to_snapshot('%s', %s)"
            .formatted(catalog, target, first(elsewhere));
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (3)");
    assertThat((Throwable) fails("0A000", spark, call))
        .hasMessageContaining("CALL " + catalog + ".system.rollback_to_snapshot");
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");
    assertThat(count(other, elsewhere)).isEqualTo(2);
    spark.sql(call);
    assertThat(count(spark, elsewhere)).isEqualTo(1);
  }

  @ParameterizedTest
  @ValueSource(strings = {"compute_table_stats", "compute_partition_stats"})
  void statisticsAreMadeOutside(String procedure) {
    String call = "CALL lake.system." + procedure + "('" + name + "')";
    spark.sql("ALTER TABLE " + table + " ADD PARTITION FIELD bucket(2, id)");
    spark.sql("INSERT OVERWRITE " + table + " VALUES (1), (2)");
    spark.sql("BEGIN");
    fails("0A000", spark, call);
    spark.sql("ROLLBACK");
    assertThat(rows(spark, call)).hasSize(1);
    spark.sql("INSERT INTO " + table + " VALUES (3)");
    assertThat(ids()).containsExactly("1", "2", "3");
  }

  @Test
  void whatOnlyReadsIsCalledAnywhere() {
    createTagged(table.replace("lake.", "second."));
    createTagged(table.replace("lake.", "plain."));
    spark.sql("BEGIN READ ONLY");
    assertThat(count(spark, table)).isEqualTo(2);
    for (String catalog : List.of("lake", "second", "plain")) {
      assertThat(rows(spark, "CALL " + catalog + ".system.ancestors_of('" + name + "')"))
          .as(catalog)
          .hasSizeGreaterThan(1);
    }
    assertThat(rows(spark, "CALL lake.system.transactions()")).isNotEmpty();
    assertThat(rows(spark, "CALL lake.system.transactions(limit => 1)")).hasSize(1);
    assertThat(rows(spark, "CALL lake.system.transactions(after => 9223372036854775807)"))
        .isEmpty();
    assertThat(rows(spark, "CALL second.system.apply()")).containsExactly("0");
    assertThat(rows(spark, "DESCRIBE PROCEDURE lake.system.apply")).isNotEmpty();
    spark.sql("COMMIT");
  }

  @Test
  void aReadOnlyTransactionRefusesIt() {
    spark.sql("BEGIN READ ONLY");
    fails("25006", spark, rollback());
  }

  // Failures

  @Test
  void aFailedCallAbortsTheTransaction() {
    for (String call :
        List.of(
            "CALL lake.system.rollback_to_snapshot('" + name + "', 1)",
            "CALL lake.system.rollback_to_snapshot('" + name + "')",
            "CALL lake.system.rollback_to_snapshot('db.nosuch', 1)",
            "CALL lake.system.nosuch('" + name + "')",
            "CALL lake.system.expire_snapshots('" + name + "')",
            "EXECUTE IMMEDIATE \"CALL lake.system.rollback_to_snapshot('" + name + "', 1)\"",
            "BEGIN CALL lake.system.rollback_to_snapshot('" + name + "', 1); END")) {
      spark.sql("BEGIN");
      spark.sql("INSERT INTO " + table + " VALUES (3)");
      spark.sql("SAVEPOINT s");
      assertThatThrownBy(() -> spark.sql(call)).as(call).isNotNull();
      assertThat(state(spark)).as(call).isEqualTo("aborted");
      spark.sql("ROLLBACK TO s");
      assertThat(count(spark, table)).isEqualTo(3);
      spark.sql("ROLLBACK");
    }
    assertThat(ids()).containsExactly("1", "2");
  }

  @Test
  void orIsUndoneAlone() {
    spark.conf().set("spark.sql.txns.abort-on-error", "false");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (3)");
    fails("0A000", spark, "CALL lake.system.tidy()");
    assertThatThrownBy(() -> spark.sql("CALL lake.system.rollback_to_snapshot('db.nosuch', 1)"))
        .isNotNull();
    spark.sql("COMMIT");
    assertThat(ids()).containsExactly("1", "2", "3");
  }

  // As it is written

  @Test
  void parametersNamesAndScripts() {
    String first = first(table);
    spark.sql("BEGIN");
    spark.sql(
        "CALL lake.system.rollback_to_snapshot(table => :t, snapshot_id => :s)",
        Map.of("t", name, "s", Long.valueOf(first)));
    spark.sql("INSERT INTO " + table + " VALUES (3)");
    spark.sql("USE lake");
    spark.sql("CALL system.rollback_to_snapshot('" + name + "', " + first + ")");
    spark.sql("INSERT INTO " + table + " VALUES (4)");
    spark.sql("CALL IDENTIFIER('lake.system.rollback_to_snapshot')('" + name + "', " + first + ")");
    spark.sql("INSERT INTO " + table + " VALUES (5)");
    spark.sql("BEGIN CALL lake.system.rollback_to_snapshot('" + name + "', " + first + "); END");
    spark.sql("EXPLAIN CALL lake.system.rollback_to_snapshot('db.nosuch', 1)");
    assertThat(ids()).containsExactly("1", "2");
    spark.sql("COMMIT");
    assertThat(ids()).containsExactly("1");
  }
}
