package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.spark.SparkTestBase;
import java.util.function.BiConsumer;
import java.util.stream.Stream;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataTableType;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.spark.SparkTableUtil;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Which reads of a transaction are validated, by whatever way Spark comes to the table. */
@Timeout(180)
class ReadSetTest extends SparkTestBase {

  private static final String SOURCE = "lake.db.read_set";
  private static final String TARGET = SOURCE + "_target";

  @BeforeAll
  static void create() {
    SparkSession session = newSession();
    session.sql("CREATE TABLE " + TARGET + " (id BIGINT, v BIGINT) USING iceberg");
    session.sql("CREATE TABLE " + SOURCE + " (id BIGINT, v BIGINT) USING iceberg");
    session.sql("INSERT INTO " + SOURCE + " VALUES (1, 1), (2, 2)");
    session.sql("ALTER TABLE " + SOURCE + " CREATE BRANCH b");
    session.sql("ALTER TABLE " + SOURCE + " CREATE TAG g");
    session.sql("CREATE VIEW " + SOURCE + "_view AS SELECT * FROM " + SOURCE);
  }

  @AfterEach
  void rollback() {
    spark.sql("ROLLBACK");
    spark.sql("UNCACHE TABLE IF EXISTS " + SOURCE);
    spark.sql("DROP VIEW IF EXISTS read_set_kept");
  }

  /** The transaction writes one table, and somebody else writes the one that it has read. */
  private void race() {
    spark.sql("INSERT INTO " + TARGET + " VALUES (9, 9)");
    writeRange();
  }

  /** Somebody else writes a file that may hold what any filter has read. */
  private void writeRange() {
    other.sql(
        "INSERT INTO " + SOURCE + " SELECT /*+ COALESCE(1) */ * FROM VALUES (0, 0), (99, 99)");
  }

  private static Arguments sql(String statement) {
    BiConsumer<SparkSession, String> read =
        (session, table) -> session.sql(statement.replace("%t", table)).collectAsList();
    return arguments(statement, read);
  }

  private static Arguments frame(String name, BiConsumer<SparkSession, String> read) {
    return arguments(name, read);
  }

  /** What shows a table's metadata, and none of its rows. */
  static Stream<Arguments> looks() {
    return Stream.of(
        sql("DESCRIBE TABLE EXTENDED %t"),
        sql("SHOW COLUMNS IN %t"),
        sql("SHOW TBLPROPERTIES %t"),
        sql("SHOW CREATE TABLE %t"),
        sql("DESCRIBE TABLE %t.files"),
        frame("schema", (session, name) -> session.table(name).schema()),
        frame("tableExists", (session, name) -> session.catalog().tableExists(name)),
        frame(
            "the target of save",
            (session, name) ->
                session
                    .range(1)
                    .selectExpr("id", "id AS v")
                    .write()
                    .format("iceberg")
                    .mode("append")
                    .save(name)));
  }

  /** dbt asks for the columns of each table that it appends to. */
  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("looks")
  void aLookAndAnAppendDoNotClashAtSnapshot(String name, BiConsumer<SparkSession, String> look) {
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    look.accept(spark, SOURCE);
    spark.sql("INSERT INTO " + SOURCE + " VALUES (9, 9)");
    other.sql("INSERT INTO " + SOURCE + " VALUES (3, 3)");
    assertThat(row(spark, "COMMIT").<String>getAs("state")).isEqualTo("committed");
  }

  static Stream<Arguments> readsOfRows() {
    return Stream.concat(
        rowsThatGoOn(),
        Stream.of(
            sql("EXECUTE IMMEDIATE 'SELECT max(id) FROM %t'"),
            sql("BEGIN IF (SELECT count(*) FROM %t) > 0 THEN SELECT 1; END IF; END"),
            sql("WITH s AS (SELECT max(id) AS id FROM %t) SELECT * FROM s"),
            sql("SELECT (SELECT max(id) FROM %t)"),
            sql("SELECT 1 WHERE EXISTS (SELECT 1 FROM %t WHERE id = 77)"),
            sql("CACHE TABLE read_set_kept AS SELECT * FROM %t"),
            frame("isEmpty", (session, name) -> session.table(name).isEmpty()),
            frame("cache", (session, name) -> session.table(name).cache().count()),
            frame("checkpoint", (session, name) -> session.table(name).localCheckpoint()),
            frame("rdd", (session, name) -> session.table(name).javaRDD().count()),
            frame(
                "a relation without a catalog",
                (session, name) ->
                    SparkTableUtil.loadMetadataTable(
                            session, icebergs(session, name), MetadataTableType.ENTRIES)
                        .count())));
  }

