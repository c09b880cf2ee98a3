package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.SparkTestBase;
import io.txns.spark.TxnSparkCatalog;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

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

  /**
   * Each session has a catalog instance of its own over the same commit table, and whatever table
   * is loaded, both have changed when the other one is.
   */
  @Test
  void tablesThatTwoSessionsHaveLoadedAreReadAtOneMoment(@TempDir Path folder) {
    TxnHandle outside = overtaken(folder);
    Dataset<Row> loadedByAnother = other.table("overtaken.db.b").agg(functions.count("*"));
    Overtaken.afterLoad = () -> appendToBoth(outside);
    try {
      Dataset<Row> loaded = spark.table("overtaken.db.a").agg(functions.count("*"));
      Row counts = loaded.crossJoin(loadedByAnother).first();
      assertThat(counts.getLong(0)).isPositive().isEqualTo(counts.getLong(1));
    } finally {
      Overtaken.afterLoad = () -> {};
    }
  }

  /** Two tables in a catalog that tells of loads, and somebody else who writes them. */
  private TxnHandle overtaken(Path folder) {
    Map<String, String> options =
        Map.of(
            "uri",
            "jdbc:sqlite:" + folder.resolve("catalog.db"),
            "warehouse",
            folder.resolve("files").toString(),
            "jdbc.schema-version",
            "V1");
    List.of(spark, other).forEach(session -> Overtaken.configure(session, options));
    spark.sql("CREATE NAMESPACE overtaken.db");
    spark.sql("CREATE TABLE overtaken.db.a (n INT) USING iceberg");
    spark.sql("CREATE TABLE overtaken.db.b (n INT) USING iceberg");
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("overtaken", options);
    return TxnHandle.open("overtaken", catalog, TxnConfig.defaults(), TxnClock.system());
  }

  private static final String COUNTS =
      "SELECT (SELECT count(*) FROM overtaken.db.a), (SELECT count(*) FROM overtaken.db.b)";

  private static int loadsOf(Runnable statement) {
    AtomicInteger loads = new AtomicInteger();
    Overtaken.afterLoad = loads::incrementAndGet;
    try {
      statement.run();
    } finally {
      Overtaken.afterLoad = () -> {};
    }
    return loads.get();
  }

  @Test
  void aQueryLoadsEachOfItsTablesOnce(@TempDir Path folder) {
    TxnHandle outside = overtaken(folder);
    assertThat(loadsOf(() -> rows(spark, COUNTS))).isEqualTo(2);
    appendToBoth(outside);
    assertThat(loadsOf(() -> assertThat(rows(spark, COUNTS)).containsExactly("1|1"))).isEqualTo(2);
  }

  @Test
  void aQueryThatRunsLaterSeesWhatWasCommittedMeanwhile(@TempDir Path folder) {
    TxnHandle outside = overtaken(folder);
    Dataset<Row> analysed = spark.sql(COUNTS);
    Dataset<Row> used = spark.table("overtaken.db.a");
    appendToBoth(outside);
    assertThat(used.count()).isEqualTo(1);
    assertThat(analysed.collectAsList().get(0).getLong(1)).isEqualTo(1);
    appendToBoth(outside);
    assertThat(used.count()).isEqualTo(2);
    assertThat(analysed.select("*").first().getLong(1)).isEqualTo(2);
  }

  @Test
  void whatNobodyHasChangedIsNotLoadedAgainUntilARefresh(@TempDir Path folder) {
    overtaken(folder);
    Dataset<Row> analysed = spark.sql(COUNTS);
    Dataset<Row> refreshed = spark.sql(COUNTS);
    assertThat(loadsOf(analysed::collectAsList)).isZero();
    spark.sql("REFRESH TABLE overtaken.db.a");
    assertThat(loadsOf(refreshed::collectAsList)).isEqualTo(2);
  }

  /**
   * 1. A thread of a session loads a table. 2. The table is written. 3. Before the load has come to
   * its end, another thread of that session asks for the table.
   */
  @Test
  void aQueryDoesNotReadWhatAnotherThreadBeganToLoadBefore(@TempDir Path folder) throws Exception {
    TxnHandle outside = overtaken(folder);
    CountDownLatch loading = new CountDownLatch(1);
    CountDownLatch written = new CountDownLatch(1);
    ExecutorService threads = Executors.newFixedThreadPool(2);
    Overtaken.afterLoad =
        () -> {
          if (loading.getCount() > 0) {
            loading.countDown();
            await(written);
          }
        };
    try {
      Future<List<String>> early = threads.submit(() -> rows(spark, COUNTS));
      await(loading);
      appendToBoth(outside);
      Future<List<String>> late = threads.submit(() -> rows(spark, COUNTS));
      assertThat(late.get(1, TimeUnit.MINUTES)).containsExactly("1|1");
      written.countDown();
      assertThat(early.get(1, TimeUnit.MINUTES)).containsExactly("1|1");
    } finally {
      written.countDown();
      Overtaken.afterLoad = () -> {};
      threads.shutdown();
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(1, TimeUnit.MINUTES)).isTrue();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** A monitor's thread, say: it asks a catalog that it was given, and plans no query. */
  @Test
  void aThreadWithoutASessionLoadsATableAsItIsNow() throws Exception {
    TxnSparkCatalog lake = lake(spark);
    Identifier name = Identifier.of(new String[] {"db"}, table.substring("lake.db.".length()));
    SparkSession ours = SparkSession.getDefaultSession().get();
    ExecutorService monitor = Executors.newSingleThreadExecutor();
    SparkSession.clearDefaultSession();
    try {
      Future<String> loaded =
          monitor.submit(
              () -> {
                SparkSession.clearActiveSession();
                return lake.loadTable(name).name();
              });
      assertThat(loaded.get(1, TimeUnit.MINUTES)).isEqualTo(table);
    } finally {
      SparkSession.setDefaultSession(ours);
      monitor.shutdown();
    }
  }

  private static TxnSparkCatalog lake(SparkSession session) {
    return (TxnSparkCatalog)
        ((org.apache.spark.sql.classic.SparkSession) session)
            .sessionState()
            .catalogManager()
            .catalog("lake");
  }

  /** One row each, in a file that nobody opens: they are counted by metadata. */
  private static void appendToBoth(TxnHandle handle) {
    Transaction transaction = handle.begin(BeginOptions.defaults());
    for (String name : List.of("db.a", "db.b")) {
      append(handle.catalog(() -> transaction).loadTable(TableIdentifier.parse(name)));
    }
    transaction.commit();
  }

  private static void append(Table table) {
    DataFile file =
        DataFiles.builder(table.spec())
            .withPath(table.location() + "/data/" + UUID.randomUUID() + ".parquet")
            .withFileSizeInBytes(1)
            .withRecordCount(1)
            .build();
    table.newAppend().appendFile(file).commit();
  }

  /** A catalog in which something happens whenever a data table has been loaded. */
  public static final class Overtaken extends JdbcCatalog {
    private static volatile Runnable afterLoad = () -> {};

    static void configure(SparkSession session, Map<String, String> options) {
      String prefix = "spark.sql.catalog.overtaken";
      session.conf().set(prefix, TxnSparkCatalog.class.getName());
      session.conf().set(prefix + ".catalog-impl", Overtaken.class.getName());
      options.forEach((key, value) -> session.conf().set(prefix + "." + key, value));
    }

    @Override
    public Table loadTable(TableIdentifier identifier) {
      Table loaded = super.loadTable(identifier);
      if (identifier.namespace().equals(Namespace.of("db"))) {
        afterLoad.run();
      }
      return loaded;
    }
  }

  /** Spark's caches do not hear of it, as if another process had done it. */
  private void emptyBothInAnotherProcess() throws Exception {
    TxnSparkCatalog lake = lake(other);
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
