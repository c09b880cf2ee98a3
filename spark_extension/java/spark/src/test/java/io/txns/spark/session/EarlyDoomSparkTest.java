package io.txns.spark.session;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static scala.jdk.javaapi.CollectionConverters.asJava;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnHandle;
import io.txns.spark.SparkTestBase;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A transaction that has lost learns it at its next statement; other tests turn that off. */
class EarlyDoomSparkTest extends SparkTestBase {
  private static final String OPTION = "spark.sql.txns.early-doom";

  /** What somebody else does once, while a task of a statement runs. */
  private static final AtomicReference<Runnable> MEANWHILE = new AtomicReference<>();

  /** For how long {@code slowly} has yet to run, in ms. */
  private static final AtomicLong LEFT_MS = new AtomicLong();

  private String second;

  @BeforeEach
  void twoTables() {
    spark.conf().set(OPTION, "true");
    second = table + "_second";
    for (String name : List.of(table, second)) {
      spark.sql("CREATE TABLE " + name + " (day INT, v INT) USING iceberg PARTITIONED BY (day)");
      spark.sql("INSERT INTO " + name + " VALUES (1, 0), (2, 0)");
    }
  }

  /** {@code spark} updates day 1, and somebody else a day; more than a tenth of a second passes. */
  private void clashes(int day) throws InterruptedException {
    spark.sql("BEGIN");
    update(spark, 1, 5);
    update(other, day, 7);
    Thread.sleep(150);
  }

  /** Has {@code meanwhile(day)} of a statement do it, and more than a tenth of a second pass. */
  private void meanwhile(Runnable deed) {
    MEANWHILE.set(deed);
    spark
        .udf()
        .register(
            "meanwhile",
            (UDF1<Integer, Integer>) EarlyDoomSparkTest::meanwhile,
            DataTypes.IntegerType);
  }

  private static Integer meanwhile(Integer day) throws InterruptedException {
    Runnable deed = MEANWHILE.getAndSet(null);
    if (deed != null) {
      Thread thread = new Thread(deed); // a task's own thread may not use sessions
      thread.start();
      thread.join();
      Thread.sleep(150);
    }
    return day;
  }

  /** Has {@code slowly(v)} run {@code meanwhile}'s deed, and so many seconds, the first time. */
  private void runsSlowly(int seconds) {
    LEFT_MS.set(1000L * seconds);
    spark
        .udf()
        .register(
            "slowly", (UDF1<Integer, Integer>) EarlyDoomSparkTest::slowly, DataTypes.IntegerType);
  }

  private static Integer slowly(Integer value) throws InterruptedException {
    meanwhile(0);
    while (LEFT_MS.addAndGet(-100) > 0) {
      TaskContext.get().killTaskIfInterrupted();
      Thread.sleep(100);
    }
    return value;
  }

  /** Another driver: this one hears of nothing that it commits. */
  private static TxnHandle anotherDriver() {
    Map<String, String> options = new HashMap<>();
    for (String name : List.of("uri", "warehouse", "jdbc.schema-version")) {
      options.put(name, newSession().conf().get("spark.sql.catalog.lake." + name));
    }
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    return TxnHandle.open("lake", catalog, TxnConfig.defaults(), TxnClock.system());
  }

  private void deleteDay(TxnHandle by, int day) {
    TableIdentifier name = TableIdentifier.parse(table.substring("lake.".length()));
    by.catalog(() -> null)
        .loadTable(name)
        .newDelete()
        .deleteFromRowFilter(Expressions.equal("day", day))
        .commit();
  }

  private void update(SparkSession session, int day, int value) {
    session.sql("UPDATE " + table + " SET v = " + value + " WHERE day = " + day);
  }

