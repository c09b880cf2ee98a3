package io.txns.spark.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.spark.SparkTestBase;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What {@code txns.autocommit-isolation} validates: writes that are sent in whatever way. */
class StrictWritesTest extends SparkTestBase {

  /** What somebody else does once, while a task reads the source. */
  private static final AtomicReference<Runnable> MEANWHILE = new AtomicReference<>();

  private String source;

  @BeforeEach
  void create() {
    source = table + "_s";
    spark.sql("CREATE TABLE " + table + " (id BIGINT) USING iceberg");
    spark.sql("CREATE TABLE " + source + " (id BIGINT) USING iceberg");
    spark.sql("INSERT INTO " + source + " VALUES (1)");
    spark
        .udf()
        .register("meanwhile", (UDF1<Long, Long>) StrictWritesTest::meanwhile, DataTypes.LongType);
    strict("serializable");
  }

  private void strict(String isolation) {
    spark.sql("SET `spark.sql.txns.autocommit-isolation` = " + isolation);
  }

  private static Long meanwhile(Long id) throws Exception {
    Runnable action = MEANWHILE.getAndSet(null);
    if (action != null) {
      Thread thread = new Thread(action); // a task's own thread may not use sessions
      thread.start();
      thread.join();
    }
    return id;
  }

  /** A write into {@code table} of rows of {@code source}. */
  interface Write {
    void run(StrictWritesTest test) throws Exception;
  }

  private Dataset<Row> frame() {
    return spark.table(source).selectExpr("meanwhile(id) AS id");
  }

  private static Arguments write(String name, Write write) {
    return arguments(name, write);
  }

  private static Arguments sql(String statement) {
    return arguments(
        statement,
        (Write)
            test -> test.spark.sql(statement.replace("%t", test.table).replace("%s", test.source)));
  }

