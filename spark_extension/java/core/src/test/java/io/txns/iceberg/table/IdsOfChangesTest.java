package io.txns.iceberg.table;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.meta.NamedIds;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Schema;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What an id of a schema, spec or sort order in a change is, in its table (docs/spec.md 7, 8.1).
 */
class IdsOfChangesTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Path GOLDEN =
      Path.of("..", "..", "..", "docs", "golden", "ids_of_changes.json");
  private static final TableIdentifier TABLE = TableIdentifier.of("shop", "a");
  private static final long COMMIT_TS = 1767265380008L;

  static {
    RESTSerializers.registerAll(JSON);
  }

  static Stream<Named<JsonNode>> goldens() throws IOException {
    return StreamSupport.stream(JSON.readTree(GOLDEN.toFile()).spliterator(), false)
        .map(golden -> Named.of(golden.get("why").asText(), golden));
  }

  @ParameterizedTest
  @MethodSource("goldens")
  void theIdsAreThoseOfTheSpecification(JsonNode golden) throws IOException {
    TableMetadata base = TableMetadataParser.fromJson(golden.get("base").toString());
    if (golden.get("left").isNull()) {
      assertThatThrownBy(() -> applied(base, golden)).isInstanceOf(TxnException.class);
    } else {
      assertThat(left(applied(base, golden))).isEqualTo(golden.get("left"));
    }
  }

  private static TableMetadata applied(TableMetadata base, JsonNode golden) throws IOException {
    Change change =
        new Change(
            TABLE, base.uuid(), Operation.ALTER, golden.get("fromSnapshotId").asLong(), 12L, 0, 0);
    ObjectNode request = JSON.createObjectNode();
    request.putObject("identifier").put("name", "a").putArray("namespace").add("shop");
    request.set("requirements", golden.get("requirements"));
    request.set("updates", golden.get("updates"));
    return Replay.applied(
        base,
        new LoggedChange(entry(change), change),
        JSON.treeToValue(request, UpdateTableRequest.class),
        COMMIT_TS,
        Replay.Renumber.IN_MEMORY,
        golden.get("repaired").asBoolean(),
        builder -> {});
  }

  private static Entry entry(Change change) {
    return new Entry(
        EntryKind.COMMIT,
        COMMIT_TS,
        0,
        COMMIT_TS,
        0,
        0,
        "id",
        Isolation.SERIALIZABLE,
        "",
        "",
        List.of(change),
        Entry.Payload.NONE);
  }

  private static JsonNode left(TableMetadata table) {
    ObjectNode left = JSON.createObjectNode();
    ObjectNode schemas = left.putObject("schemas");
    for (Schema schema : table.schemas()) {
      ArrayNode names = schemas.putArray(String.valueOf(schema.schemaId()));
      schema.columns().stream().map(Types.NestedField::name).forEach(names::add);
    }
    left.put("currentSchemaId", table.currentSchemaId());
    left.put("schemaIdOfMain", table.currentSnapshot().schemaId());
    ArrayNode specs = left.putArray("specIds");
    table.specsById().keySet().stream().sorted().forEach(specs::add);
    left.put("defaultSpecId", table.defaultSpecId());
    ObjectNode orders = left.putObject("sortOrders");
    table.sortOrdersById().keySet().stream()
        .sorted()
        .forEach(
            id -> {
              ArrayNode names = orders.putArray(String.valueOf(id));
              table
                  .sortOrdersById()
                  .get(id)
                  .fields()
                  .forEach(field -> names.add(nameOf(table, field.sourceId())));
            });
    left.put("defaultSortOrderId", table.defaultSortOrderId());
    return left;
  }

  private static String nameOf(TableMetadata table, int columnId) {
    return table.schemas().stream()
        .map(schema -> schema.findColumnName(columnId))
        .filter(name -> name != null)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void aChangeAddsWhatItNamesOfWhatIsThere() throws IOException {
    JsonNode golden = JSON.readTree(GOLDEN.toFile()).get(0);
    TableMetadata base = TableMetadataParser.fromJson(golden.get("base").toString());
    List<MetadataUpdate> updates =
        List.of(new MetadataUpdate.SetCurrentSchema(1), new MetadataUpdate.SetCurrentSchema(2));
    assertThat(NamedIds.added(base, List.of(), updates))
        .hasSize(3)
        .first()
        .isInstanceOfSatisfying(
            MetadataUpdate.AddSchema.class,
            add -> assertThat(add.schema().schemaId()).isEqualTo(1));
  }
}
