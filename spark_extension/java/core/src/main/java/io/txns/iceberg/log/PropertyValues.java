package io.txns.iceberg.log;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.iceberg.TableProperties;

/**
 * Values of properties that libraries parse whenever they read a table or commit to it. One that
 * cannot be parsed would end every such try of everybody (docs/spec.md, 7); pure.
 */
final class PropertyValues {
  private static final String NAME_MAPPING = TableProperties.DEFAULT_NAME_MAPPING;

  private static final Set<String> INTS =
      Set.of(
          "commit.manifest.min-count-to-merge",
          "commit.retry.max-wait-ms",
          "commit.retry.min-wait-ms",
          "commit.retry.num-retries",
          "commit.retry.total-timeout-ms",
          "commit.status-check.max-wait-ms",
          "commit.status-check.min-wait-ms",
          "commit.status-check.num-retries",
          "commit.status-check.total-timeout-ms",
          "history.expire.min-snapshots-to-keep",
          "write.metadata.previous-versions-max",
          "write.summary.partition-limit");
  private static final Set<String> LONGS =
      Set.of(
          "commit.manifest.target-size-bytes",
          "history.expire.max-ref-age-ms",
          "history.expire.max-snapshot-age-ms",
          "write.target-file-size-bytes");

  /** Java plans each scan by these, and none by less. */
  private static final Map<String, Integer> LEAST_OF_SPLITS =
      Map.of(
          "read.split.metadata-target-size", 1,
          "read.split.open-file-cost", 0,
          "read.split.planning-lookback", 1,
          "read.split.target-size", 1);

  private static final Set<String> FLAGS =
      Set.of(
          "commit.manifest-merge.enabled",
          "write.metadata.delete-after-commit.enabled",
          "write.object-storage.enabled",
          "write.object-storage.partitioned-paths");

  /** Codecs of metadata: Avro's, too, with pyiceberg; and what the protocol goes by. */
  private static final Map<String, Pattern> WORDS =
      Map.of(
          "write.avro.compression-codec",
          word("null|uncompressed|bzip2|snappy|deflate|gzip|zstandard|zstd"),
          "write.metadata.compression-codec",
          word("none|gzip"),
          Permitted.CONFLICTS,
          Pattern.compile("file|table"));

  private static final Pattern DIGITS = Pattern.compile("-?[0-9]{1,19}");
  private static final Pattern FLAG = word("y|yes|t|true|on|1|n|no|f|false|off|0");

  private PropertyValues() {}

  private static Pattern word(String words) {
    return Pattern.compile(words, Pattern.CASE_INSENSITIVE);
  }

  /** Whether a library that goes by a property cannot parse its value. */
  static boolean isUnreadable(String key, String value) {
    if (INTS.contains(key)) {
      return !isNumber(value, -Integer.MAX_VALUE, Integer.MAX_VALUE);
    }
    if (LONGS.contains(key)) {
      return !isNumber(value, -Long.MAX_VALUE, Long.MAX_VALUE);
    }
    if (LEAST_OF_SPLITS.containsKey(key)) {
      long most = "read.split.planning-lookback".equals(key) ? Integer.MAX_VALUE : Long.MAX_VALUE;
      return !isNumber(value, LEAST_OF_SPLITS.get(key), most);
    }
    if (FLAGS.contains(key)) {
      return !FLAG.matcher(value).matches();
    }
    if (WORDS.containsKey(key)) {
      return !WORDS.get(key).matcher(value).matches();
    }
    return NAME_MAPPING.equals(key) && !isNameMapping(value);
  }

  private static boolean isNumber(String value, long least, long most) {
    if (!DIGITS.matcher(value).matches()) {
      return false;
    }
    try {
      long number = Long.parseLong(value);
      return least <= number && number <= most;
    } catch (NumberFormatException e) {
      return false;
    }
  }

  private static boolean isNameMapping(String value) {
    try {
      return areMapped(Limits.parsed(value));
    } catch (IOException e) {
      return false;
    }
  }

  /** Whether these are fields of a mapping, none of which has the name of another. */
  private static boolean areMapped(JsonNode fields) {
    if (!fields.isArray()) {
      return false;
    }
    Set<String> names = new HashSet<>();
    for (JsonNode field : fields) {
      if (!isMapped(field)) {
        return false;
      }
      Set<String> own = new HashSet<>();
      field.get("names").forEach(name -> own.add(name.textValue()));
      if (own.stream().anyMatch(name -> !names.add(name))) {
        return false;
      }
    }
    return true;
  }

  private static boolean isMapped(JsonNode field) {
    JsonNode number = field.get("field-id");
    JsonNode names = field.get("names");
    if (names == null || !names.isArray() || number != null && !isId(number)) {
      return false;
    }
    for (JsonNode name : names) {
      if (!name.isTextual()) {
        return false;
      }
    }
    return !field.has("fields") || areMapped(field.get("fields"));
  }

  private static boolean isId(JsonNode number) {
    return number.isIntegralNumber()
        && number.canConvertToInt()
        && number.intValue() != Integer.MIN_VALUE;
  }
}