  static Stream<Arguments> writes() {
    return Stream.of(
        sql("INSERT INTO %t SELECT meanwhile(id) FROM %s"),
        sql(
            "FROM (SELECT meanwhile(id) AS id FROM %s) INSERT INTO %t SELECT id"
                + " INSERT INTO %t SELECT id WHERE id > 5"),
        sql("CREATE TABLE %t_new USING iceberg AS SELECT meanwhile(id) AS id FROM %s"),
        sql("CREATE OR REPLACE TABLE %t USING iceberg AS SELECT meanwhile(id) AS id FROM %s"),
        write("append", test -> test.frame().writeTo(test.table).append()),
        write("overwrite", test -> test.frame().writeTo(test.table).overwrite(functions.lit(true))),
        write("insertInto", test -> test.frame().write().insertInto(test.table)),
        write("saveAsTable", test -> test.frame().write().mode("append").saveAsTable(test.table)),
        write("create", test -> test.frame().writeTo(test.table + "_new").create()),
        write("replace", test -> test.frame().writeTo(test.table).createOrReplace()),
        write(
            "subquery",
            test ->
                test.spark
                    .range(1)
                    .selectExpr("(SELECT max(meanwhile(id)) FROM " + test.source + ") AS id")
                    .writeTo(test.table)
                    .append()),
        write(
            "mergeInto",
            test ->
                test.frame()
                    .as("s")
                    .mergeInto(test.table, functions.expr(test.table + ".id = s.id"))
                    .whenMatched()
                    .updateAll()
                    .whenNotMatched()
                    .insertAll()
                    .merge()));
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("writes")
  void ofRowsThatHaveChangedMeanwhile(String name, Write write) throws Exception {
    MEANWHILE.set(() -> other.sql("INSERT INTO " + source + " VALUES (2)"));
    fails("40001", () -> write.run(this));
    assertThat(MEANWHILE.get()).as("it has run").isNull();
    assertThat(count(other, table)).isZero();
    write.run(this); // once more, as the error says
  }

  @Test
  void snapshotIsolationValidatesNoReads() throws Exception {
    strict("snapshot");
    MEANWHILE.set(() -> other.sql("INSERT INTO " + source + " VALUES (2)"));
    frame().writeTo(table).append();
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1");
  }

  @Test
  void ofAnOldFrame() throws Exception {
    Dataset<Row> old = frame();
    other.sql("INSERT INTO " + source + " VALUES (2)");
    spark.sql("INSERT INTO " + table + " VALUES (7)");
    old.writeTo(table).overwrite(functions.lit(true));
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id")).containsExactly("1", "2");
    spark.sql("DROP TABLE " + table);
    old.writeTo(table).create();
    assertThat(count(other, table)).isEqualTo(2);
    other.sql("INSERT INTO " + source + " VALUES (3)");
    old.writeTo(table).createOrReplace();
    assertThat(count(other, table)).isEqualTo(3);
  }

  @Test
  void ofACachedFrame() throws Exception {
    Dataset<Row> kept = spark.table(source).cache();
    assertThat(kept.count()).isEqualTo(1);
    spark.sql("INSERT INTO " + table + " VALUES (7)");
    kept.writeTo(table).overwrite(functions.lit(true));
    MEANWHILE.set(() -> other.sql("INSERT INTO " + source + " VALUES (2)"));
    fails("40001", () -> kept.selectExpr("meanwhile(id) AS id").writeTo(table).append());
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1");
  }

  /** What a stranger has appended before a statement is there when it begins. */
  @Tag("sampled")
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "true | INSERT OVERWRITE %t SELECT id + 10 FROM %t",
        "false | INSERT OVERWRITE %t SELECT id + 10 FROM %t",
        "true | CREATE OR REPLACE TABLE %t USING iceberg AS SELECT id + 10 AS id FROM %t",
        "false | CREATE OR REPLACE TABLE %t USING iceberg AS SELECT id + 10 AS id FROM %t",
        "false | REPLACE TABLE %t USING iceberg AS WITH w AS (FROM %t) SELECT id + 10 AS id FROM w",
        "false | FROM %t INSERT OVERWRITE %t SELECT id + 10 INSERT INTO %t_more SELECT id",
        "true | INSERT OVERWRITE IDENTIFIER('%t') SELECT id + 10 FROM %t",
        "false | INSERT OVERWRITE IDENTIFIER('%t') SELECT id + 10 FROM %t",
        "false | FROM %t INSERT OVERWRITE IDENTIFIER('%t') SELECT id + 10"
            + " INSERT INTO IDENTIFIER('%t_more') SELECT id",
        "true | BEGIN USE lake.db; INSERT OVERWRITE %t SELECT id + 10 FROM %t; END",
        "false | BEGIN USE lake.db; INSERT OVERWRITE %t SELECT id + 10 FROM %t; END",
        "false | BEGIN USE lake.db; FROM %t INSERT OVERWRITE %t SELECT id + 10"
            + " INSERT INTO %t_more SELECT id; END",
        "false | CREATE OR REPLACE TABLE %t USING iceberg AS"
            + " SELECT explode((SELECT collect_list(id + 10) FROM %t)) AS id",
        "false | INSERT INTO %t REPLACE WHERE true SELECT id + 10 FROM %t"
      })
  void ofATableThatItReplacesByItsOwnRows(boolean strictly, String statement) throws Exception {
    if (!strictly) {
      spark.conf().unset("spark.sql.txns.autocommit-isolation");
    }
    spark.sql("CREATE TABLE " + table + "_more (id BIGINT) USING iceberg");
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    appendBeside(7);
    spark.sql(statement.replace("%t", table));
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id")).containsExactly("11", "17");
  }

  static Stream<Arguments> replacements() {
    return Stream.of(
        replacement("createOrReplace", (frame, table) -> frame.writeTo(table).createOrReplace()),
        replacement("replace", (frame, table) -> frame.writeTo(table).replace()),
        replacement(
            "saveAsTable", (frame, table) -> frame.write().mode("overwrite").saveAsTable(table)),
        replacement(
            "save",
            (frame, table) -> frame.write().format("iceberg").mode("overwrite").save(table)),
        replacement(
            "insertInto", (frame, table) -> frame.write().mode("overwrite").insertInto(table)),
        replacement(
            "overwrite", (frame, table) -> frame.writeTo(table).overwrite(functions.lit(true))),
        replacement(
            "overwritePartitions", (frame, table) -> frame.writeTo(table).overwritePartitions()));
  }

  /** A table is replaced by rows of a frame. */
  interface Replacement {
    void by(Dataset<Row> frame, String table) throws Exception;
  }

  private static Arguments replacement(String name, Replacement replacement) {
    return arguments(name, replacement);
  }

  /** Of a frame that was analysed before the stranger came. */
  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("replacements")
  void ofATableThatAnOldFrameOfItReplaces(String name, Replacement replacement) throws Exception {
    for (boolean strictly : new boolean[] {true, false}) {
      if (!strictly) {
        spark.conf().unset("spark.sql.txns.autocommit-isolation");
      }
      spark.sql("INSERT OVERWRITE " + table + " VALUES (1)");
      Dataset<Row> old = spark.table(table).selectExpr("id + 10 AS id");
      appendBeside(7);
      replacement.by(old, table);
      assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id"))
          .containsExactly("11", "17");
      spark.sql("DROP TABLE " + table + "_theirs");
    }
  }

  /** Nobody writes the table, or not yet: what was appended to it stays a stranger's. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "EXPLAIN INSERT OVERWRITE %t SELECT id + 10 FROM %t",
        "EXPLAIN INSERT OVERWRITE IDENTIFIER('%t') SELECT id + 10 FROM %t",
        "EXPLAIN FROM %t INSERT OVERWRITE %t SELECT id INSERT INTO IDENTIFIER('%t') SELECT id",
        "EXPLAIN CREATE OR REPLACE TABLE %t USING iceberg AS SELECT id + 10 AS id FROM %t",
        "BEGIN; INSERT OVERWRITE %t SELECT id + 10 FROM %t; ROLLBACK",
        "BEGIN; CREATE OR REPLACE TABLE %t USING iceberg AS SELECT id FROM %t; ROLLBACK",
        "BEGIN; save; ROLLBACK"
      })
  void ofNoneAdoptsNothing(String statements) throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    appendBeside(7);
    for (String statement : statements.split("; ")) {
      if (statement.equals("save")) {
        spark.table(table).write().format("iceberg").mode("overwrite").save(table);
      } else {
        spark.sql(statement.replace("%t", table)).collectAsList();
      }
    }
    assertThat(rows(other, "SELECT * FROM " + table)).containsExactly("1");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "UPDATE %t SET id = id + 10 WHERE id < 5",
        "DELETE FROM %t WHERE id < 5",
        "MERGE INTO %t t USING %s s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 11"
      })
  void ofATableToWhichAStrangerHasAppended(String statement) throws Exception {
    spark.sql("INSERT INTO " + table + " VALUES (1)");
    appendBeside(7);
    spark.sql(statement.replace("%t", table).replace("%s", source));
    assertThat(rows(other, "SELECT count(*) FROM " + table + " WHERE id IN (7, 17)"))
        .containsExactly("1");
    assertThat(rows(other, "SELECT count(*) FROM " + table + " WHERE id = 1")).containsExactly("0");
  }

  /** Appends a file, which belongs to a table that nobody writes, past the log. */
  private void appendBeside(long id) throws IOException {
    spark.sql("CREATE TABLE " + table + "_theirs USING iceberg AS SELECT BIGINT(" + id + ") AS id");
    String prefix = "spark.sql.catalog.lake.";
    try (JdbcCatalog beside = new JdbcCatalog()) {
      beside.initialize(
          "lake",
          Map.of(
              "uri", spark.conf().get(prefix + "uri"),
              "warehouse", spark.conf().get(prefix + "warehouse"),
              "jdbc.schema-version", "V1"));
      String name = table.substring("lake.".length());
      AppendFiles append = beside.loadTable(TableIdentifier.parse(name)).newAppend();
      try (CloseableIterable<FileScanTask> tasks =
          beside.loadTable(TableIdentifier.parse(name + "_theirs")).newScan().planFiles()) {
        tasks.forEach(task -> append.appendFile(task.file()));
      }
      append.commit();
    }
  }

  @Test
  void appendsDoNotClash() throws Exception {
    MEANWHILE.set(() -> other.sql("INSERT INTO " + table + " VALUES (2)"));
    frame().writeTo(table).append();
    assertThat(rows(other, "SELECT * FROM " + table + " ORDER BY id")).containsExactly("1", "2");
  }
}
