package io.txns.iceberg;

/**
 * What a log is set to, for all of its processes, each of which may only be stricter (docs/spec.md
 * 4.2, 4.3); pure.
 *
 * @param maxAgeMs the greatest age of a transaction, in ms
 * @param idRetentionMs how far back the archive is searched for a caller's transaction id, in ms
 * @param apply when a committed transaction is carried over to its tables
 */
public record LogSettings(long maxAgeMs, long idRetentionMs, TxnConfig.Apply apply) {
  private static final long DAY_MS = 24 * 3600 * 1000L;
  private static final long MAX_AGE_MS_GE = 1000;
  private static final long MAX_AGE_MS_LE = 30 * DAY_MS;
  private static final long ID_RETENTION_MS_LE = 36_500 * DAY_MS;

  /** Those of a log that says nothing. */
  public static final LogSettings DEFAULTS =
      new LogSettings(DAY_MS, 7 * DAY_MS, TxnConfig.Apply.INLINE);

  /**
   * These settings with others in their place, where others are given.
   *
   * @param newMaxAgeMs null for what it is
   * @param newIdRetentionMs null for what it is
   * @param newApply null for what it is
   * @throws TxnException 22023 saying what they may be
   */
  public LogSettings changed(Long newMaxAgeMs, Long newIdRetentionMs, TxnConfig.Apply newApply) {
    LogSettings changed =
        new LogSettings(
            newMaxAgeMs == null ? maxAgeMs : newMaxAgeMs,
            newIdRetentionMs == null ? idRetentionMs : newIdRetentionMs,
            newApply == null ? apply : newApply);
    String wrong = changed.wrong();
    if (wrong != null) {
      throw TxnException.invalidUsage("22023", "the log cannot be set to that: " + wrong);
    }
    return changed;
  }

  /** What is against the limits (docs/spec.md 4.7); null for nothing. */
  public String wrong() {
    if (maxAgeMs < MAX_AGE_MS_GE || maxAgeMs > MAX_AGE_MS_LE) {
      return String.format(
          "max-age-ms is %d to %d, not %d", MAX_AGE_MS_GE, MAX_AGE_MS_LE, maxAgeMs);
    }
    if (idRetentionMs < maxAgeMs || idRetentionMs > ID_RETENTION_MS_LE) {
      return String.format(
          "id-retention-ms is at least max-age-ms, %d, and at most %d, not %d",
          maxAgeMs, ID_RETENTION_MS_LE, idRetentionMs);
    }
    return null;
  }
}