  /** However rows are read, the transaction's append to their table is lost to another one. */
  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("readsOfRows")
  void aReadOfRowsAndAnAppendClashAtSnapshot(String name, BiConsumer<SparkSession, String> read) {
    spark.sql("BEGIN ISOLATION LEVEL SNAPSHOT");
    read.accept(spark, SOURCE);
    spark.sql("INSERT INTO " + SOURCE + " VALUES (9, 9)");
    writeRange();
    fails("40001", spark, "COMMIT");
  }

  private static Table icebergs(SparkSession session, String name) {
    try {
      return Spark3Util.loadIcebergTable(session, name);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** At the levels that validate reads. */
  static Stream<Arguments> readsOfWhatGoesOn() {
    return Stream.of(
        sql("SELECT v FROM %t WHERE id = 1"),
        frame("a table of Iceberg's API", ReadSetTest::readByIcebergsTable));
  }

  private static Stream<Arguments> rowsThatGoOn() {
    return Stream.of(
        sql("SELECT v FROM %t WHERE id = 1"),
        sql("SELECT count(*) FROM %t"),
        sql("SELECT * FROM %t a JOIN %t b ON a.id = b.v"),
        sql("SELECT * FROM %t_view"),
        sql("SELECT * FROM %t.branch_b"),
        sql("SELECT * FROM %t VERSION AS OF 'b'"),
        sql("SELECT * FROM %t TIMESTAMP AS OF '2999-01-01'"),
        sql("SELECT * FROM %t.at_timestamp_32503680000000"),
        sql("SELECT * FROM %t.snapshots"),
        sql("SELECT * FROM %t.files"),
        sql("SELECT * FROM %t.changes"),
        sql("CREATE TABLE %t_copy USING iceberg AS SELECT * FROM %t"),
        sql("INSERT INTO %t_target SELECT * FROM %t"),
        sql("INSERT INTO %t SELECT id + 10, v FROM %t"),
        sql("DELETE FROM %t_target WHERE id IN (SELECT id FROM %t)"),
        sql("UPDATE %t_target SET v = (SELECT max(v) FROM %t)"),
        sql("MERGE INTO %t_target t USING %t s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"),
        sql(
            "MERGE INTO %t t USING (SELECT 7L AS id, 7L AS v) s ON t.id = s.id"
                + " WHEN NOT MATCHED THEN INSERT *"),
        frame("table", (session, name) -> session.table(name).count()),
        frame(
            "load", (session, name) -> session.read().format("iceberg").load(name).collectAsList()),
        frame(
            "incremental",
            (session, name) ->
                session
                    .read()
                    .option("start-snapshot-id", firstSnapshot(session, name))
                    .table(name)
                    .collectAsList()),
        frame("a cached table", (session, name) -> session.sql("CACHE TABLE " + name)),
        frame("a catalog of Iceberg's API", ReadSetTest::readByIcebergsCatalog));
  }

  private static String firstSnapshot(SparkSession session, String table) {
    return rows(session, "SELECT snapshot_id FROM " + table + ".snapshots ORDER BY committed_at")
        .get(0);
  }

  private static void readByIcebergsTable(SparkSession session, String name) {
    plan(icebergs(session, name));
  }

  private static void readByIcebergsCatalog(SparkSession session, String name) {
    plan(
        Spark3Util.loadIcebergCatalog(session, "lake")
            .loadTable(TableIdentifier.parse(name.substring("lake.".length()))));
  }

  private static void plan(Table table) {
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      assertThat(tasks).isNotEmpty();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("readsOfWhatGoesOn")
  void isValidated(String name, BiConsumer<SparkSession, String> read) {
    spark.sql("BEGIN");
    read.accept(spark, SOURCE);
    race();
    fails("40001", spark, "COMMIT");
  }

  /** What clashes with an append is noted, and one such read is validated above. */
  @Tag("slow")
  @ParameterizedTest(name = "{0}")
  @MethodSource("rowsThatGoOn")
  void eachReadOfRowsIsValidated(String name, BiConsumer<SparkSession, String> read) {
    isValidated(name, read);
  }

  /** From SERIALIZABLE on what shows metadata clashes with its changes, and by table with all. */
  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("looks")
  void aLookAtTheMetadataIsValidated(String name, BiConsumer<SparkSession, String> look) {
    look(look, "file", "INSERT INTO " + SOURCE + " VALUES (3, 3)");
    assertThat(row(spark, "COMMIT").<String>getAs("state")).isEqualTo("committed");
    look(
        look,
        "file",
        "ALTER TABLE " + SOURCE + " SET TBLPROPERTIES ('k' = '" + System.nanoTime() + "')");
    fails("40001", spark, "COMMIT");
    spark.sql("ROLLBACK");
    look(look, "table", "INSERT INTO " + SOURCE + " VALUES (3, 3)");
    fails("40001", spark, "COMMIT");
  }

  private void look(BiConsumer<SparkSession, String> look, String conflicts, String others) {
    spark.sql("SET spark.sql.txns.conflicts = " + conflicts);
    spark.sql("BEGIN");
    look.accept(spark, SOURCE);
    spark.sql("INSERT INTO " + TARGET + " VALUES (9, 9)");
    other.sql(others);
  }

  @Test
  void aFrameFromBeforeBeginIsValidated() {
    Dataset<Row> plain = spark.table(SOURCE).where("id = 1");
    Dataset<Row> branch = spark.table(SOURCE + ".branch_b");
    Dataset<Row> metadata = spark.table(SOURCE + ".snapshots");
    for (Dataset<Row> frame : new Dataset[] {plain, branch, metadata}) {
      spark.sql("BEGIN");
      frame.collectAsList();
      race();
      fails("40001", spark, "COMMIT");
    }
  }

  static Stream<Arguments> readsOfThePast() {
    return Stream.of(
        sql("SELECT * FROM %t VERSION AS OF %id"),
        sql("SELECT * FROM %t.snapshot_id_%id"),
        sql("SELECT * FROM %t.files VERSION AS OF %id"),
        sql("SELECT * FROM %t VERSION AS OF 'g'"),
        sql("SELECT * FROM %t.tag_g"),
        sql("SELECT * FROM %t TIMESTAMP AS OF '%time'"),
        sql("SELECT * FROM %t.at_timestamp_%ms"),
        sql("INSERT INTO %t_target SELECT * FROM %t VERSION AS OF %id"));
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("readsOfThePast")
  void isNotValidated(String name, BiConsumer<SparkSession, String> read) {
    Row snapshot =
        row(
            spark,
            "SELECT snapshot_id, unix_millis(committed_at) AS ms, committed_at FROM "
                + SOURCE
                + ".snapshots ORDER BY committed_at DESC LIMIT 1");
    String statement =
        name.replace("%id", snapshot.get(0).toString())
            .replace("%ms", snapshot.get(1).toString())
            .replace("%time", snapshot.get(2).toString())
            .replace("%t", SOURCE);
    spark.sql("BEGIN");
    assertThat(spark.sql(statement).collectAsList()).isNotEmpty();
    race();
    assertThat(row(spark, "COMMIT").<String>getAs("state")).isEqualTo("committed");
  }

  /** What they read nobody sees: it counts as the whole table. */
  @Test
  void manifestsMayBeReadByTheExecutors() throws Exception {
    spark.sql(
        "CREATE TABLE "
            + table
            + " (id BIGINT, v BIGINT) USING iceberg TBLPROPERTIES"
            + " ('read.data-planning-mode'='distributed',"
            + " 'read.delete-planning-mode'='distributed')");
    spark.sql("INSERT INTO " + table + " VALUES (1, 1), (2, 2)");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO " + table + " VALUES (3, 3)");
    spark.sql("DELETE FROM " + table + " WHERE id = 1");
    assertThat(rows(spark, "SELECT id FROM " + table + " ORDER BY id")).containsExactly("2", "3");
    assertThat(jobsOfDistributedPlanning()).isNotEmpty();
    other.sql("INSERT INTO " + table + " VALUES (4, 4)");
    fails("40001", spark, "COMMIT");
  }

  private int[] jobsOfDistributedPlanning() throws Exception {
    spark.sparkContext().listenerBus().waitUntilEmpty();
    return spark.sparkContext().statusTracker().getJobIdsForGroup("DATA-PLANNING");
  }
}
