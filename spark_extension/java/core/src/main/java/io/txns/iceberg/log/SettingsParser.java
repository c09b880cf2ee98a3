package io.txns.iceberg.log;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.LogSettings;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import java.io.IOException;
import java.util.Locale;

/** What a log is set to, to and from a record (docs/spec.md 4.2); pure. */
final class SettingsParser {
  private static final ObjectMapper JSON = new ObjectMapper();

  private SettingsParser() {}

  static String toJson(LogSettings settings) {
    ObjectNode node = JSON.createObjectNode();
    node.put("max-age-ms", settings.maxAgeMs());
    node.put("id-retention-ms", settings.idRetentionMs());
    node.put("apply", stored(settings.apply()));
    return node.toString();
  }

  private static String stored(TxnConfig.Apply apply) {
    return apply.name().toLowerCase(Locale.ROOT);
  }

  /**
   * Decode them; what they do not say is as by default.
   *
   * @throws TxnException CorruptLog where they are malformed, or against the limits
   */
  static LogSettings parse(String stored) {
    JsonNode node;
    try {
      node = Limits.parsed(stored);
    } catch (IOException e) {
      throw corrupt("is not JSON: " + e.getMessage());
    }
    if (node == null || !node.isObject()) {
      throw corrupt("is not an object");
    }
    LogSettings settings =
        new LogSettings(
            whole(node, "max-age-ms", LogSettings.DEFAULTS.maxAgeMs()),
            whole(node, "id-retention-ms", LogSettings.DEFAULTS.idRetentionMs()),
            apply(node.get("apply")));
    String wrong = settings.wrong();
    if (wrong != null) {
      throw corrupt("is against the limits: " + wrong);
    }
    return settings;
  }

  private static long whole(JsonNode node, String field, long fallback) {
    JsonNode value = node.get(field);
    if (value == null) {
      return fallback;
    }
    if (!value.isIntegralNumber() || !value.canConvertToLong()) {
      throw corrupt("has a `" + field + "` that is not a whole number");
    }
    return value.asLong();
  }

  private static TxnConfig.Apply apply(JsonNode value) {
    if (value == null) {
      return LogSettings.DEFAULTS.apply();
    }
    for (TxnConfig.Apply known : TxnConfig.Apply.OF_LOGS) {
      if (value.isTextual() && stored(known).equals(value.asText())) {
        return known;
      }
    }
    throw corrupt("has an unknown `apply`");
  }

  private static TxnException corrupt(String what) {
    return TxnException.corruptLog(EntryParser.SETTINGS + " " + what);
  }
}
