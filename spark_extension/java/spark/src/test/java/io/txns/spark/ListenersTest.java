package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.QueryExecutionListener;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import scala.runtime.BoxedUnit;

/** What listeners, and lineage by them, see of statements that this extension runs. */
class ListenersTest extends SparkTestBase {

  /** Notes what each execution reads and writes, by the names of the tables. */
  private static final class Lineage implements QueryExecutionListener {
    private final List<String> events = Collections.synchronizedList(new ArrayList<>());

    @Override
    public void onSuccess(String name, QueryExecution execution, long durationNs) {
      Set<String> inputs = new TreeSet<>();
      Set<String> outputs = new TreeSet<>();
      execution
          .analyzed()
          .foreachWithSubqueries(
              node -> {
                note(node, inputs, outputs);
                return BoxedUnit.UNIT;
              });
      if (!inputs.isEmpty() || !outputs.isEmpty()) {
        events.add(name + " " + inputs + " -> " + outputs);
      }
    }

    private static void note(LogicalPlan node, Set<String> inputs, Set<String> outputs) {
      if (node instanceof V2WriteCommand write
          && write.table() instanceof DataSourceV2Relation target) {
        outputs.add(table(target));
      } else if (node instanceof DataSourceV2Relation source) {
        inputs.add(table(source));
      }
    }

    private static String table(DataSourceV2Relation relation) {
      return relation.identifier().get().name();
    }

    @Override
    public void onFailure(String name, QueryExecution execution, Exception error) {
      events.add(name + " failed");
    }
  }

  private String plainTable;

  @BeforeEach
  void fill() {
    plainTable = table.replace("lake.", "plain.") + "_plain";
    for (String one : List.of(table, plainTable)) {
      for (String name : List.of(one, one + "_source")) {
        spark.sql("CREATE TABLE " + name + " (id BIGINT, v BIGINT) USING iceberg");
        spark.sql("INSERT INTO " + name + " VALUES (1, 0), (2, 0)");
      }
    }
  }

  private static List<String> events(SparkSession session, String... statements) throws Exception {
    return events(
        session,
        () -> {
          for (String statement : statements) {
            var frame = session.sql(statement); // a command has run by now
            if (statement.startsWith("SELECT")) {
              frame.collectAsList();
            }
          }
        });
  }

  private static List<String> events(SparkSession session, Action action) throws Exception {
    session.sparkContext().listenerBus().waitUntilEmpty(); // events of what was before
    Lineage lineage = new Lineage();
    session.listenerManager().register(lineage);
    try {
      action.run();
      session.sparkContext().listenerBus().waitUntilEmpty();
    } finally {
      session.listenerManager().unregister(lineage);
    }
    return lineage.events.stream().map(event -> event.replace("_plain", "")).distinct().toList();
  }

  @Tag("sampled")
  @ParameterizedTest
  @ValueSource(
      strings = {
        "INSERT INTO {T} VALUES (3, 0)",
        "INSERT INTO {T} SELECT * FROM {T}_source",
        "INSERT OVERWRITE {T} SELECT * FROM {T}_source",
        "UPDATE {T} SET v = 1 WHERE id IN (SELECT id FROM {T}_source)",
        "DELETE FROM {T} WHERE id IN (SELECT id FROM {T}_source)",
        "MERGE INTO {T} t USING {T}_source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
            + " WHEN NOT MATCHED THEN INSERT *",
        "CREATE TABLE {T}_copy USING iceberg AS SELECT * FROM {T}_source",
        "SELECT * FROM {T} JOIN {T}_source USING (id)",
      })
  void statementsAreSeenAsOnPlainIceberg(String statement) throws Exception {
    String ours = statement.replace("{T}", table);
    String plain = statement.replace("{T}", plainTable);

    List<String> expected = events(spark, plain);
    assertThat(expected).isNotEmpty();
    assertThat(events(other, "BEGIN", ours, "ROLLBACK")).containsAll(expected);
    assertThat(events(spark, ours)).isEqualTo(expected);
  }

  /** What succeeds is no query of Spark's, and what fails is one that it could not analyze. */
  @Test
  void transactionStatementsAreSeenWhereTheyFail() throws Exception {
    assertThat(events(spark, "BEGIN", "SAVEPOINT s", "COMMIT")).isEmpty();
    assertThat(events(spark, () -> fails("25P01", spark, "COMMIT")))
        .containsExactly("analyze failed");
  }
}
