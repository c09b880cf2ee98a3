package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.SparkTestBase;
import io.txns.spark.TxnSparkCatalog;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expressions;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
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
  void aCachedTableIsReadAtTheMomentOfTheOthers() throws Exception {
    String counts = "SELECT (SELECT count(*) FROM %s), (SELECT count(*) FROM %s)";
    spark.sql("CACHE TABLE " + table);
    emptyBothInAnotherProcess();
    assertThat(rows(spark, counts.formatted(table, twin))).containsExactly("0|0");
    assertThat(spark.table(twin).join(spark.table(table).select("n"), "n").count()).isZero();
    spark.sql("UNCACHE TABLE " + table);
  }

  /** Each session has a catalog instance of its own over the same commit table. */
  @Test
  void tablesThatTwoSessionsHaveLoadedAreReadAtOneMoment() throws Exception {
    Dataset<Row> before = other.table(twin);
    emptyBothInAnotherProcess();
    assertThat(spark.table(table).union(before).count()).isZero();
  }

  /** Spark's caches do not hear of it, as if another process had done it. */
  private void emptyBothInAnotherProcess() throws Exception {
    TxnSparkCatalog lake =
        (TxnSparkCatalog)
            ((org.apache.spark.sql.classic.SparkSession) other)
                .sessionState()
                .catalogManager()
                .catalog("lake");
    Transaction transaction = lake.handle().begin(BeginOptions.defaults());
    TxnCatalog catalog = lake.handle().catalog(() -> transaction);
    for (String name : List.of(table, twin)) {
      catalog
          .loadTable(TableIdentifier.parse(name.substring("lake.".length())))
          .newDelete()
          .deleteFromRowFilter(Expressions.alwaysTrue())
          .commit();
    }
    transaction.commit();
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
