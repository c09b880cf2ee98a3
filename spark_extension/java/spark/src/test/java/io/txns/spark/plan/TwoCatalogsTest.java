package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.catalog.TxnTable;
import io.txns.spark.SparkTestBase;
import io.txns.spark.TxnSparkCatalog;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Statements over the tables of two catalogs. Each has a log of its own, whose timestamps say
 * nothing about the other's: every table is read at the newest moment of its own log.
 */
class TwoCatalogsTest extends SparkTestBase {

  /** When the source, in {@code second}, was written, against the last commit in {@code lake}. */
  enum Written {
    BEFORE,
    AROUND,
    AFTER
  }

  private String source;

  @BeforeEach
  void nameSource() {
    source = table.replace("lake.", "second.");
  }

  /** The table holds 1 and 2, and so does the source, in two commits. */
  private void fill(Written written) {
    if (written == Written.AFTER) {
      createTable();
    }
    spark.sql("CREATE TABLE " + source + " USING iceberg AS SELECT 1 AS id");
    if (written == Written.AROUND) {
      createTable();
    }
    spark.sql("INSERT INTO " + source + " VALUES (2)");
    if (written == Written.BEFORE) {
      createTable();
    }
  }

  private void createTable() {
    spark.sql(
        "CREATE TABLE "
            + table
            + " USING iceberg AS SELECT * FROM VALUES (1, 'a'), (2, 'a')"
            + " AS t (id, v)");
  }

  private List<String> after(Written written, String statement) {
    fill(written);
    spark.sql(statement.replace("$table", table).replace("$source", source));
    return rows(spark, "SELECT id, v FROM " + table + " ORDER BY id");
  }

  @Tag("sampled")
  @ParameterizedTest
  @EnumSource
  void merge(Written written) {
    String merge =
        "MERGE INTO $table t USING $source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'm'";
    assertThat(after(written, merge)).containsExactly("1|m", "2|m");
  }

  @Tag("sampled")
  @ParameterizedTest
  @EnumSource
  void updateWithSubquery(Written written) {
    String update = "UPDATE $table SET v = 'u' WHERE id IN (SELECT id FROM $source)";
    assertThat(after(written, update)).containsExactly("1|u", "2|u");
  }

  @Tag("sampled")
  @ParameterizedTest
  @EnumSource
  void deleteWithExists(Written written) {
    String delete = "DELETE FROM $table t WHERE EXISTS (SELECT 1 FROM $source s WHERE s.id = t.id)";
    assertThat(after(written, delete)).isEmpty();
  }

  @Tag("sampled")
  @ParameterizedTest
  @EnumSource
  void insertSelect(Written written) {
    String insert =
        "INSERT INTO $table SELECT t.id + 10, 'i' FROM $table t JOIN $source s ON t.id = s.id";
    assertThat(after(written, insert)).containsExactly("1|a", "2|a", "11|i", "12|i");
  }

  @Tag("sampled")
  @ParameterizedTest
  @EnumSource
  void select(Written written) {
    fill(written);
    String join = "SELECT count(*) FROM %s t JOIN %s s ON t.id = s.id";
    assertThat(rows(spark, join.formatted(table, source))).containsExactly("2");
  }

  /** Else one table of a catalog might show what another one, loaded earlier, cannot show yet. */
  @Test
  void noTableIsReadAboveTheUpperOfItsLog() throws Exception {
    fill(Written.BEFORE);
    Dataset<Row> loaded = spark.table(source);
    other.sql("INSERT INTO " + source + " VALUES (3)");
    long upper = upper("second");
    other.sql("INSERT INTO " + table + " VALUES (3, 'a')");
    Map<String, Long> readTs = readTs(spark.table(table).join(loaded, "id"));
    assertThat(readTs.get("second")).isLessThanOrEqualTo(upper);
    assertThat(readTs).containsEntry("lake", upper("lake"));
  }

  private long upper(String catalog) throws Exception {
    return ((TxnSparkCatalog)
            ((org.apache.spark.sql.classic.SparkSession) spark)
                .sessionState()
                .catalogManager()
                .catalog(catalog))
        .handle()
        .upper();
  }

  /** What the tables of a query are read at, by their catalogs. */
  private Map<String, Long> readTs(Dataset<Row> query) {
    org.apache.spark.sql.classic.Dataset<Row> classic =
        (org.apache.spark.sql.classic.Dataset<Row>) query;
    LogicalPlan aligned =
        new AlignTables(classic.sparkSession()).apply(classic.queryExecution().analyzed());
    Map<String, Long> moments = new HashMap<>();
    for (LogicalPlan leaf : CollectionConverters.asJava(aligned.collectLeaves())) {
      DataSourceV2Relation relation = (DataSourceV2Relation) leaf;
      TxnTable read = (TxnTable) ((SparkTable) relation.table()).table();
      moments.put(relation.catalog().get().name(), read.readTs());
    }
    return moments;
  }
}
