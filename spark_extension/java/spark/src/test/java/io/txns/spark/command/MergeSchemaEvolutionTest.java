package io.txns.spark.command;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.spark.SparkTestBase;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A MERGE that first gives its target the columns of its source: two commits by one statement. */
class MergeSchemaEvolutionTest extends SparkTestBase {

  private static final String COPY = "copy-on-write";
  private static final String DELTA = "merge-on-read";
  private static final List<String> MERGED = List.of("1|a|null", "2|B|20", "3|C|30");

  static Stream<Arguments> modes() {
    return Stream.of(COPY, DELTA)
        .flatMap(
            mode -> Stream.of("", "serializable").map(isolation -> arguments(mode, isolation)));
  }

  private void create(String target, String mode) {
    spark.sql(
        "CREATE TABLE "
            + target
            + " (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('write.merge.mode'='"
            + mode
            + "')");
    spark.sql("INSERT INTO " + target + " VALUES (1, 'a'), (2, 'b')");
    spark.sql("CREATE TABLE " + target + "_s (id BIGINT, v STRING, n BIGINT) USING iceberg");
    spark.sql("INSERT INTO " + target + "_s VALUES (2, 'B', 20), (3, 'C', 30)");
  }

  private static String merge(String target) {
    return "MERGE WITH SCHEMA EVOLUTION INTO "
        + target
        + " t USING "
        + target
        + "_s s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *";
  }

  private static String all(String target) {
    return "SELECT * FROM " + target + " ORDER BY id";
  }

  private void mergeAndCheckCounts() {
    Row counts = row(spark, merge(table));
    assertThat(counts.<Long>getAs("num_affected_rows")).isEqualTo(2);
    assertThat(counts.<Long>getAs("num_updated_rows")).isEqualTo(1);
    assertThat(counts.<Long>getAs("num_deleted_rows")).isZero();
    assertThat(counts.<Long>getAs("num_inserted_rows")).isEqualTo(1);
    assertThat(rows(spark, all(table))).isEqualTo(MERGED);
  }

  @Tag("sampled")
  @ParameterizedTest
  @MethodSource("modes")
  void outsideATransaction(String mode, String isolation) {
    create(table, mode);
    if (!isolation.isEmpty()) {
      spark.sql("SET `spark.sql.txns.autocommit-isolation` = " + isolation);
    }
    mergeAndCheckCounts();
    assertThat(rows(other, all(table))).isEqualTo(MERGED);
    Row again = row(spark, merge(table));
    assertThat(again.<Long>getAs("num_updated_rows")).as("no column is missing").isEqualTo(2);
  }

  @Test
  void ofATableThatIsNotRegistered() {
    spark.sql("SET `spark.sql.txns.register` = none");
    create(table, COPY);
    mergeAndCheckCounts();
    assertThat(rows(other, all(table))).isEqualTo(MERGED);
  }

  @ParameterizedTest
  @ValueSource(strings = {COPY, DELTA})
  void insideATransaction(String mode) {
    create(table, mode);
    spark.sql("BEGIN");
    mergeAndCheckCounts();
    assertThat(rows(other, all(table))).containsExactly("1|a", "2|b");
    spark.sql("ROLLBACK");
    assertThat(rows(spark, all(table))).containsExactly("1|a", "2|b");
    spark.sql("BEGIN");
    mergeAndCheckCounts();
    spark.sql("COMMIT");
    assertThat(rows(other, all(table))).isEqualTo(MERGED);
  }

  @ParameterizedTest
  @ValueSource(strings = {COPY, DELTA})
  void onlyInserts(String mode) {
    create(table, mode);
    Row counts =
        row(spark, merge(table).replace("WHEN MATCHED THEN UPDATE SET * WHEN NOT", "WHEN NOT"));
    assertThat(counts.<Long>getAs("num_inserted_rows")).isEqualTo(1);
    assertThat(rows(other, all(table))).containsExactly("1|a|null", "2|b|null", "3|C|30");
  }

  @ParameterizedTest
  @ValueSource(strings = {"lake", "plain"})
  void whatFailsAfterwardsLeavesTheColumn(String catalog) {
    String target = table.replace("lake", catalog) + "_" + catalog;
    create(target, COPY);
    spark.sql("INSERT INTO " + target + "_s VALUES (2, 'twice', 21)");
    Throwable failure = catchThrowable(() -> spark.sql(merge(target)));
    assertThat(failure).isInstanceOf(SparkThrowable.class);
    assertThat(((SparkThrowable) failure).getCondition()).isEqualTo("MERGE_CARDINALITY_VIOLATION");
    assertThat(rows(other, all(target))).containsExactly("1|a|null", "2|b|null");
  }

  @Test
  void whatFailsInsideATransactionIsUndoneWithIt() {
    create(table, DELTA);
    spark.sql("INSERT INTO " + table + "_s VALUES (2, 'twice', 21)");
    spark.sql("BEGIN");
    assertThat(catchThrowable(() -> spark.sql(merge(table)))).isInstanceOf(SparkThrowable.class);
    assertThat(state(spark)).isEqualTo("aborted");
    spark.sql("ROLLBACK");
    assertThat(rows(spark, all(table))).containsExactly("1|a", "2|b");
    spark.sql("DELETE FROM " + table + "_s WHERE v = 'twice'");
    mergeAndCheckCounts();
  }

  @ParameterizedTest
  @ValueSource(strings = {COPY, DELTA})
  void ofADataFrame(String mode) throws Exception {
    create(table, mode);
    mergeFrame();
    assertThat(rows(other, all(table))).isEqualTo(MERGED);
    spark.sql("ALTER TABLE " + table + " DROP COLUMN n");
    spark.sql("BEGIN");
    mergeFrame();
    assertThat(rows(spark, all(table))).isEqualTo(MERGED);
    spark.sql("ROLLBACK");
    assertThat(rows(spark, all(table))).containsExactly("1|a", "2|B", "3|C");
  }

  private void mergeFrame() throws Exception {
    spark
        .table(table + "_s")
        .mergeInto(table, functions.expr(table + ".id = " + table + "_s.id"))
        .whenMatched()
        .updateAll()
        .whenNotMatched()
        .insertAll()
        .withSchemaEvolution()
        .merge();
  }
}
