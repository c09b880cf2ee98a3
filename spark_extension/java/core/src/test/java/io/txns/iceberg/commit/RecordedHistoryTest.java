package io.txns.iceberg.commit;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import io.txns.iceberg.table.TableView;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What the Python half made of moments of random runs, made again by the pure parts: the state of
 * the head, every table at every timestamp, and what clashes.
 *
 * <p>The moments are of this checkout: its simulation writes them before the test
 * (tests/simulation/recording.py).
 */
class RecordedHistoryTest {
  private static final Path ROOT = Path.of("../../..").toAbsolutePath().normalize();
  private static final Path PYTHON = ROOT.resolve(".venv/bin/python");
  private static final int SEEDS = Integer.getInteger("txns.test.seeds", 8);
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Moments that are there already are compared with {@code -Dtxns.test.recordings=FOLDER}. */
  private static final String READY = System.getProperty("txns.test.recordings");

  @TempDir static Path folder;

  @BeforeAll
  static void record() throws Exception {
    if (READY != null) {
      folder = Path.of(READY);
      return;
    }
    Assumptions.assumeTrue(
        Files.isExecutable(PYTHON), "the simulation needs the .venv of `make install`");
    Process process =
        new ProcessBuilder(
                PYTHON.toString(),
                "-m",
                "tests.simulation",
                "--record",
                folder.toString(),
                "--seeds",
                Integer.toString(SEEDS))
            .directory(ROOT.toFile())
            .redirectErrorStream(true)
            .redirectOutput(folder.resolve("output.txt").toFile())
            .start();
    assertThat(process.waitFor(10, TimeUnit.MINUTES)).isTrue();
    assertThat(process.exitValue()).as(Files.readString(folder.resolve("output.txt"))).isZero();
  }

