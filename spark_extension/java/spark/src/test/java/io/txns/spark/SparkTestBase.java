package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;

/**
 * Sessions over {@code lake}, a catalog of ours on SQLite; {@code second}, another one; {@code
 * uncached}, one without Iceberg's catalog cache; and {@code plain}, Iceberg's own catalog.
 */
public abstract class SparkTestBase {

  private static final AtomicInteger TABLES = new AtomicInteger();

  /** One context for all test classes: starting it is most of their time. */
  private static SparkSession root;

  protected SparkSession spark;
  protected SparkSession other;

  /** A table name that no other test uses, in {@code lake}. */
  protected String table;

  @BeforeAll
  public static void startSpark() throws IOException {
    if (root == null) {
      root = start(Files.createTempDirectory("txns-spark-test"));
      root.sql("CREATE NAMESPACE IF NOT EXISTS lake.db");
      root.sql("CREATE NAMESPACE IF NOT EXISTS second.db");
      root.sql("CREATE NAMESPACE IF NOT EXISTS uncached.db");
    }
  }

  private static SparkSession start(Path directory) {
    SparkSession.Builder builder =
        SparkSession.builder()
            .master("local[2]")
            .appName("txns")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", directory.resolve("hive").toString())
            .config(
                "spark.sql.extensions",
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
                    + TxnSparkExtensions.class.getName());
    catalog(builder, "lake", TxnSparkCatalog.class.getName(), directory.resolve("lake"));
    catalog(builder, "plain", "org.apache.iceberg.spark.SparkCatalog", directory.resolve("lake"));
    catalog(builder, "second", TxnSparkCatalog.class.getName(), directory.resolve("second"));
    catalog(builder, "uncached", TxnSparkCatalog.class.getName(), directory.resolve("uncached"));
    builder.config("spark.sql.catalog.uncached.cache-enabled", "false");
    builder.config(
        "spark.sql.catalog.lake.txns.create-locations", System.getProperty("java.io.tmpdir"));
    return builder.getOrCreate();
  }

  private static void catalog(
      SparkSession.Builder builder, String name, String implementation, Path directory) {
    String prefix = "spark.sql.catalog." + name;
    builder
        .config(prefix, implementation)
        .config(prefix + ".type", "jdbc")
        .config(
            prefix + ".uri", "jdbc:sqlite:" + directory + ".db?journal_mode=WAL&busy_timeout=30000")
        .config(prefix + ".warehouse", directory.toString())
        .config(prefix + ".jdbc.schema-version", "V1");
  }

  @BeforeEach
  public void newSessions() {
    spark = newSession();
    other = newSession();
    table = "lake.db.t" + TABLES.incrementAndGet();
  }

  public static SparkSession newSession() {
    SparkSession session = root.newSession();
    session.sql("USE lake.db");
    return session;
  }

  /** Rows as text, {@code a|b}, in the query's order. */
  public static List<String> rows(SparkSession session, String sql) {
    return session.sql(sql).collectAsList().stream().map(SparkTestBase::text).toList();
  }

  private static String text(Row row) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < row.length(); i++) {
      Object value = row.get(i);
      text.append(i == 0 ? "" : "|")
          .append(value instanceof Object[] a ? Arrays.toString(a) : value);
    }
    return text.toString();
  }

  public static long count(SparkSession session, String table) {
    return session.table(table).count();
  }

  /** The one row that a statement returns. */
  public static Row row(SparkSession session, String sql) {
    return session.sql(sql).first();
  }

  public static String state(SparkSession session) {
    return row(session, "SHOW TRANSACTION").getAs("state");
  }

  /** What SHOW TRANSACTION says of who has reserved {@code table}; other tests' stay a while. */
  protected List<String> reserved() {
    List<String> all = row(spark, "SHOW TRANSACTION").getList(9);
    String name = table.substring("lake.".length());
    return all.stream().filter(each -> each.matches(".*[ :]" + name + ", .*")).toList();
  }

  public static long affected(SparkSession session, String sql) {
    return row(session, sql).getAs("num_affected_rows");
  }

  public interface Action {
    void run() throws Exception;
  }

  public static SparkThrowable fails(String sqlState, Action action) {
    Throwable thrown = catchThrowable(action::run);
    assertThat(thrown).isInstanceOf(SparkThrowable.class);
    assertThat(((SparkThrowable) thrown).getSqlState()).as(thrown.toString()).isEqualTo(sqlState);
    return (SparkThrowable) thrown;
  }

  public static SparkThrowable fails(String sqlState, SparkSession session, String sql) {
    return fails(sqlState, () -> session.sql(sql).collectAsList());
  }
}
