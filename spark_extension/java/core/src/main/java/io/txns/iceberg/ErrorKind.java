package io.txns.iceberg;

/**
 * What went wrong, by what the caller has to do about it.
 *
 * <p>A new kind is made only where a caller would act differently. SQLSTATEs are those of
 * PostgreSQL where it has one.
 */
public enum ErrorKind {
  /** The transaction has definitely not committed: run it again. */
  CONFLICT("40001"),
  /** It may have committed: ask the log by its transaction id; nothing has been cleaned up. */
  COMMIT_STATE_UNKNOWN("08007"),
  /** The call is wrong: fix it. The exception carries a SQLSTATE of its own. */
  INVALID_USAGE("42000"),
  /** An entry of the table cannot be applied: run the repair command in the message. */
  QUARANTINED("55000"),
  /** Somebody wrote the table outside the protocol: run the repair command in the message. */
  FOREIGN_WRITE("55000"),
  /** Stored state contradicts itself: stop and look. */
  CORRUPT_LOG("XX001"),
  /** Not possible here; the message names what is. */
  UNSUPPORTED("0A000");

  private final String sqlState;

  ErrorKind(String sqlState) {
    this.sqlState = sqlState;
  }

  /** The SQLSTATE that errors of this kind carry unless they name a finer one. */
  public String sqlState() {
    return sqlState;
  }

  /** The error condition, for example {@code TXNS_CONFLICT}. */
  public String condition() {
    return "TXNS_" + name();
  }
}
