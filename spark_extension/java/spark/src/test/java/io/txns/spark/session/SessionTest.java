package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.TxnClock;
import io.txns.spark.SparkTestBase;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whose transaction it is, and what happens at once whatever transaction is open. */
class SessionTest extends SparkTestBase {

  @BeforeEach
  void create() {
    spark.sql("CREATE TABLE " + table + " (id BIGINT) USING iceberg");
  }

  @Test
  void aTransactionBelongsToItsSessionNotToAThread() throws Exception {
    Thread begin = new Thread(() -> spark.sql("BEGIN"));
    begin.start();
    begin.join();
    Thread insert = new Thread(() -> spark.sql("INSERT INTO " + table + " VALUES (1)"));
    insert.start();
    insert.join();
    assertThat(count(spark, table)).isEqualTo(1);
    assertThat(count(other, table)).isZero();
    spark.sql("COMMIT");
    assertThat(count(other, table)).isEqualTo(1);
  }

  /** Be it a block, a DB-API's connection or a program that runs it again. */
  @Test
  void whoHasLostReservesItsTablesAtItsNextBegin() throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    spark.sql("BEGIN");
    spark.sql("UPDATE " + table + " SET id = 2");
    other.sql("UPDATE " + table + " SET id = 3");
    fails("40001", spark, "COMMIT");
    String id = spark.sql("BEGIN").first().getAs("txn_id");
    assertThat(inLog()).contains(id);
    assertThat(reserved())
        .singleElement()
        .asString()
        .startsWith(id)
        .matches(".*, for at most [0-9]+ s");
    spark.sql("UPDATE " + table + " SET id = 4");
    spark.sql("COMMIT");
    assertThat(inLog()).doesNotContain(uuid());
    spark.sql("BEGIN");
    assertThat(inLog()).doesNotContain(uuid());
    spark.sql("ROLLBACK");
  }

  /** It has written nothing, only reads, or is another one by its id. */
  @Test
  void whatEndsOrIsNoNextTryGivesUpWhatIsReserved() throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    loses();
    spark.sql("BEGIN");
    assertThat(inLog()).contains(uuid());
    spark.sql("COMMIT");
    awaitNothingReserved();
    for (String begin : List.of("BEGIN READ ONLY", "BEGIN ID '" + table + "'")) {
      loses();
      loses(); // which has reserved
      assertThat(inLog()).contains(uuid());
      spark.sql(begin);
      awaitNothingReserved();
      spark.sql("ROLLBACK");
    }
  }

  /** They say how it runs, and not whose try it is. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "ISOLATION LEVEL SERIALIZABLE",
        "ISOLATION LEVEL STRICT SERIALIZABLE",
        "READ WRITE, ISOLATION LEVEL SERIALIZABLE"
      })
  void modesThatAreSetAfterBeginKeepTheTurn(String modes) throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    loses();
    for (int number = 1; number <= 2; number++) {
      spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
      spark.sql("SET TRANSACTION " + modes);
      assertThat(inLog()).containsPattern(uuid() + "[^}]*\"number\":" + number);
      assertThat(count(spark, table)).isPositive();
      spark.sql("DELETE FROM " + table + " WHERE id = 1");
      if (number == 1) {
        other.sql("INSERT INTO " + table + " VALUES (3)"); // which does not wait
        fails("40001", spark, "COMMIT");
      }
    }
    spark.sql("COMMIT");
    awaitNothingReserved();
  }

  @ParameterizedTest
  @ValueSource(strings = {"READ ONLY", "ID 'of another one'"})
  void modesOfAnotherTransactionGiveUpTheTurn(String modes) throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    loses();
    spark.sql("BEGIN");
    assertThat(inLog()).contains(uuid());
    spark.sql("SET TRANSACTION " + modes);
    awaitNothingReserved();
    spark.sql("ROLLBACK");
  }

  /** Whose words are said, and differ, is something else. */
  @Test
  void whatHasAnotherCommentIsNoNextTry() throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    for (String begin : List.of("BEGIN COMMENT 'sales'", "BEGIN")) {
      loses(", COMMENT 'sales'");
      spark.sql(begin);
      assertThat(inLog()).contains(uuid());
      spark.sql("ROLLBACK");
      awaitNothingReserved();
    }
    loses(", COMMENT 'sales'");
    spark.sql("BEGIN COMMENT 'purchases'");
    assertThat(inLog()).doesNotContain(uuid());
    spark.sql("ROLLBACK");
  }

  /** Who waits for his turn keeps nobody from seeing what there is. */
  @Test
  void aBeginThatWaitsForAnOlderOneBlocksNobodyElseInItsSession() throws Exception {
    SparkSession younger = spark.newSession();
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    spark.sql("BEGIN");
    other.sql("INSERT INTO " + table + " VALUES (2)");
    younger.sql("BEGIN");
    List<SparkSession> both = List.of(spark, younger);
    both.forEach(each -> each.sql("UPDATE " + table + " SET id = 3"));
    other.sql("UPDATE " + table + " SET id = 4");
    Thread.sleep(2000); // so that the older one asks for some seconds
    fails("40001", younger, "COMMIT");
    fails("40001", spark, "COMMIT");
    spark.sql("BEGIN");
    Thread begins = new Thread(() -> younger.sql("BEGIN"));
    begins.start();
    Thread.sleep(1000);
    younger.sql("SHOW TRANSACTION").collect();
    assertThat(begins.isAlive()).isTrue();
    spark.sql("ROLLBACK"); // which gives up what is reserved
    begins.join(TimeUnit.SECONDS.toMillis(30));
    younger.sql("ROLLBACK");
  }

  private void loses() {
    loses("");
  }

  /** Begins, with what is said besides the level, and loses at its end. */
  private void loses(String modes) {
    spark.sql("BEGIN ISOLATION LEVEL SERIALIZABLE" + modes);
    spark.sql("UPDATE " + table + " SET id = 2");
    other.sql("INSERT INTO " + table + " VALUES (3)"); // which does not wait
    fails("40001", spark, "COMMIT");
  }

  /** A program that does not run it again may have gone, or waits for somebody's decision. */
  @Test
  @Tag("slow")
  void whatIsNotRunAgainSoonGivesUpWhatIsReserved() throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    loses();
    loses(); // which has reserved
    assertThat(inLog()).contains(uuid());
    Thread.sleep(15_000);
    awaitNothingReserved();
  }

  private void awaitNothingReserved() throws Exception {
    String uuid = uuid();
    for (int looks = 0; looks < 100 && inLog().contains(uuid); looks++) {
      Thread.sleep(100);
    }
    assertThat(inLog()).doesNotContain(uuid);
  }

  private String uuid() throws Exception {
    return Spark3Util.loadIcebergTable(other, table).uuid().toString();
  }

  /** What the log's newest record says is reserved, by this test and by others. */
  private String inLog() {
    return other
        .sql(
            "SELECT coalesce(summary['txns.reserve'], '') FROM lake.txns.commits.snapshots"
                + " ORDER BY committed_at DESC LIMIT 1")
        .first()
        .getString(0);
  }

  @Test
  void aBatchOfAStreamIsATransaction(@TempDir Path directory) throws Exception {
    String input = directory.resolve("in").toString();
    spark.range(3).write().parquet(input);
    String id = table;
    VoidFunction2<Dataset<Row>, Long> batch =
        (rows, n) -> {
          SparkSession session = rows.sparkSession();
          session.sql("BEGIN ID '" + id + "-" + n + "'");
          rows.writeTo(table).append();
          rows.writeTo(table).append();
          assertThat(other.table(table).count()).isZero();
          session.sql("COMMIT");
        };
    for (int run = 0; run < 2; run++) {
      spark
          .readStream()
          .schema("id BIGINT")
          .parquet(input)
          .writeStream()
          .option("checkpointLocation", directory.resolve("checkpoint" + run).toString())
          .trigger(Trigger.AvailableNow())
          .foreachBatch(
              run == 0
                  ? batch
                  : (rows, n) -> {
                    SparkSession session = rows.sparkSession();
                    session.sql("BEGIN ID '" + id + "-" + n + "'");
                    rows.writeTo(table).append();
                    session.sql("COMMIT");
                  })
          .start()
          .awaitTermination(TimeUnit.MINUTES.toMillis(1));
    }
    assertThat(count(other, table)).isEqualTo(6);
  }

  @Test
  void rollbackDeletesItsFiles() throws IOException {
    spark.sql("INSERT INTO " + table + " VALUES (1), (2)");
    Set<Path> before = files();
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (3)");
    spark.sql("UPDATE " + table + " SET id = id + 1");
    assertThat(files()).hasSizeGreaterThan(before.size());
    spark.sql("ROLLBACK");
    assertThat(files()).isEqualTo(before);
    assertThat(count(spark, table)).isEqualTo(2);
  }

  /** The program has lost its session in a transaction: nobody can end it. */
  @Test
  void aLostSessionIsRolledBack() throws Exception {
    Set<Path> before = files();
    WeakReference<SparkSession> lost = begunAndLost();
    assertThat(files()).hasSizeGreaterThan(before.size());
    until(
        () -> {
          System.gc();
          return lost.get() == null;
        });
    until(() -> files().equals(before));
    assertThat(count(spark, table)).isZero();
  }

  /** Neither has it been idle for an hour, nor is it waited for an hour longer. */
  @ParameterizedTest
  @ValueSource(longs = {3_600_000, -3_600_000})
  void aClockThatIsSetEndsNoTransaction(long byMs) {
    AtomicLong setMs = new AtomicLong();
    TxnClock clock =
        new TxnClock() {
          @Override
          public long nowMs() {
            return TxnClock.system().nowMs() + setMs.get();
          }

          @Override
          public String newTxnId() {
            return TxnClock.system().newTxnId();
          }

          @Override
          public void backOff(long maxMs) {
            TxnClock.system().backOff(maxMs);
          }
        };
    TxnSession state = new TxnSession(newSession(), clock);
    setMs.set(byMs);
    assertThat(state.idleMs()).isBetween(0L, 60_000L);
  }

  private WeakReference<SparkSession> begunAndLost() {
    SparkSession session = newSession();
    session.sql("SET `spark.sql.txns.idle-timeout-s` = 20");
    session.sql("BEGIN");
    session.sql("INSERT INTO " + table + " VALUES (1)");
    return new WeakReference<>(session);
  }

  private static void until(Callable<Boolean> condition) throws Exception {
    long deadlineNs = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
    while (!condition.call()) {
      assertThat(System.nanoTime()).as("it has not come true").isLessThan(deadlineNs);
      Thread.sleep(200);
    }
  }

  private Set<Path> files() throws IOException {
    String location =
        rows(spark, "DESCRIBE TABLE EXTENDED " + table).stream()
            .filter(row -> row.startsWith("Location|"))
            .map(row -> row.split("\\|")[1].replaceFirst("^file:", ""))
            .findFirst()
            .orElseThrow();
    try (Stream<Path> files = Files.walk(Path.of(location))) {
      return files
          .filter(Files::isRegularFile)
          .filter(file -> !file.toString().endsWith(".crc"))
          .collect(Collectors.toSet());
    }
  }

  @Test
  void viewsAndNamespacesAreCreatedAtOnce() {
    spark.sql("BEGIN");
    spark.sql("CREATE NAMESPACE lake.at_once");
    spark.sql("CREATE VIEW " + table + "_view AS SELECT * FROM " + table);
    assertThat(rows(other, "SHOW NAMESPACES IN lake")).contains("at_once");
    assertThat(rows(other, "SELECT * FROM " + table + "_view")).isEmpty();
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    assertThat(count(spark, table + "_view")).isEqualTo(1);
    spark.sql("ROLLBACK");
    spark.sql("DROP VIEW " + table + "_view");
    spark.sql("DROP NAMESPACE lake.at_once");
  }

  @Test
  void rowsOfTheArchiveAreNotCounted() {
    for (int i = 0; i < 20; i++) { // the commit table is tidied on the way
      assertThat(affected(spark, "INSERT INTO " + table + " VALUES (1)")).isEqualTo(1);
    }
  }

  @Test
  void renameOutside() {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    spark.sql(
        "ALTER TABLE " + table + " RENAME TO " + table.substring("lake.".length()) + "_renamed");
    assertThat(count(other, table + "_renamed")).isEqualTo(1);
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + "_renamed VALUES (2)");
    spark.sql("COMMIT");
    assertThat(count(other, table + "_renamed")).isEqualTo(2);
  }

  /** The catalog underneath keeps the table until it is purged. */
  @Test
  void aNamespaceIsNotDroppedBeforeItsDroppedTablesArePurged() {
    String namespace = table.replace("db.", "");
    spark.sql("CREATE NAMESPACE " + namespace);
    spark.sql("CREATE TABLE " + namespace + ".t (id BIGINT) USING iceberg");
    spark.sql("DROP TABLE " + namespace + ".t");
    assertThat(rows(spark, "SHOW TABLES IN " + namespace)).isEmpty();
    assertThatThrownBy(() -> spark.sql("DROP NAMESPACE " + namespace))
        .hasMessageContaining("not empty");
    assertThat(rows(spark, "SHOW NAMESPACES IN lake"))
        .contains(namespace.substring("lake.".length()));
  }

  @Test
  void dropOutside() {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    spark.sql("DROP TABLE " + table);
    fails("42P01", other, "SELECT * FROM " + table);
    spark.sql("CREATE TABLE " + table + " (n INT) USING iceberg");
    assertThat(count(other, table)).isZero();
    spark.sql("INSERT INTO " + table + " VALUES (5)");
    assertThat(rows(other, "SELECT n FROM " + table)).containsExactly("5");
  }
}
