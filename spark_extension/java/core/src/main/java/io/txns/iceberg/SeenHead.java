package io.txns.iceberg;

import java.util.OptionalLong;

/**
 * What a head says for whoever watches a lake, and no table: docs/operations.md, "Metrics".
 *
 * @param version of two heads of one log with one upper the newer one has the greater
 * @param entries how many entries stand in it
 * @param bytes what its records count for
 * @param upperTs the greatest {@code commit_ts}, in ms; 0 before the first
 * @param oldestMaybeUnappliedTs of the oldest entry that tables may not show; what is applied
 *     everywhere stands until the next tidy
 * @param off whether transactions are off
 */
public record SeenHead(
    long version,
    int entries,
    long bytes,
    long upperTs,
    OptionalLong oldestMaybeUnappliedTs,
    boolean off) {
  /** Before there is a log. */
  public static final SeenHead NONE = new SeenHead(0, 0, 0, 0, OptionalLong.empty(), false);

  /** From where on some clock is taken to be fast. */
  private static final long SKEW_MAX_MS = 60_000;

  /** Whether it is later than another one: a log that was recovered counts its versions anew. */
  public boolean isNewer(SeenHead other) {
    return upperTs == other.upperTs ? version > other.version : upperTs > other.upperTs;
  }

  /** How far the log is ahead of a clock, in ms; negative for behind, 0 before the first entry. */
  public long skewMs(long nowMs) {
    return upperTs == 0 ? 0 : upperTs - nowMs;
  }

  /** How old that oldest entry is, in ms; by the log's own time where some clock is fast. */
  public long oldestMaybeUnappliedAgeMs(long nowMs) {
    long newest = skewMs(nowMs) > SKEW_MAX_MS ? upperTs : nowMs;
    return oldestMaybeUnappliedTs.isPresent()
        ? Math.max(0, newest - oldestMaybeUnappliedTs.getAsLong())
        : 0;
  }
}
