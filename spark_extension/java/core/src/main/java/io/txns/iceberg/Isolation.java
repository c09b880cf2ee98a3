package io.txns.iceberg;

import java.util.Locale;

/** Isolation levels; see docs/isolation.md for what each one allows. */
public enum Isolation {
  /** What the transaction wrote over was not written since its {@code read_ts}. */
  SNAPSHOT,
  /** And nothing that it read was written since. */
  SERIALIZABLE,
  /** The same, with {@code read_ts} = the upper at BEGIN. */
  STRICT_SERIALIZABLE;

  /** Whether commit validates what was read, and not only what was written over. */
  public boolean validatesReads() {
    return this != SNAPSHOT;
  }

  /** The level as SQL spells it, for example {@code STRICT SERIALIZABLE}. */
  public String sql() {
    return name().replace('_', ' ');
  }

  /** The stored spelling, for example {@code strict-serializable}. */
  public String stored() {
    return name().toLowerCase(Locale.ROOT).replace('_', '-');
  }

  /**
   * Parse a level as SQL or an option spells it, in any case, words split by spaces, {@code _} or
   * {@code -}. The weaker levels of the standard run as {@link #SNAPSHOT}, as the standard allows.
   *
   * @throws TxnException 42601 naming the levels there are
   */
  public static Isolation parse(String text) {
    String words = text.trim().toUpperCase(Locale.ROOT).replaceAll("[\\s_-]+", " ");
    return switch (words) {
      case "SNAPSHOT", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ" -> SNAPSHOT;
      case "SERIALIZABLE" -> SERIALIZABLE;
      case "STRICT SERIALIZABLE" -> STRICT_SERIALIZABLE;
      default ->
          throw TxnException.invalidUsage(
              "42601",
              String.format(
                  "unknown isolation level, use SNAPSHOT, SERIALIZABLE, STRICT SERIALIZABLE, READ"
                      + " UNCOMMITTED, READ COMMITTED or REPEATABLE READ; level=`%s`",
                  text));
    };
  }
}