  @Test
  void bothHalvesMakeTheSameOfEveryMoment() throws IOException {
    int views = 0;
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.filter(each -> each.toString().endsWith(".json")).sorted().toList()) {
        views += compare(file.getFileName().toString(), JSON.readTree(file.toFile()));
      }
    }
    assertThat(views).isGreaterThan(100);
  }

  private static int compare(String moment, JsonNode recorded) {
    LogState state = state(recorded.get("commits"));
    JsonNode expected = recorded.get("state");
    assertThat(state.upper()).as(moment).isEqualTo(expected.get("upper").asLong());
    assertThat(state.tidiedUpto()).as(moment).isEqualTo(expected.get("tidied-upto").asLong());
    assertThat(state.off()).as(moment).isEqualTo(expected.get("off").asBoolean());
    assertThat(state.entries().stream().map(Entry::commitTs).toList())
        .as(moment)
        .isEqualTo(longs(expected.get("entries")));
    int views = 0;
    for (JsonNode table : recorded.get("tables")) {
      List<String> parts = new ArrayList<>();
      table.get("name").forEach(part -> parts.add(part.asText()));
      TableIdentifier name = TableIdentifier.of(parts.toArray(String[]::new));
      TableMetadata metadata =
          TableMetadataParser.fromJson(
              "memory://recorded.metadata.json", table.get("metadata").toString());
      for (JsonNode view : table.get("views")) {
        String at = moment + " " + name + " at " + view.get("read-ts");
        long nowMs = recorded.get("now-ms").asLong();
        Map<String, Object> ours = view(name, metadata, state, view, nowMs);
        Map<String, Object> theirs = asMap(view);
        if (Timestamps.notAhead(metadata, nowMs) != metadata
            || followsLastUpdate(metadata, ours, theirs)) {
          // Iceberg's builder takes no time that is to come: what is shown of such a table has
          // another one than what is applied to it, of which ClocksTest tells.
          ours.remove("timestamp-ms");
          theirs.remove("timestamp-ms");
        }
        assertThat(ours).as(at).isEqualTo(theirs);
        views++;
      }
      for (JsonNode verdict : table.get("verdicts")) {
        String at = moment + " " + name + " read at " + verdict.get("read-ts");
        assertThat(verdict(name, state, verdict.get("read-ts").asLong()))
            .as(at)
            .isEqualTo(asMap(verdict));
      }
    }
    return views;
  }

  /**
   * Whether a change was laid over a table that strangers have written more than a minute later.
   * pyiceberg takes a snapshot's time for the table's: only there it, and what is laid on it,
   * follows theirs also where they moved no branch (spec 8.3).
   */
  private static boolean followsLastUpdate(
      TableMetadata metadata, Map<String, Object> ours, Map<String, Object> theirs) {
    long lastMs = metadata.lastUpdatedMillis();
    return ours.get("timestamp-ms") instanceof Long notFollowing
        && theirs.get("timestamp-ms") instanceof Long following
        && theirs.get("commit-ts") instanceof String commitTs
        && Long.parseLong(commitTs) < following - 59_000
        && following > Math.max(lastMs, notFollowing);
  }

  private static LogState state(JsonNode commits) {
    Map<Long, Entry> records = new HashMap<>();
    for (JsonNode snapshot : commits.get("snapshots")) {
      Map<String, String> summary = new LinkedHashMap<>();
      snapshot
          .get("summary")
          .fields()
          .forEachRemaining(field -> summary.put(field.getKey(), field.getValue().asText()));
      summary.remove("operation");
      if (summary.containsKey(EntryParser.KIND)) {
        records.put(snapshot.get("snapshot-id").asLong(), EntryParser.fromSummary(summary));
      }
    }
    return LogState.of(records, records.get(commits.get("current-snapshot-id").asLong()));
  }

  private static Map<String, Object> view(
      TableIdentifier name, TableMetadata metadata, LogState state, JsonNode recorded, long nowMs) {
    long readTs = recorded.get("read-ts").asLong();
    TableMark mark = TableMark.of(metadata).orElseThrow();
    Map<String, Object> said = new TreeMap<>();
    said.put("read-ts", readTs);
    TableView view;
    try {
      view =
          Overlay.asOf(
              name,
              metadata,
              mark,
              state.changes(metadata.uuid(), mark.applied(), readTs),
              logged ->
                  CommitTransactionRequestParser.fromJson(logged.entry().payload().inline())
                      .tableChanges()
                      .get(logged.entry().changes().indexOf(logged.change())),
              readTs,
              nowMs);
    } catch (TxnException e) {
      if (!recorded.has("error")) {
        throw e;
      }
      said.put("error", e.sqlState());
      return said;
    }
    TableMetadata seen = view.metadata();
    Snapshot main = seen.currentSnapshot();
    said.put("main", main == null ? null : main.snapshotId());
    said.put("sequence-number", main == null ? null : main.sequenceNumber());
    said.put("manifest-list", main == null ? null : main.manifestListLocation());
    said.put("timestamp-ms", main == null ? null : main.timestampMillis());
    said.put("commit-ts", main == null ? null : main.summary().get(TableMark.SNAPSHOT_COMMIT_TS));
    said.put("columns", seen.schema().columns().stream().map(Types.NestedField::name).toList());
    Map<String, Object> refs = new TreeMap<>();
    seen.refs().forEach((ref, at) -> refs.put(ref, at.snapshotId()));
    said.put("refs", refs);
    said.put("applied", TableMark.applied(seen));
    said.put("marked", TableMark.of(seen).isPresent());
    said.put("dropped", view.dropped());
    said.put("stranger", view.stranger().map(Stranger::adoptable).orElse(null));
    said.put("foreign", view.stranger().map(Stranger::snapshotIds).orElse(List.of()));
    return said;
  }

  /** What clashes with a transaction that has read a table, or found it absent. */
  private static Map<String, Object> verdict(TableIdentifier name, LogState state, long readTs) {
    Map<String, Object> said = new TreeMap<>();
    said.put("read-ts", readTs);
    ReadSet read = new ReadSet();
    read.table(name, null);
    said.put("read", clash(name, read, state.after(readTs)));
    ReadSet absent = new ReadSet();
    absent.absent(name);
    said.put("absent", clash(name, absent, state.after(readTs)));
    return said;
  }

  private static Object clash(TableIdentifier name, ReadSet reads, List<Entry> newer) {
    try {
      new ConflictChecker("probe", Isolation.SERIALIZABLE, reads, Map.of(), Optional.empty())
          .validate(newer, (entry, change) -> true);
      return null;
    } catch (TxnException e) {
      return List.of(
          e.parameters().get(TxnException.OTHER_TXN_ID),
          Long.parseLong(e.parameters().get(TxnException.LEAST_TS)),
          name.toString());
    }
  }

  private static Map<String, Object> asMap(JsonNode object) {
    Map<String, Object> map = new TreeMap<>();
    object.fields().forEachRemaining(field -> map.put(field.getKey(), plain(field.getValue())));
    return map;
  }

  private static Object plain(JsonNode value) {
    if (value.isArray()) {
      List<Object> list = new ArrayList<>();
      value.forEach(each -> list.add(plain(each)));
      return list;
    }
    if (value.isObject()) {
      return asMap(value);
    }
    if (value.isNull()) {
      return null;
    }
    return value.isBoolean()
        ? (Object) value.asBoolean()
        : value.isNumber() ? (Object) value.asLong() : value.asText();
  }

  private static List<Long> longs(JsonNode array) {
    List<Long> longs = new ArrayList<>();
    array.forEach(each -> longs.add(each.asLong()));
    return longs;
  }
}
