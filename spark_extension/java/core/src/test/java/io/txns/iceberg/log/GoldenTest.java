package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.LogSettings;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.commit.Registrar;
import io.txns.iceberg.meta.SnapshotEdit;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.catalog.TableIdentifierParser;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The stored bytes are those of docs/spec.md: every file of docs/golden is read as it says. */
class GoldenTest {
  private static final Path GOLDEN = Path.of("../../../docs/golden");
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final TableIdentifier COMMITS = TableIdentifier.of("txns", "commits");

  @ParameterizedTest(name = "{0}")
  @MethodSource("valid")
  void aValidSummaryHoldsTheEntry(String name, JsonNode golden) {
    Entry entry = EntryParser.fromSummary(texts(golden.get("summary")));

    JsonNode expected = golden.get("entry");
    assertThat(entry.kind().stored()).isEqualTo(expected.get("kind").asText());
    assertThat(entry.commitTs()).isEqualTo(expected.get("commitTs").asLong());
    assertThat(entry.prevTs()).isEqualTo(expected.get("prevTs").asLong());
    assertThat(entry.upper()).isEqualTo(expected.get("upper").asLong());
    assertThat(entry.tidiedUpto()).isEqualTo(expected.get("tidiedUpto").asLong());
    assertThat(entry.readTs()).isEqualTo(expected.get("readTs").asLong());
    assertThat(entry.txnId()).isEqualTo(expected.get("txnId").asText());
    if (!expected.get("isolation").isNull()) {
      assertThat(entry.isolation().stored()).isEqualTo(expected.get("isolation").asText());
    }
    assertThat(entry.engine()).isEqualTo(expected.get("engine").asText());
    assertThat(entry.comment()).isEqualTo(expected.get("comment").asText());
    assertThat(entry.changes()).isEqualTo(changes(expected.get("tables")));
    assertThat(entry.payload())
        .isEqualTo(
            new Entry.Payload(
                text(expected, "payload"),
                text(expected, "payloadLocation"),
                text(expected, "payloadSha256")));
    assertThat(entry.settings()).isEqualTo(settings(expected.get("settings")));
    assertThat(entry.reserved()).isEqualTo(reserved(expected.path("reserve")));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("valid")
  void anEntryIsWrittenAsItsSummary(String name, JsonNode golden) {
    Map<String, String> expected =
        texts(golden.has("encoded") ? golden.get("encoded") : golden.get("summary"));

    Map<String, String> written =
        EntryParser.toSummary(EntryParser.fromSummary(texts(golden.get("summary"))));

    for (String key : List.of(EntryParser.TABLES, EntryParser.SETTINGS, EntryParser.RESERVE)) {
      assertThat(json(written.remove(key))).isEqualTo(json(expected.remove(key)));
    }
    assertThat(written).containsExactlyInAnyOrderEntriesOf(expected);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("valid")
  void anInlinePayloadNamesTheTablesOfItsEntry(String name, JsonNode golden) {
    Entry entry = EntryParser.fromSummary(texts(golden.get("summary")));
    if (entry.payload().inline() == null) {
      return;
    }

    List<TableIdentifier> named =
        CommitTransactionRequestParser.fromJson(entry.payload().inline()).tableChanges().stream()
            .map(request -> request.identifier())
            .toList();

    assertThat(named).isEqualTo(entry.carried().stream().map(Change::table).toList());
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("invalid")
  void anInvalidSummaryIsRefused(String name, JsonNode golden) {
    TxnException refused =
        catchThrowableOfType(
            TxnException.class, () -> EntryParser.fromSummary(texts(golden.get("summary"))));

    assertThat(refused).as(golden.get("why").asText()).isNotNull();
    assertThat(refused.kind()).isEqualTo(ErrorKind.valueOf(golden.get("error").asText()));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("head")
  void aHeadSaysWhatHasCommittedOrIsRefused(String name, JsonNode golden) {
    CommitLog log = commitTable(golden.get("snapshots"), golden.get("main").asLong());

    if (golden.has("error")) {
      TxnException refused = catchThrowableOfType(TxnException.class, log::load);

      assertThat(refused).as(golden.get("why").asText()).isNotNull();
      assertThat(refused.kind()).isEqualTo(ErrorKind.valueOf(golden.get("error").asText()));
      assertThat(refused)
          .hasMessageContaining(golden.has("violated") ? golden.get("violated").asText() : "");
      return;
    }
    LogState state = log.load().state();
    JsonNode expected = golden.get("expected");
    List<Long> entries = new ArrayList<>();
    expected.get("entries").forEach(ts -> entries.add(ts.asLong()));
    assertThat(state.upper()).isEqualTo(expected.get("upper").asLong());
    assertThat(state.tidiedUpto()).isEqualTo(expected.get("tidiedUpto").asLong());
    assertThat(state.entries().stream().map(Entry::commitTs).toList()).isEqualTo(entries);
    assertThat(state.settings())
        .isEqualTo(
            expected.has("settings") ? settings(expected.get("settings")) : LogSettings.DEFAULTS);
    assertThat(state.reserved()).isEqualTo(reserved(expected.path("reserve")));
  }

  @Test
  void derivedIdsAreTheSpecifications() throws Exception {
    for (JsonNode golden : JSON.readTree(GOLDEN.resolve("derived_ids.json").toFile())) {
      String[] text = golden.get("text").asText().split(":", 3);
      assertThat(Entry.derivedId(text[0], text[1], text[2]))
          .as(golden.get("why").asText())
          .isEqualTo(golden.get("txnId").asText());
    }
  }

  @Test
  void namesOfPayloadFilesAreTheSpecifications() throws Exception {
    for (JsonNode golden : JSON.readTree(GOLDEN.resolve("payload_names.json").toFile())) {
      byte[] payload = golden.get("payload").asText().getBytes(StandardCharsets.UTF_8);
      assertThat(Payloads.fileName(golden.get("txnId").asText(), Payloads.sha256(payload)))
          .as(golden.get("why").asText())
          .isEqualTo(golden.get("name").asText());
      if (golden.has("again")) {
        assertThat(Payloads.again(golden.get("name").asText(), 1))
            .isEqualTo(golden.get("again").asText());
      }
    }
  }

  @Test
  void aLogIsNamedAsTheSpecificationSays() throws Exception {
    for (JsonNode golden : JSON.readTree(GOLDEN.resolve("log_ids.json").toFile())) {
      assertThat(CommitTable.logId(golden.get("uuid").asText(), texts(golden.get("properties"))))
          .as(golden.get("why").asText())
          .isEqualTo(golden.get("logId").asText());
    }
  }

  @Test
  void aRegistrationSetsThePropertiesOfTheSpecification() throws Exception {
    for (JsonNode golden : JSON.readTree(GOLDEN.resolve("registrations.json").toFile())) {
      Map<String, String> set =
          Registrar.registrationProperties(
              TableIdentifierParser.fromJson(golden.get("commitTable").toString()),
              golden.get("logId").asText(),
              golden.get("tableUuid").asText(),
              golden.get("upper").asLong(),
              texts(golden.get("before")));
      assertThat(set).as(golden.get("why").asText()).isEqualTo(texts(golden.get("set")));
    }
  }

  @Test
  void everyKindOfEntryHasAValidFile() {
    List<String> kinds =
        valid().map(golden -> ((JsonNode) golden.get()[1]).at("/entry/kind").asText()).toList();

    for (EntryKind kind : EntryKind.values()) {
      assertThat(kinds).contains(kind.stored());
    }
  }

  private static LogSettings settings(JsonNode said) {
    return said == null
        ? null
        : new LogSettings(
            said.get("maxAgeMs").asLong(),
            said.get("idRetentionMs").asLong(),
            TxnConfig.Apply.valueOf(said.get("apply").asText().toUpperCase(Locale.ROOT)));
  }

  static Stream<Arguments> valid() {
    return files("valid");
  }

  static Stream<Arguments> invalid() {
    return files("invalid");
  }

  static Stream<Arguments> head() {
    return files("head");
  }

  private static Stream<Arguments> files(String folder) {
    Map<String, JsonNode> found = new TreeMap<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(GOLDEN.resolve(folder), "*.json")) {
      for (Path file : files) {
        JsonNode golden = JSON.readTree(file.toFile());
        assertThat(file.getFileName()).hasToString(golden.get("name").asText() + ".json");
        found.put(golden.get("name").asText(), golden);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    assertThat(found).isNotEmpty();
    return found.entrySet().stream().map(file -> Arguments.of(file.getKey(), file.getValue()));
  }

  /** A commit table with the snapshots of a golden file. */
  private static CommitLog commitTable(JsonNode snapshots, long main) {
    InMemoryCatalog catalog = new InMemoryCatalog();
    catalog.initialize("golden", Map.of("warehouse", "memory://warehouse"));
    catalog.createNamespace(COMMITS.namespace());
    TableOperations ops =
        ((HasTableOperations) catalog.createTable(COMMITS, CommitTable.SCHEMA)).operations();
    TableMetadata.Builder builder = TableMetadata.buildFrom(ops.current());
    long sequenceNumber = 0;
    for (JsonNode golden : snapshots) {
      long id = golden.get("snapshot-id").asLong();
      builder.addSnapshot(
          SnapshotEdit.create(id, golden.get("operation").asText())
              .parent(
                  golden.has("parent-snapshot-id")
                      ? golden.get("parent-snapshot-id").asLong()
                      : null)
              .sequenceNumber(++sequenceNumber)
              .timestampMs(ops.current().lastUpdatedMillis())
              .manifestList("memory://warehouse/snap-" + id + ".avro")
              .schemaId(ops.current().currentSchemaId())
              .summary(texts(golden.get("summary")))
              .build());
    }
    builder.setRef(SnapshotRef.MAIN_BRANCH, SnapshotRef.branchBuilder(main).build());
    ops.commit(ops.current(), builder.build());
    return new CommitLog(catalog, COMMITS, Lake.CLOCK);
  }

  private static List<Change> changes(JsonNode tables) {
    List<Change> changes = new ArrayList<>();
    for (JsonNode table : tables) {
      List<String> levels = new ArrayList<>();
      table.get("namespace").forEach(level -> levels.add(level.asText()));
      changes.add(
          new Change(
              TableIdentifier.of(
                  Namespace.of(levels.toArray(String[]::new)), table.get("name").asText()),
              table.get("uuid").asText(),
              Operation.parse(table.get("operation").asText()),
              id(table, "fromSnapshotId"),
              id(table, "toSnapshotId"),
              table.get("addedRecords").asLong(),
              table.get("deletedRecords").asLong(),
              table.path("bornApplied").asBoolean()));
    }
    return changes;
  }

  private static List<Reservation> reserved(JsonNode golden) {
    List<Reservation> reserved = new ArrayList<>();
    for (JsonNode each : golden) {
      List<String> uuids = new ArrayList<>();
      each.get("uuids").forEach(uuid -> uuids.add(uuid.asText()));
      reserved.add(
          new Reservation(
              each.get("txnId").asText(),
              uuids,
              each.get("ticket").asLong(),
              each.get("number").asInt(),
              each.get("lastsMs").asLong()));
    }
    return reserved;
  }

  private static Long id(JsonNode node, String field) {
    return node.get(field).isNull() ? null : node.get(field).asLong();
  }

  private static String text(JsonNode node, String field) {
    return node.get(field).isNull() ? null : node.get(field).asText();
  }

  private static Map<String, String> texts(JsonNode object) {
    Map<String, String> texts = new LinkedHashMap<>();
    object.fields().forEachRemaining(field -> texts.put(field.getKey(), field.getValue().asText()));
    return texts;
  }

  private static JsonNode json(String text) {
    try {
      return text == null ? null : JSON.readTree(text);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(text, e);
    }
  }
}
