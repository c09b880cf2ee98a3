package io.txns.iceberg;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
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
 * @param conflicts in what two transactions have to meet to clash
 * @param apply when what it commits is carried over to its tables
 * @param tidyAfter how many applied entries may stand in the head; a tidy leaves half as many
 * @param maxAgeMs the greatest age of its own transactions, in ms; null for the log's
 * @param idRetentionMs how far back it searches the archive for a caller's transaction id, in ms;
 *     null for as far as the log says
 * @param createLocations folders below which tables may stand beside their catalog's own places
 */
public record TxnConfig(
    TableIdentifier commitTable,
    Register register,
    Isolation isolation,
    Isolation autocommitIsolation,
    Conflicts conflicts,
    Apply apply,
    int tidyAfter,
    Long maxAgeMs,
    Long idRetentionMs,
    List<String> createLocations) {

  /** Which tables come under care without {@code register}. */
  public enum Register {
    CREATED,
    ALL,
    NONE
  }

  /** In what two transactions have to meet to clash. */
  public enum Conflicts {
    FILE,
    TABLE
  }

  /** When a committed transaction is applied. */
  public enum Apply {
    /** By the swap where the catalog can, unless the log is set to {@link #NEXT}; as it is set. */
    AUTO,
    /** By the swap that commits it, where catalog tables are rows of one SQL database. */
    ATOMIC,
    /** By the committer, right after the swap. */
    INLINE,
    /** By the next writer of the tables, or {@code CALL system.apply()}. */
    NEXT;

    /**
     * Those that a log may be set to: whether a catalog can move several tables it does not say.
     */
    public static final List<Apply> OF_LOGS = List.of(INLINE, NEXT);

    /**
     * Read a log's mode as a user writes it.
     *
     * @throws TxnException 22023 naming those there are
     */
    public static Apply parse(String mode) {
      for (Apply known : OF_LOGS) {
        if (known.name().equalsIgnoreCase(mode.trim())) {
          return known;
        }
      }
      throw TxnException.invalidUsage(
          "22023", String.format("unknown mode; apply=`%s` known=`inline, next`", mode));
    }
  }

  private static final long DAY_MS = 24 * 3600 * 1000L;
  private static final String PREFIX = "txns.";
  static final String DELEGATE_PREFIX = "txns.delegate.";
  private static final Set<String> OPTIONS =
      Set.of(
          "txns.commit-table",
          "txns.register",
          "txns.isolation",
          "txns.autocommit-isolation",
          "txns.conflicts",
          "txns.apply",
          "txns.tidy-after",
          "txns.max-age-s",
          "txns.id-retention-days",
          "txns.create-locations");

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
        choice(options, "txns.conflicts", Conflicts.FILE, Conflicts.values()),
        choice(options, "txns.apply", Apply.AUTO, Apply.values()),
        number(options, "txns.tidy-after", 1)
            .map(entries -> (int) Math.min(entries, Integer.MAX_VALUE))
            .orElse(32),
        number(options, "txns.max-age-s", 1000).orElse(null),
        number(options, "txns.id-retention-days", DAY_MS).orElse(null),
        Arrays.stream(options.getOrDefault("txns.create-locations", "").split(","))
            .map(String::trim)
            .filter(folder -> !folder.isEmpty())
            .toList());
  }

  /** What this process goes by under a log's settings: its own where it is stricter. */
  public LogSettings within(LogSettings log) {
    return new LogSettings(
        maxAgeMs == null ? log.maxAgeMs() : Math.min(maxAgeMs, log.maxAgeMs()),
        idRetentionMs == null ? log.idRetentionMs() : Math.max(idRetentionMs, log.idRetentionMs()),
        apply == Apply.INLINE || apply == Apply.ATOMIC ? Apply.INLINE : log.apply());
  }

  /** Whether a swap moves tables, too, where the catalog can: a log may leave them to others. */
  public boolean movesTables(LogSettings log) {
    return apply == Apply.ATOMIC || apply == Apply.AUTO && log.apply() != Apply.NEXT;
  }

  /**
   * The timestamp in ms above which a caller's id is looked for. What is fast, a clock or the log,
   * makes no id older: it is looked for further back.
   *
   * @param upper of the head whose settings {@code log} are
   */
  public long idsSinceTs(LogSettings log, long upper, long nowMs) {
    return Math.min(upper, nowMs) - within(log).idRetentionMs();
  }

  /** What of these options does not count, since the log is stricter. */
  public List<String> laxerThan(LogSettings log) {
    List<String> found = new ArrayList<>();
    if (maxAgeMs != null && maxAgeMs > log.maxAgeMs()) {
      found.add(
          String.format("txns.max-age-s is %d, the log's %d ms", maxAgeMs / 1000, log.maxAgeMs()));
    }
    if (idRetentionMs != null && idRetentionMs < log.idRetentionMs()) {
      found.add(
          String.format(
              "txns.id-retention-days is %d, the log's %d ms",
              idRetentionMs / DAY_MS, log.idRetentionMs()));
    }
    if (apply == Apply.NEXT && log.apply() == Apply.INLINE) {
      found.add("txns.apply is next, the log's inline");
    }
    return found;
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

  /** A number of units as so many of what a unit has; at most as many as there are. */
  private static Optional<Long> number(Map<String, String> options, String key, long unit) {
    String value = options.get(key);
    if (value == null) {
      return Optional.empty();
    }
    try {
      long number = Long.parseLong(value.trim());
      if (number > 0) {
        return Optional.of(Math.min(number, Long.MAX_VALUE / unit) * unit);
      }
    } catch (NumberFormatException e) {
      // told below, together with zero and negative numbers
    }
    throw TxnException.invalidUsage(
        "42000",
        String.format("a catalog option must be a whole number above 0; %s=`%s`", key, value));
  }
}
