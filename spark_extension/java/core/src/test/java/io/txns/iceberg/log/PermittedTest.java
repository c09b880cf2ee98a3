package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.meta.Places;
import io.txns.iceberg.meta.SnapshotNumbers;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What a logged change may have, and where its manifest lists lie (docs/spec.md, 7). */
class PermittedTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Path GOLDEN = Path.of("..", "..", "..", "docs", "golden");

  static {
    RESTSerializers.registerAll(JSON);
  }

  static Stream<Named<JsonNode>> changes() throws IOException {
    return named(file("permitted_changes.json").get("changes"));
  }

  static Stream<Named<JsonNode>> lists() throws IOException {
    return named(file("named_files.json"));
  }

  private static JsonNode file(String name) throws IOException {
    return JSON.readTree(GOLDEN.resolve(name).toFile());
  }

  private static Stream<Named<JsonNode>> named(JsonNode goldens) {
    return StreamSupport.stream(goldens.spliterator(), false)
        .map(golden -> Named.of(golden.get("why").asText(), golden));
  }

  @ParameterizedTest
  @MethodSource("changes")
  void aChangeHasTheUpdatesOfTheSpecification(JsonNode golden) throws IOException {
    JsonNode all = file("permitted_changes.json");
    JsonNode from = golden.get("fromSnapshotId");
    Change change =
        new Change(
            TableIdentifier.of("shop", "a"),
            all.get("uuid").asText(),
            Operation.parse(golden.get("operation").asText()),
            from.isNull() ? null : from.asLong(),
            all.get("toSnapshotId").asLong(),
            0,
            0);
    long ts = all.get("commitTs").asLong();
    Entry entry =
        new Entry(
            EntryKind.valueOf(golden.get("kind").asText().toUpperCase(Locale.ROOT)),
            ts,
            0,
            ts,
            0,
            0,
            all.get("txnId").asText(),
            Isolation.SNAPSHOT,
            "",
            "",
            List.of(change),
            Entry.Payload.NONE);
    Optional<String> why =
        Permitted.forbidden(
            new LoggedChange(entry, change),
            request(golden.get("requirements"), golden.get("updates")),
            TableIdentifier.parse(all.get("log").asText()));
    assertThat(why.isEmpty()).as(why.toString()).isEqualTo(golden.get("permitted").asBoolean());
  }

  @ParameterizedTest
  @MethodSource("lists")
  void manifestListsLieWhereTheSpecificationSays(JsonNode golden) throws IOException {
    JsonNode base = golden.get("base");
    TableMetadata table = base.isNull() ? null : TableMetadataParser.fromJson(base.toString());
    UpdateTableRequest request = request(JSON.createArrayNode(), golden.get("updates"));
    List<String> misplaced = Places.misplacedFiles(table, request.updates());
    assertThat(JSON.<JsonNode>valueToTree(misplaced)).isEqualTo(golden.get("misplaced"));
  }

  static Stream<Named<JsonNode>> numbers() throws IOException {
    return named(file("snapshot_numbers.json"));
  }

  @ParameterizedTest
  @MethodSource("numbers")
  void numbersAreAsFarAheadAsTheSpecificationSays(JsonNode golden) throws IOException {
    JsonNode base = golden.get("base");
    TableMetadata table = base.isNull() ? null : TableMetadataParser.fromJson(base.toString());
    UpdateTableRequest request = request(JSON.createArrayNode(), golden.get("updates"));
    assertThat(SnapshotNumbers.farAhead(table, request.updates()))
        .isEqualTo(Optional.ofNullable(golden.get("farAhead").textValue()));
  }

  static Stream<Named<JsonNode>> places() throws IOException {
    return named(file("table_places.json").get("changes"));
  }

  @ParameterizedTest
  @MethodSource("places")
  void tablesStandWhereTheSpecificationSays(JsonNode golden) throws IOException {
    String json = file("table_places.json").get("base").toString();
    TableMetadata base =
        golden.get("creates").asBoolean() ? null : TableMetadataParser.fromJson(json);
    List<String> table = texts(golden.get("table"));
    String[] levels = table.subList(0, table.size() - 1).toArray(String[]::new);
    List<String> folders =
        texts(golden.get("folders")).stream()
            .flatMap(each -> Places.spellings(each, levels).stream())
            .toList();
    UpdateTableRequest request = request(JSON.createArrayNode(), golden.get("updates"));
    Optional<String> elsewhere =
        Places.Moves.of(base, request.updates())
            .elsewhere(
                table.get(levels.length),
                texts(golden.get("allowed")),
                isOwn -> folders.stream().anyMatch(isOwn));
    assertThat(elsewhere).isEqualTo(Optional.ofNullable(golden.get("elsewhere").textValue()));
  }

  private static List<String> texts(JsonNode array) {
    return StreamSupport.stream(array.spliterator(), false).map(JsonNode::asText).toList();
  }

  private static UpdateTableRequest request(JsonNode requirements, JsonNode updates)
      throws IOException {
    ObjectNode request = JSON.createObjectNode();
    request.putObject("identifier").put("name", "a").putArray("namespace").add("shop");
    request.set("requirements", requirements);
    request.set("updates", updates);
    return JSON.treeToValue(request, UpdateTableRequest.class);
  }
}
