package io.txns.iceberg.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.TxnId;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Who has lost, and is waited for, to and from a record (docs/spec.md 11.4); pure.
 *
 * <p>Nothing is read by it, so what is no reservation counts as not being there.
 */
final class ReservationParser {
  private static final int TEXT_MAX_BYTES = 65_536;
  private static final Pattern UUID = Pattern.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
  private static final ObjectMapper JSON = new ObjectMapper();

  private ReservationParser() {}

  static String toJson(List<Reservation> reserved) {
    ArrayNode list = JSON.createArrayNode();
    for (Reservation each : reserved) {
      ObjectNode node = list.addObject();
      node.put("txn-id", each.txnId());
      ArrayNode uuids = node.putArray("uuids");
      each.uuids().forEach(uuids::add);
      node.put("ticket", each.ticket());
      node.put("number", each.number());
      node.put("lasts-ms", each.lastsMs());
    }
    return list.toString();
  }

  /**
   * Decode them; what is no reservation is left out.
   *
   * @param stored null for nothing
   * @param upper the record's: no ticket is above it
   */
  static List<Reservation> parse(String stored, long upper) {
    if (stored == null || stored.getBytes(StandardCharsets.UTF_8).length > TEXT_MAX_BYTES) {
      return List.of();
    }
    JsonNode list;
    try {
      list = Limits.parsed(stored);
    } catch (IOException e) {
      return List.of();
    }
    if (list == null || !list.isArray()) {
      return List.of();
    }
    List<Reservation> reserved = new ArrayList<>();
    for (JsonNode node : list) {
      if (reserved.size() < Reservation.MAX && isSound(node)) {
        List<String> uuids = new ArrayList<>();
        node.get("uuids").forEach(uuid -> uuids.add(uuid.asText()));
        reserved.add(
            new Reservation(
                node.get("txn-id").asText(),
                uuids,
                Math.min(node.get("ticket").asLong(), upper),
                node.get("number").asInt(),
                node.get("lasts-ms").asLong()));
      }
    }
    return List.copyOf(reserved);
  }

  private static boolean isSound(JsonNode node) {
    JsonNode txnId = node.path("txn-id");
    return txnId.isTextual()
        && TxnId.isOne(txnId.asText())
        && areUuids(node.path("uuids"))
        && isWhole(node.path("ticket"), 0, Long.MAX_VALUE)
        && isWhole(node.path("number"), 1, Reservation.NUMBER_MAX)
        && isWhole(node.path("lasts-ms"), 1, Reservation.LASTS_MS_MAX);
  }

  private static boolean areUuids(JsonNode value) {
    if (!value.isArray() || value.isEmpty() || value.size() > Reservation.UUIDS_MAX) {
      return false;
    }
    Set<String> seen = new HashSet<>();
    for (JsonNode uuid : value) {
      boolean sound = uuid.isTextual() && UUID.matcher(uuid.asText()).matches();
      if (!sound || !seen.add(uuid.asText())) {
        return false;
      }
    }
    return true;
  }

  private static boolean isWhole(JsonNode value, long least, long most) {
    return value.isIntegralNumber()
        && value.canConvertToLong()
        && value.asLong() >= least
        && value.asLong() <= most;
  }
}