  @Tag("sampled")
  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT * FROM %s",
        "INSERT INTO %s VALUES (3, 0)",
        "MERGE INTO %s t USING (SELECT 1 AS day) s ON t.day = s.day WHEN MATCHED THEN DELETE",
        "DROP TABLE %s"
      })
  void theLosersNextStatementIsTold(String text) throws Exception {
    String statement = text.formatted(second);
    clashes(1);
    assertThat((Throwable) fails("40001", spark, statement))
        .hasMessageContaining("table=`" + table.substring("lake.".length()) + "`");
    assertThat(state(spark)).isEqualTo("aborted");
    fails("40001", spark, statement); // who has not heard it is told again
    fails("40001", spark, "COMMIT");
    assertThat(state(spark)).isEqualTo("none");
    spark.sql("ROLLBACK");
    assertThat(rows(spark, "SELECT * FROM " + table + " ORDER BY day"))
        .containsExactly("1|7", "2|0");
    assertThat(rows(spark, "SELECT * FROM " + second + " ORDER BY day"))
        .containsExactly("1|0", "2|0");
  }

  /** Be it told by a statement or by COMMIT: it reserves its tables. */
  @Test
  void theNextBeginIsItsNextTry() throws Exception {
    clashes(1);
    fails("40001", spark, "SELECT * FROM " + second);
    spark.sql("ROLLBACK");
    String id = spark.sql("BEGIN").first().getAs("txn_id");
    assertThat(reserved()).singleElement().asString().startsWith(id);
    update(spark, 1, 6);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("6");
  }

  @Test
  void whoMeetsNobodyGoesOn() throws Exception {
    clashes(2);
    assertThat(count(spark, second)).isEqualTo(2);
    update(spark, 1, 6);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY day"))
        .containsExactly("1|6", "2|7");
  }

  /** What goes wrong is undone with the savepoint; the rest commits. */
  @Test
  void whoGoesBackBehindItsLossGoesOn() throws Exception {
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    spark.sql("INSERT INTO " + second + " VALUES (3, 0)");
    spark.sql("SAVEPOINT before");
    spark.sql("ALTER TABLE " + table + " SET TBLPROPERTIES ('a' = 'b')");
    update(other, 1, 7);
    Thread.sleep(150);
    fails("40001", spark, "SELECT * FROM " + second);
    spark.sql("ROLLBACK TO before");
    assertThat(state(spark)).isEqualTo("active");
    assertThat(count(spark, second)).isEqualTo(3);
    spark.sql("COMMIT");
    assertThat(count(other, second)).isEqualTo(3);
  }

  /** What Spark itself caches is read again after a ROLLBACK TO: nobody hears what that is told. */
  @Test
  void whatNobodyHasHeardIsToldAgain() throws Exception {
    spark.sql("BEGIN");
    update(spark, 1, 5);
    spark.sql("SAVEPOINT s");
    spark.table(second).cache().count();
    update(other, 1, 7);
    Thread.sleep(150);
    spark.sql("ROLLBACK TO s");
    fails("40001", spark, "SELECT * FROM " + table);
    fails("40001", spark, "COMMIT");
    String id = spark.sql("BEGIN").first().getAs("txn_id");
    assertThat(reserved()).singleElement().asString().startsWith(id);
    update(spark, 1, 6);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("6");
  }

  /** 1. A block has written. 2. Somebody else writes the same. 3. Its next statement is told. */
  @Test
  void aBlockRunsAgain() throws Exception {
    meanwhile(() -> update(other, 1, 7));
    spark.sql(
        "BEGIN ATOMIC UPDATE %1$s SET v = v + 1 WHERE day = 1; SELECT meanwhile(day) FROM %2$s;"
                .formatted(table, second)
            + " INSERT INTO %2$s VALUES (3, 0); END".formatted(table, second));
    assertThat(MEANWHILE.get()).as("it has run").isNull();
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("8");
    assertThat(count(other, second)).isEqualTo(3);
    assertThat(state(spark)).isEqualTo("none");
  }

  /** A handler takes the error: it goes on, loses at its end, and runs again. */
  @Test
  void aBlockWithAHandlerRunsAgain() throws Exception {
    meanwhile(() -> update(other, 1, 7));
    spark.sql(
        ("BEGIN ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 1;"
                + " UPDATE %1$s SET v = v + 1 WHERE day = 1; SELECT meanwhile(day) FROM %2$s;"
                + " INSERT INTO %2$s VALUES (3, 0); END")
            .formatted(table, second));
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("8");
    assertThat(count(other, second)).isEqualTo(3);
  }

  /** What is undone alone has not undone the loss. */
  @Test
  void aStatementThatIsUndoneAloneAbortsAllTheSame() throws Exception {
    spark.conf().set("spark.sql.txns.abort-on-error", "false");
    clashes(1);
    fails("40001", spark, "INSERT INTO " + second + " VALUES (3, 0)");
    assertThat(state(spark)).isEqualTo("aborted");
    fails("40001", spark, "INSERT INTO " + second + " VALUES (4, 0)");
    spark.sql("ROLLBACK");
    assertThat(count(spark, second)).isEqualTo(2);
  }

  private static void atOnce(int threads, List<Callable<Object>> statements) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      for (Future<Object> done : pool.invokeAll(statements, 60, TimeUnit.SECONDS)) {
        done.get();
      }
    } finally {
      pool.shutdown();
    }
  }

  /** Threads of one session: each is told, and none of them keeps another waiting. */
  @Test
  void threadsOfOneSession() throws Exception {
    clashes(1);
    List<Callable<Object>> statements =
        IntStream.range(0, 8)
            .<Callable<Object>>mapToObj(
                n ->
                    () -> fails("40001", spark, "INSERT INTO " + second + " VALUES (9, " + n + ")"))
            .toList();
    atOnce(4, statements);
    fails("40001", spark, "COMMIT");
    assertThat(count(spark, second)).isEqualTo(2);
  }

  /** A batch of a stream is a transaction beside its session's. */
  @Test
  void batchesOfAStream() throws Exception {
    List<String> told = new CopyOnWriteArrayList<>();
    StreamingQuery query =
        spark
            .readStream()
            .format("rate-micro-batch")
            .option("rowsPerBatch", 1)
            .load()
            .writeStream()
            .trigger(Trigger.Once())
            .foreachBatch(
                (VoidFunction2<Dataset<Row>, Long>)
                    (batch, id) -> told.addAll(losesOnce(batch.sparkSession())))
            .start();
    query.processAllAvailable();
    query.stop();
    assertThat(query.exception().isEmpty()).isTrue();
    assertThat(told).containsExactly("40001", "committed");
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("6");
  }

  private List<String> losesOnce(SparkSession session) throws InterruptedException {
    session.sql("BEGIN");
    update(session, 1, 5);
    update(other, 1, 7);
    Thread.sleep(150);
    String told = fails("40001", session, "SELECT * FROM " + second).getSqlState();
    session.sql("ROLLBACK");
    session.sql("BEGIN");
    update(session, 1, 6);
    return List.of(told, session.sql("COMMIT").first().getAs("state"));
  }

  /**
   * 1. A write runs, the first one of its transaction. 2. Somebody else writes what it has read. 3.
   * It is stopped long before its end, and leaves nothing.
   */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "UPDATE %1$s SET v = slowly(v) WHERE day = 1",
        "INSERT INTO %2$s SELECT day, slowly(v) FROM %1$s WHERE day = 1",
        "MERGE INTO %1$s t USING (SELECT 1 AS day) s ON t.day = s.day AND slowly(t.v) = 0"
            + " WHEN MATCHED THEN UPDATE SET v = 5"
      })
  void aWriteThatRunsIsStopped(String text) throws Exception {
    runsSlowly(600);
    meanwhile(() -> update(other, 1, 7));
    spark.sql("BEGIN");
    assertThat((Throwable) fails("40001", spark, text.formatted(table, second)))
        .hasMessageContaining("table=`" + table.substring("lake.".length()) + "`");
    assertThat(LEFT_MS.get()).as("it has stopped").isPositive();
    assertThat(state(spark)).isEqualTo("aborted");
    fails("40001", spark, "COMMIT");
    assertThat(rows(spark, "SELECT * FROM " + table + " ORDER BY day"))
        .containsExactly("1|7", "2|0");
    assertThat(count(spark, second)).isEqualTo(2);
  }

  @Test
  void aWriteThatRunsIsStoppedByAnotherDriver() throws Exception {
    TxnHandle driver = anotherDriver();
    runsSlowly(600);
    meanwhile(() -> deleteDay(driver, 1));
    spark.sql("BEGIN");
    fails("40001", spark, "UPDATE " + table + " SET v = slowly(v) WHERE day = 1");
    assertThat(LEFT_MS.get()).isPositive();
  }

  @Test
  void aBlockWhoseWriteIsStoppedRunsAgain() throws Exception {
    runsSlowly(6);
    meanwhile(() -> update(other, 1, 7));
    String update = "UPDATE " + table + " SET v = slowly(v) + 1 WHERE day = 1;";
    spark.sql("BEGIN ATOMIC " + update + " END");
    assertThat(rows(other, "SELECT v FROM " + table + " WHERE day = 1")).containsExactly("8");
  }

  /** The table is as it was, or is not there. */
  @ParameterizedTest
  @ValueSource(strings = {"CREATE TABLE %s_new AS", "CREATE OR REPLACE TABLE %s AS"})
  void aTableThatIsMadeOfAQuery(String text) throws Exception {
    TxnHandle driver = anotherDriver();
    runsSlowly(600);
    meanwhile(() -> deleteDay(driver, 1));
    spark.sql("BEGIN");
    String query = " SELECT day, slowly(v) AS v FROM " + table + " WHERE day = 1";
    fails("40001", spark, text.formatted(second) + query);
    spark.sql("ROLLBACK");
    assertThat(rows(spark, "SHOW TABLES LIKE '*second_new'")).isEmpty();
    assertThat(count(spark, second)).isEqualTo(2);
  }

  /** It is its first statement, begun in another catalog. */
  @Test
  void aMultiInsert() throws Exception {
    TxnHandle driver = anotherDriver();
    runsSlowly(20);
    meanwhile(() -> deleteDay(driver, 1));
    spark.sql("USE spark_catalog");
    spark.sql("BEGIN");
    String into = " INSERT INTO " + second + " SELECT day, slowly(v)";
    fails("40001", spark, "FROM (SELECT * FROM " + table + " WHERE day = 1)" + into + into);
    assertThat(LEFT_MS.get()).as("it has stopped").isPositive();
  }

  /** Each is told, and none goes on. */
  @ParameterizedTest
  @ValueSource(strings = {"true", "false"})
  void writesOfSeveralThreadsAreStopped(String abortOnError) throws Exception {
    spark.conf().set("spark.sql.txns.abort-on-error", abortOnError);
    TxnHandle driver = anotherDriver();
    runsSlowly(600);
    meanwhile(() -> deleteDay(driver, 1));
    spark.sql("BEGIN");
    String write = "INSERT INTO " + second + " SELECT day, slowly(v) FROM " + table;
    atOnce(2, List.of(() -> fails("40001", spark, write), () -> fails("40001", spark, write)));
    fails("40001", spark, "COMMIT");
    assertThat(count(spark, second)).isEqualTo(2);
  }

  /** 1. A write runs. 2. Somebody else writes another day. 3. It ends, in its time. */
  @Test
  void aWriteThatMeetsNobodyIsNotStopped() {
    runsSlowly(3);
    meanwhile(() -> update(other, 2, 7));
    spark.sql("BEGIN");
    spark.sql("UPDATE " + table + " SET v = slowly(v) + 1 WHERE day = 1");
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY day"))
        .containsExactly("1|1", "2|7");
  }

  /** An overwrite says at its end what it has replaced. */
  @Test
  void anOverwriteOfAnotherDayIsNotStopped() {
    TxnHandle driver = anotherDriver();
    runsSlowly(4);
    meanwhile(() -> deleteDay(driver, 2));
    spark.sql("BEGIN");
    spark
        .sql("SELECT day, slowly(v) + 1 AS v FROM " + second + " WHERE day = 1")
        .write()
        .format("iceberg")
        .option("overwrite-mode", "dynamic")
        .mode("overwrite")
        .save(table);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1|1");
  }

  /** Its tasks delete what they have written, and the session's own tags stay. */
  @Test
  void aWriteThatIsStoppedLeavesNothing() throws Exception {
    TxnHandle driver = anotherDriver();
    spark.sparkContext().addJobTag("mine");
    Set<Path> before = files();
    runsSlowly(600);
    meanwhile(() -> deleteDay(driver, 1));
    spark.sql("BEGIN");
    fails("40001", spark, "UPDATE " + table + " SET v = slowly(v) WHERE day = 1");
    spark.sql("ROLLBACK");
    assertThat(files()).isEqualTo(before);
    assertThat(asJava(spark.sparkContext().getJobTags())).containsExactly("mine");
    spark.sparkContext().removeJobTag("mine");
    spark.sql("BEGIN");
    update(spark, 2, 6);
    spark.sql("COMMIT");
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("2|6");
  }

  /** The data files below the table, of whatever snapshot. */
  private Set<Path> files() throws IOException {
    String data = spark.table(table + ".files").first().getAs("file_path");
    try (Stream<Path> all = Files.walk(Path.of(data).getParent().getParent())) {
      return all.filter(each -> each.toString().endsWith(".parquet")).collect(Collectors.toSet());
    }
  }

  /** 1. A write runs. 2. Its user cancels it. 3. That is what he is told. */
  @Test
  void whoCancelsAWriteHearsOfThat() {
    runsSlowly(600);
    meanwhile(() -> spark.sparkContext().cancelJobsWithTag("mine"));
    spark.sql("BEGIN");
    spark.sparkContext().addJobTag("mine");
    assertThatThrownBy(() -> spark.sql("UPDATE " + table + " SET v = slowly(v) WHERE day = 1"))
        .hasMessageContaining("SPARK_JOB_CANCELLED");
    spark.sparkContext().removeJobTag("mine");
    assertThat(state(spark)).isEqualTo("aborted");
  }

  @Test
  void itCanBeTurnedOff() throws Exception {
    spark.conf().set(OPTION, "false");
    clashes(1);
    assertThat(count(spark, second)).isEqualTo(2);
    fails("40001", spark, "COMMIT");
  }
}
