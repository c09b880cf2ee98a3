package io.txns.iceberg.simulation;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The Java core of the simulation's processes, with as little of a lake as it needs. */
@Timeout(120)
class SimulationServerTest {
  private static SimulatedJvm jvm;

  @BeforeAll
  static void start() throws IOException {
    jvm = new SimulatedJvm();
  }

  @AfterAll
  static void stop() {
    jvm.close();
  }

  @BeforeEach
  void reset() {
    jvm.reset();
  }

  private static ObjectNode args() {
    return Json.object();
  }

  private static ObjectNode of(String table) {
    ObjectNode args = args();
    args.set("table", Json.array(List.of("lake", table)));
    return args;
  }

  private static void open(SimulatedJvm where, String process, boolean server) {
    where.result(process, "connect", args().put("server", server));
    ObjectNode args = args();
    args.putObject("options").put("txns.apply", "next").put("txns.max-age-s", "1");
    where.result(process, "open", args);
  }

  private static int begin(SimulatedJvm where, String process) {
    ObjectNode args = args().put("isolation", "serializable").put("read_only", false);
    return where.result(process, "begin", args).get("txn").asInt();
  }

  private static int load(SimulatedJvm where, String process, Integer txn, String table) {
    ObjectNode args = of(table);
    args = txn == null ? args.put("catalog", "autocommit") : args.put("catalog", txn);
    return where.result(process, "load_table", args).get("table").asInt();
  }

  private static List<String> plan(SimulatedJvm where, String process, Integer txn, String table) {
    return planned(where, process, load(where, process, txn, table));
  }

  private static List<String> planned(SimulatedJvm where, String process, int table) {
    JsonNode planned = where.result(process, "plan_files", args().put("table", table));
    return List.copyOf(Json.map(planned).keySet());
  }

  private static void append(SimulatedJvm where, String process, int table, String path) {
    ObjectNode args = args().put("table", table).put("branch", "main");
    args.putArray("files").addObject().put("path", path).put("rows", 1);
    where.result(process, "append", args);
  }

  private static JsonNode commit(SimulatedJvm where, String process, int txn) {
    return where.run(process, "commit", args().put("txn", txn));
  }

  /** A process with two tables under care, of which a transaction has written one. */
  private static void prepare(SimulatedJvm where, boolean server) {
    where.lake().createPlain("lake", "t0");
    where.lake().createPlain("lake", "t1");
    open(where, "a/0", server);
    where.result("a/0", "register", of("t0"));
    where.result("a/0", "register", of("t1"));
    int txn = begin(where, "a/0");
    append(where, "a/0", load(where, "a/0", txn, "t0"), "memory://lake/1-1.parquet");
    assertThat(commit(where, "a/0", txn).path("result").path("commit_ts").asLong()).isPositive();
  }

