package org.apache.iceberg.spark;

import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.dynamic.loading.ClassReloadingStrategy;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.spark.source.HasIcebergCatalog;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** What a suite of Iceberg's needs to run over catalogs of ours; in its package for its fields. */
public final class OverTransactions extends TestBase
    implements BeforeTestExecutionCallback, AfterEachCallback {
  /** Numbers of the parameter rows to run, separated by commas; all when it is empty. */
  private static final String ROWS = "txns.rows";

  private static final Map<String, String> OURS =
      Map.of(
          "org.apache.iceberg.spark.SparkCatalog",
          "io.txns.spark.TxnSparkCatalog",
          "org.apache.iceberg.spark.SparkSessionCatalog",
          "io.txns.spark.TxnSparkSessionCatalog");

  /** The catalog that the running test had, which knows nothing of transactions. */
  private Catalog plain;

  /**
   * The suites count the snapshots of a table: show them those of statements, without those that
   * the specification's I2 adds for creating and altering a table. What a suite writes past Spark
   * goes through our catalog too, as it does in a program that has the catalog's table.
   */
  @Override
  public void beforeTestExecution(ExtensionContext context) {
    TestBaseWithCatalog test = (TestBaseWithCatalog) context.getRequiredTestInstance();
    plain = test.validationCatalog;
    HasIcebergCatalog ours =
        (HasIcebergCatalog)
            spark.sessionState().catalogManager().catalog(test.catalogName);
    test.validationCatalog = StatementSnapshots.over(ours.icebergCatalog());
  }

  /**
   * The suites give all their tables one name: take away what a test has dropped, or could not
   * drop, and the log that knows of it, so that the next test begins with an empty lake.
   */
  @Override
  public void afterEach(ExtensionContext context) {
    for (TableIdentifier table : plain.listTables(Namespace.of("default"))) {
      if (plain.loadTable(table).properties().containsKey("txns.commit-table")) {
        plain.dropTable(table, true);
      }
    }
    plain.dropTable(TableIdentifier.of("txns", "commits"), true);
    spark = spark.newSession(); // catalogs remember the log
    SparkSession.setActiveSession(spark); // the suites set options in the active one
  }

  /**
   * Errors of Iceberg's own validation reach users as Spark's AnalysisException with SQLSTATE 40001
   * and Iceberg's words. The suites look for Iceberg's classes: give them what is inside.
   */
  public static final class IcebergErrors {
    private IcebergErrors() {}

    /** Runs when the translation of an error ends. */
    @Advice.OnMethodExit
    public static void unwrap(
        @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Throwable translated) {
      if (translated != null
          && translated.getCause() != null
          && translated.getCause().getClass().getName().startsWith("org.apache.iceberg.exceptions.")) {
        translated = translated.getCause();
      }
    }
  }

  /**
   * The suites' threads wait five seconds for a statement of each other, which two cores with
   * something else to do may need for it: give them a minute.
   */
  public static final class Patience {
    private Patience() {}

    /** Runs when the limit of a wait is set. */
    @Advice.OnMethodEnter
    public static void wait(@Advice.Argument(value = 0, readOnly = false) Duration limit) {
      limit = limit.multipliedBy(12);
    }
  }

  private static void advise(String type, Class<?> advice, ElementMatcher<MethodDescription> method)
      throws ClassNotFoundException {
    ByteBuddyAgent.install();
    Class<?> advised = Class.forName(type);
    new ByteBuddy()
        .redefine(advised)
        .visit(Advice.to(advice).on(method))
        .make()
        .load(advised.getClassLoader(), ClassReloadingStrategy.fromInstalledAgent());
  }

  /** Start Spark once more, with our extension behind Iceberg's. */
  public static void restart() throws ClassNotFoundException {
    advise(
        "io.txns.spark.TxnSqlException",
        IcebergErrors.class,
        ElementMatchers.<MethodDescription>named("translated").and(ElementMatchers.isStatic()));
    advise(
        "org.awaitility.core.ConditionFactory",
        Patience.class,
        ElementMatchers.<MethodDescription>named("atMost")
            .and(ElementMatchers.takesArguments(Duration.class)));
    SparkConf conf = spark.sparkContext().getConf();
    spark.stop();
    conf.set(
        "spark.sql.extensions",
        conf.get("spark.sql.extensions", "")
            .transform(theirs -> theirs.isEmpty() ? theirs : theirs + ",")
            + "io.txns.spark.TxnSparkExtensions");
    conf.remove("spark.app.id");
    spark = SparkSession.builder().config(conf).enableHiveSupport().getOrCreate();
    sparkContext = JavaSparkContext.fromSparkContext(spark.sparkContext());
  }

  /** A suite's own parameter rows, with our catalogs in place of Iceberg's. */
  public static Object[][] rows(Object[][] theirs) {
    String chosen = System.getProperty(ROWS, "");
    List<Integer> numbers =
        chosen.isEmpty()
            ? IntStream.range(0, theirs.length).boxed().toList()
            : Stream.of(chosen.split(",")).map(Integer::valueOf).toList();
    return numbers.stream()
        .filter(number -> number < theirs.length)
        .map(number -> theirs[number])
        .map(row -> Arrays.stream(row).map(OverTransactions::ours).toArray())
        .toArray(Object[][]::new);
  }

  private static Object ours(Object value) {
    if (value instanceof Map<?, ?> options && options.containsKey("type")) {
      Map<Object, Object> more = new HashMap<>(options);
      more.put("txns.create-locations", "file:///"); // the suites put tables where they like
      return more;
    }
    return value instanceof String text ? OURS.getOrDefault(text, text) : value;
  }
}
