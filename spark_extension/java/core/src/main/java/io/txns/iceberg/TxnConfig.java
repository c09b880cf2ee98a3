package io.txns.iceberg;

import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * The options of one catalog, {@code txns.*}, with the defaults of docs/architecture.md.
 *
 * @param commitTable the commit table's identifier
 * @param register which tables come under care by themselves
 * @param isolation the level of explicit transactions
 * @param autocommitIsolation the level of a single statement; null: never stricter than plain
 *     Iceberg would be
 * @param apply when a committed transaction is carried over to its tables
 * @param tidyAfter how many applied entries may stand in the head
 * @param maxAgeMs the greatest age of a transaction, in ms
 * @param idRetentionMs how far back the archive is searched for a caller's transaction id, in ms
 */
public record TxnConfig(
    TableIdentifier commitTable,
    Register register,
    Isolation isolation,
    Isolation autocommitIsolation,
    Apply apply,
    int tidyAfter,
    long maxAgeMs,
    long idRetentionMs) {

  /** Which tables come under care without {@code register}. */
  public enum Register {
    CREATED,
    ALL,
    NONE
  }

  /** When a committed transaction is applied. */
  public enum Apply {
    /** By the committer, right after the swap. */
    INLINE,
    /** By the next writer of the tables, or {@code CALL system.apply()}. */
    NEXT
  }

  private static final String PREFIX = "txns.";
  static final String DELEGATE_PREFIX = "txns.delegate.";
  private static final Set<String> OPTIONS =
      Set.of(
          "txns.commit-table",
          "txns.register",
          "txns.isolation",
          "txns.autocommit-isolation",
          "txns.apply",
          "txns.tidy-after",
          "txns.max-age-s",
          "txns.id-retention-days");

  /** What holds where nothing is said. */
  public static TxnConfig defaults() {
    return from(Map.of());
  }

  /**
   * Read the {@code txns.*} options out of a catalog's options; others are ignored.
   *
   * @throws TxnException 42000 that names an unknown option or a bad value
   */
  public static TxnConfig from(Map<String, String> options) {
    for (String key : options.keySet()) {
      String lower = key.toLowerCase(Locale.ROOT);
      if (lower.startsWith(PREFIX)
          && !lower.startsWith(DELEGATE_PREFIX)
          && !OPTIONS.contains(lower)) {
        throw TxnException.invalidUsage(
            "42000",
            String.format(
                "unknown catalog option; option=`%s` known=`%s`", key, new TreeSet<>(OPTIONS)));
      }
    }
    String autocommit = options.get("txns.autocommit-isolation");
    return new TxnConfig(
        TableIdentifier.parse(options.getOrDefault("txns.commit-table", "txns.commits")),
        choice(options, "txns.register", Register.CREATED, Register.values()),
        isolation("txns.isolation", options.getOrDefault("txns.isolation", "STRICT SERIALIZABLE")),
        autocommit == null ? null : isolation("txns.autocommit-isolation", autocommit),
        choice(options, "txns.apply", Apply.INLINE, Apply.values()),
        (int) number(options, "txns.tidy-after", 16),
        1000 * number(options, "txns.max-age-s", 24 * 3600),
        24L * 3600 * 1000 * number(options, "txns.id-retention-days", 7));
  }

  private static Isolation isolation(String key, String value) {
    try {
      return Isolation.parse(value);
    } catch (TxnException e) {
      throw TxnException.invalidUsage(
          "42000",
          String.format("a catalog option is wrong: %s; option=`%s`", e.getMessage(), key));
    }
  }

  private static <T extends Enum<T>> T choice(
      Map<String, String> options, String key, T fallback, T[] values) {
    String value = options.get(key);
    if (value == null) {
      return fallback;
    }
    for (T candidate : values) {
      if (candidate.name().equalsIgnoreCase(value.trim())) {
        return candidate;
      }
    }
    throw TxnException.invalidUsage(
        "42000",
        String.format(
            "unknown value of a catalog option; %s=`%s` known=`%s`",
            key, value, Arrays.toString(values).toLowerCase(Locale.ROOT)));
  }

  private static long number(Map<String, String> options, String key, long fallback) {
    String value = options.get(key);
    if (value == null) {
      return fallback;
    }
    try {
      long number = Long.parseLong(value.trim());
      if (number > 0) {
        return number;
      }
    } catch (NumberFormatException e) {
      // told below, together with zero and negative numbers
    }
    throw TxnException.invalidUsage(
        "42000",
        String.format("a catalog option must be a whole number above 0; %s=`%s`", key, value));
  }
}