  /** What a user does in the course of a day. */
  private static void work(SimulatedJvm where, boolean server) {
    prepare(where, server);
    int txn = begin(where, "a/0");
    int table = load(where, "a/0", txn, "t0");
    assertThat(planned(where, "a/0", table)).containsExactly("memory://lake/1-1.parquet");
    ObjectNode overwrite = args().put("table", table);
    overwrite.putArray("removed").add("memory://lake/1-1.parquet");
    overwrite.putArray("added").addObject().put("path", "memory://lake/2-2.parquet").put("rows", 1);
    where.result("a/0", "overwrite", overwrite);
    append(where, "a/0", load(where, "a/0", txn, "t1"), "memory://lake/3-3.parquet");
    assertThat(commit(where, "a/0", txn).path("result").path("commit_ts").asLong()).isPositive();

    open(where, "b/0", server);
    assertThat(plan(where, "b/0", null, "t0")).containsExactly("memory://lake/2-2.parquet");
    ObjectNode created = of("new").put("catalog", "autocommit");
    where.result("b/0", "create_table", created);
    assertThat(where.result("b/0", "apply", args()).asInt()).isZero();
    assertThat(where.lake().hasTable("lake", "new")).isTrue();
    assertThat(where.result("b/0", "tidy", args()).asInt()).isPositive();
    assertThat(plan(where, "a/0", null, "t1")).containsExactly("memory://lake/3-3.parquet");
    where.result("a/0", "drop_table", of("new").put("catalog", "autocommit"));
    ObjectNode listed = args().put("catalog", "autocommit");
    listed.putArray("namespace").add("lake");
    assertThat(where.result("b/0", "list_tables", listed)).hasSize(2);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whatIsCommittedIsReadByAnotherProcess(boolean server) {
    work(jvm, server);
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void theSameLinesAreWrittenInEachJvmAndAfterEachReset(boolean server) throws IOException {
    work(jvm, server);
    List<String> first = List.copyOf(jvm.lines());

    jvm.reset();
    work(jvm, server);

    assertThat(firstDifference(first, jvm.lines())).isEmpty();
    try (SimulatedJvm other = new SimulatedJvm()) {
      work(other, server);
      assertThat(firstDifference(first, other.lines())).isEmpty();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aProcessThatDiesInItsSwapSaysNothingMore(boolean server) {
    prepare(jvm, server);
    int txn = begin(jvm, "a/0");
    append(jvm, "a/0", load(jvm, "a/0", txn, "t0"), "memory://lake/2-2.parquet");
    jvm.faults(
        step -> {
          if (!isSwap(step)) {
            return null;
          }
          jvm.lake().answer(step); // it lands all the same
          return Json.object().put("die", true);
        });

    assertThat(commit(jvm, "a/0", txn).path("died").asBoolean()).isTrue();

    jvm.faults(step -> null);
    open(jvm, "a/1", server);
    assertThat(plan(jvm, "a/1", null, "t0"))
        .containsExactlyInAnyOrder("memory://lake/1-1.parquet", "memory://lake/2-2.parquet");
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aSwapWhoseAnswerIsLostHasCommitted(boolean server) {
    prepare(jvm, server);
    int txn = begin(jvm, "a/0");
    append(jvm, "a/0", load(jvm, "a/0", txn, "t0"), "memory://lake/2-2.parquet");
    boolean[] lost = {false};
    jvm.faults(
        step -> {
          if (lost[0] || !isSwap(step)) {
            return null;
          }
          lost[0] = true;
          jvm.lake().answer(step);
          ObjectNode told = Json.object();
          told.putObject("raise").put("type", "Lost").put("message", "simulated");
          return told;
        });

    assertThat(commit(jvm, "a/0", txn).path("result").path("commit_ts").asLong()).isPositive();
    assertThat(lost[0]).isTrue();
  }

  /** What of a table is left when it is dropped goes, and its name is free. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aDroppedTableIsPurged(boolean server) {
    prepare(jvm, server);
    jvm.result("a/0", "apply", args());
    jvm.result("a/0", "drop_table", of("t0").put("catalog", "autocommit"));
    jvm.result("a/0", "apply", args());
    assertThat(jvm.lake().hasTable("lake", "t0")).isTrue();
    jvm.pass(10_000);
    jvm.result("a/0", "on", args()); // the log has moved on: this storage tells no time

    jvm.result("a/0", "purge", of("t0").put("max_age_ms", 1000));

    assertThat(jvm.lake().hasTable("lake", "t0")).isFalse();
    assertThat(jvm.lake().files("memory://lake/lake/t0/")).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void upkeepAndDefinitionsHaveResults(boolean server) {
    prepare(jvm, server);
    jvm.result("a/0", "apply_table", of("t0"));
    int txn = begin(jvm, "a/0");
    jvm.result("a/0", "savepoint", args().put("txn", txn).put("name", "s"));
    int table = load(jvm, "a/0", txn, "t0");
    ObjectNode columns = args().put("table", table);
    columns.putArray("changes").addObject().put("change", "add").put("name", "w").put("to", "int");
    jvm.result("a/0", "update_schema", columns);
    jvm.result("a/0", "rollback_to", args().put("txn", txn).put("name", "s"));
    jvm.result("a/0", "release", args().put("txn", txn).put("name", "s"));
    jvm.result("a/0", "rollback", args().put("txn", txn));
    assertThat(jvm.result("a/0", "state", args().put("txn", txn)).asText())
        .isEqualTo("ROLLED_BACK");

    JsonNode loaded = jvm.result("a/0", "load_table", of("t0").put("catalog", "autocommit"));
    ObjectNode written = args().put("table", loaded.get("table").asInt());
    written.putObject("properties").put("owner", "a");
    jvm.result("a/0", "set_properties", written);
    long main = loaded.get("refs").get("main").asLong();
    int number = loaded.get("table").asInt();
    ObjectNode branch = args().put("table", number).put("name", "b").put("snapshot", main);
    jvm.result("a/0", "create_branch", branch);
    ObjectNode renamed = of("t0").put("catalog", "autocommit");
    renamed.set("to", of("t2").get("table"));
    jvm.result("a/0", "rename_table", renamed);
    jvm.result("a/0", "off", args());
    jvm.result("a/0", "on", args());
    jvm.result("a/0", "forget", of("t1"));
    assertThat(jvm.result("a/0", "upper", args()).asLong()).isPositive();
  }

  @Test
  void errorsAreToldByTheirKinds() {
    prepare(jvm, false);

    JsonNode none = jvm.run("a/0", "load_table", of("none").put("catalog", "autocommit"));
    JsonNode over = jvm.run("a/0", "rollback_to", args().put("txn", 1).put("name", "s"));

    assertThat(none.path("error").path("type").asText()).isEqualTo("NoSuchTable");
    assertThat(over.path("error").path("type").asText()).isEqualTo("InvalidUsage");
    assertThat(over.path("error").path("sqlstate").asText()).isEqualTo("25P01");
  }

  /** What of two histories is not the same, in few words: they are long. */
  private static String firstDifference(List<String> one, List<String> other) {
    for (int i = 0; i < one.size() && i < other.size(); i++) {
      if (!one.get(i).equals(other.get(i))) {
        return one.get(i) + "\n" + other.get(i);
      }
    }
    return one.size() == other.size()
        ? ""
        : "of %d and %d lines".formatted(one.size(), other.size());
  }

  private static boolean isSwap(JsonNode step) {
    String kind = step.get("step").asText();
    return kind.equals("swap") || kind.equals("commit");
  }
}
