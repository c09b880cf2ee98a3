package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import java.io.File;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What the fuzzer has found once: hostile bytes are CorruptLog, and nothing else. */
class HostileTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String SNAPSHOT =
      "\"snapshot-id\":2,\"timestamp-ms\":1,\"manifest-list\":\"x\","
          + "\"summary\":{\"operation\":\"append\"}";

  @ParameterizedTest
  @ValueSource(strings = {"\u3000\u00a0", "half \ud800 of a pair", "\udfff", "\u0085"})
  void anIdThatNobodyCanWriteOrSeeIsRefused(String id) throws IOException {
    Map<String, String> summary = valid("advance");
    summary.put(EntryParser.TXN_ID, id);
    refused(() -> EntryParser.fromSummary(summary));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{\"namespace\":[\"shop\"],\"name\":\"\"}",
        "{\"namespace\":[\"shop\"],\"name\":\"a\\u0000\"}",
        "{\"namespace\":[\"sh\\u0000p\"],\"name\":\"a\"}"
      })
  void aTableThatNoCatalogCanHaveIsRefused(String identifier) throws IOException {
    Map<String, String> summary = valid("register");
    ArrayNode tables = (ArrayNode) JSON.readTree(summary.get(EntryParser.TABLES));
    ((ObjectNode) tables.get(0)).set("identifier", JSON.readTree(identifier));
    summary.put(EntryParser.TABLES, tables.toString());
    refused(() -> EntryParser.fromSummary(summary));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "[NaN]",
        "[] []",
        "[]x",
        "\ufeff[]",
        "",
        "[1,]",
        "[\"\\ud800\"]",
        "[\"\ud800\"]",
        "{\"\\udc00\":1}",
        "[01]"
      })
  void whatOneLibraryAloneTakesIsNoJsonOfTheLog(String stored) {
    assertThatThrownBy(() -> Limits.parsed(stored)).isInstanceOf(IOException.class);
  }

  @Test
  void whatIsAboveALimitIsNoJsonOfTheLog() {
    for (String stored :
        List.of(
            "[1" + "0".repeat(100) + "]",
            "[\"" + "x".repeat(Limits.TEXT_MAX_CHARACTERS + 1) + "\"]",
            "[" + "[],".repeat(Limits.VALUES_MAX) + "0]")) {
      assertThatThrownBy(() -> Limits.parsed(stored)).hasMessageContaining("at most");
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"[1e999999999]", "{\"a\":1,\"a\":2}", "[\"\\ud83d\\ude00\"]", " [\n] ", "0"})
  void whatEveryLibraryTakesIsJsonOfTheLog(String stored) {
    assertThatCode(() -> Limits.parsed(stored)).doesNotThrowAnyException();
  }

  @Test
  void anInlinePayloadThatBelongsIntoAFileIsRefused() throws IOException {
    Map<String, String> summary = valid("commit");
    summary.put(EntryParser.PAYLOAD, "€".repeat(30_000));
    refused(() -> EntryParser.fromSummary(summary));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{\"action\":\"ADD-SNAPSHOT\"}",
        "{\"action\":\"set-properties\",\"updates\":{\"a\":1}}",
        "{\"action\":\"set-current-schema\",\"schema-id\":\"0\"}",
        "{\"action\":\"set-current-schema\",\"schema-id\":2147483648}",
        "{\"action\":\"remove-snapshots\",\"snapshot-ids\":[1.0]}",
        "{\"action\":\"add-sort-order\",\"sort-order\":{\"order-id\":1,\"fields\":[]}}",
        "{\"action\":\"add-view-version\",\"view-version\":{}}",
        "{\"action\":\"add-schema\",\"schema\":{\"type\":\"struct\",\"schema-id\":0,\"fields\":[{\"id\":1,"
            + "\"name\":\"id\",\"required\":false,\"type\":\"decimal(0,0)\"}]}}",
        "{\"action\":\"add-snapshot\",\"snapshot\":{" + SNAPSHOT + ",\"first-row-id\":0}}",
        "{\"action\":\"add-snapshot\",\"snapshot\":{" + SNAPSHOT + ",\"added-rows\":-1}}",
        "{\"action\":\"add-snapshot\",\"snapshot\":{"
            + SNAPSHOT
            + ",\"first-row-id\":-1,\"added-rows\":0}}"
      })
  void aPayloadHasTheShapeOfTheSpecification(String update) throws IOException {
    String payload =
        "{\"table-changes\":[{\"identifier\":{\"namespace\":[],\"name\":\"a\"},\"requirements\":[],"
            + "\"updates\":[%s]}]}";
    JsonNode said = JSON.readTree(String.format(payload, update));
    assertThatThrownBy(() -> PayloadShape.check(said)).isInstanceOf(IOException.class);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "shop.", "`shop.a", "sh`op.a", "`shop`.a", "a\u0000"})
  void aNameInTheArchiveThatIsNoneIsRefused(String name) {
    refused(() -> Archive.entriesOf(List.of(row(name, "u", "snapshot"))));
  }

  @Test
  void rowsOfTheArchiveThatHoldNoEntryAreRefused() {
    assertThat(Archive.entriesOf(List.of(row("shop.a", "u", "snapshot")))).hasSize(1);
    refused(() -> Archive.entriesOf(List.of(row("shop.a", null, "snapshot"))));
    refused(() -> Archive.entriesOf(List.of(row("shop.a", "u", "SNAPSHOT"))));
  }

  @ParameterizedTest
  @ValueSource(strings = {"x", "1,,2", "1,", ",", " 1", "1.0", "9223372036854775808"})
  void whatASummaryAdoptsAreIds(String stored) {
    refused(() -> EntryParser.snapshotIds(stored, "txns.adopted"));
  }

  private static TransactionRow row(String name, String uuid, String isolation) {
    return new TransactionRow(
        5, 5, "t", "commit", name, uuid, "append", 1L, 2L, 1L, 0L, 4, isolation, null, null, true);
  }

  private static void refused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG));
  }

  private static Map<String, String> valid(String name) throws IOException {
    JsonNode golden = JSON.readTree(new File("../../../docs/golden/valid/" + name + ".json"));
    Map<String, String> summary = new LinkedHashMap<>();
    golden
        .get("summary")
        .properties()
        .forEach(one -> summary.put(one.getKey(), one.getValue().asText()));
    return summary;
  }
}
