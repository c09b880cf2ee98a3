package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.SparkTestBase;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Threads of one session that write at the same time, one of them slowly: its job is one task, so
 * that others find a core.
 */
@Timeout(120)
class ManyThreadsTest extends SparkTestBase {

  private static CountDownLatch started;
  private static CountDownLatch gate;

  private final ExecutorService slow = Executors.newSingleThreadExecutor();
  private String u;

  @BeforeEach
  void create() {
    u = table + "_u";
    started = new CountDownLatch(1);
    gate = new CountDownLatch(1);
    for (String name : new String[] {table, u}) {
      spark.sql("CREATE TABLE " + name + " (id BIGINT) USING iceberg");
      spark.sql("INSERT INTO " + name + " SELECT /*+ REPARTITION(1) */ id FROM range(1, 3)");
    }
    spark.udf().register("gated", (UDF1<Long, Long>) ManyThreadsTest::pass, DataTypes.LongType);
  }

  private static Long pass(Long id) throws InterruptedException {
    started.countDown();
    assertThat(gate.await(60, TimeUnit.SECONDS)).isTrue();
    return id;
  }

  @AfterEach
  void open() {
    gate.countDown();
    slow.shutdown();
  }

  /** Runs it in another thread up to its gate. */
  private <T> Future<T> upToTheGate(Callable<T> statement) throws InterruptedException {
    Future<T> running = slow.submit(statement);
    assertThat(started.await(60, TimeUnit.SECONDS)).isTrue();
    return running;
  }

  private Future<Long> insertTwoUpToTheGate() throws InterruptedException {
    String insert = "INSERT INTO " + table + " SELECT gated(id) FROM range(3, 5, 1, 1)";
    return upToTheGate(() -> affected(spark, insert));
  }

  private int snapshots(String of) {
    return rows(spark, "SELECT snapshot_id FROM " + of + ".snapshots").size();
  }

  @Test
  void anUpdateOfNothingTakesNoOthersChangeAway() throws Exception {
    int before = snapshots(table);
    spark.sql("BEGIN");
    Future<Long> update =
        upToTheGate(
            () -> affected(spark, "UPDATE " + table + " SET id = id + 1 WHERE gated(id) = 99"));
    assertThat(affected(spark, "DELETE FROM " + u + " WHERE id = 1")).isEqualTo(1);
    gate.countDown();
    assertThat(update.get()).isZero();
    spark.sql("COMMIT");
    assertThat(count(other, u)).isEqualTo(1);
    assertThat(snapshots(table)).isEqualTo(before);
  }

  @Test
  void rowsAreCountedInTheStatementThatWroteThem() throws Exception {
    spark.sql("BEGIN");
    Future<Long> insert = insertTwoUpToTheGate();
    assertThat(affected(spark, "INSERT INTO " + u + " VALUES (3)")).isEqualTo(1);
    gate.countDown();
    assertThat(insert.get()).isEqualTo(2);
    spark.sql("COMMIT");
    assertThat(count(other, table) + count(other, u)).isEqualTo(7);
  }

  @Test
  void aStatementThatRunsIsNoPartOfATransactionThatBegins() throws Exception {
    Future<Long> insert = insertTwoUpToTheGate();
    spark.sql("BEGIN");
    spark.sql("DELETE FROM " + u);
    gate.countDown();
    assertThat(insert.get()).isEqualTo(2);
    spark.sql("ROLLBACK");
    assertThat(count(other, table)).isEqualTo(4);
    assertThat(count(other, u)).isEqualTo(2);
  }

  @Test
  void statementsThatAreUndoneByThemselvesTakeTurns() throws Exception {
    spark.conf().set("spark.sql.txns.abort-on-error", "false");
    spark.sql("BEGIN");
    Future<Long> insert = insertTwoUpToTheGate();
    ExecutorService quick = Executors.newSingleThreadExecutor();
    Future<Long> other = quick.submit(() -> affected(spark, "INSERT INTO " + u + " VALUES (3)"));
    try {
      other.get(3, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      // it waits for the other
    }
    gate.countDown();
    assertThat(insert.get()).isEqualTo(2);
    assertThat(other.get()).isEqualTo(1);
    quick.shutdown();
    spark.sql("COMMIT");
    assertThat(count(this.other, table) + count(this.other, u)).isEqualTo(7);
  }
}
