package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Two tables that every transaction changes alike are never seen apart. */
class ConsistentReadsTest extends SparkTestBase {

  private static final int READS = Integer.getInteger("txns.test.reads", 8);

  private String twin;

  @BeforeEach
  void create() {
    twin = table + "_twin";
    for (String name : List.of(table, twin)) {
      spark.sql("CREATE TABLE " + name + " USING iceberg AS SELECT 0 AS n");
    }
  }

  private void increment(SparkSession session) {
    session.sql("BEGIN");
    session.sql("UPDATE " + table + " SET n = n + 1");
    session.sql("UPDATE " + twin + " SET n = n + 1");
    session.sql("COMMIT");
  }

  @Test
  void aCachedTableIsReadAtTheMomentOfTheOthers() {
    spark.sql("CACHE TABLE " + table);
    increment(other);
    assertThat(rows(spark, "SELECT a.n, b.n FROM " + table + " a CROSS JOIN " + twin + " b"))
        .containsExactly("1|1");
    spark.sql("UNCACHE TABLE " + table);
  }

  @Test
  void noTornReadBesideAWriter() throws Exception {
    spark.sql(
        "CREATE VIEW "
            + table
            + "_view AS SELECT a.n AS a, b.n AS b FROM "
            + table
            + " a CROSS JOIN "
            + twin
            + " b");
    AtomicBoolean stop = new AtomicBoolean();
    ExecutorService executor = Executors.newSingleThreadExecutor();
    Future<Integer> writer =
        executor.submit(
            () -> {
              int commits = 0;
              while (!stop.get()) {
                increment(other);
                commits++;
              }
              return commits;
            });
    List<String> seen = new ArrayList<>();
    try {
      for (int i = 0; i < READS; i++) {
        seen.addAll(rows(spark, "SELECT a.n, b.n FROM " + table + " a CROSS JOIN " + twin + " b"));
        seen.addAll(rows(spark, "SELECT n, (SELECT max(n) FROM " + twin + ") FROM " + table));
        seen.addAll(rows(spark, "SELECT * FROM " + table + "_view"));
        seen.addAll(
            spark.table(twin).crossJoin(spark.table(table)).collectAsList().stream()
                .map(row -> row.get(0) + "|" + row.get(1))
                .toList());
      }
    } finally {
      stop.set(true);
    }
    int commits = writer.get(1, TimeUnit.MINUTES);
    executor.shutdown();
    assertThat(commits).isPositive();
    assertThat(seen).hasSize(4 * READS).allSatisfy(row -> assertThat(row).matches("(\\d+)\\|\\1"));
  }

  @Test
  void statementsOfOneSessionRunSideBySide() throws Exception {
    ExecutorService executor = Executors.newFixedThreadPool(4);
    List<Future<?>> inserts = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      int n = i;
      inserts.add(
          executor.submit(
              () ->
                  assertThat(affected(spark, "INSERT INTO " + table + " VALUES (" + n + ")"))
                      .isEqualTo(1)));
    }
    for (Future<?> insert : inserts) {
      insert.get(1, TimeUnit.MINUTES);
    }
    executor.shutdown();
    assertThat(count(other, table)).isEqualTo(9);
  }
}
