package io.txns.iceberg;

/**
 * A failure as a log may have it: what a catalog says may hold its own options, with passwords.
 *
 * <p>Every failure that is logged goes through {@link #of}.
 */
public final class LoggedFailure extends RuntimeException {
  /** A cycle of causes must not hang; real chains are far shorter. */
  private static final int CAUSES_MAX = 16;

  private LoggedFailure(Throwable failure, int left) {
    super(
        Messages.of(failure.toString()),
        failure.getCause() == null || left == 0
            ? null
            : new LoggedFailure(failure.getCause(), left - 1));
    setStackTrace(failure.getStackTrace());
    if (left > 0) {
      for (Throwable suppressed : failure.getSuppressed()) {
        addSuppressed(new LoggedFailure(suppressed, left / 2));
      }
    }
  }

  /** A failure with the same stack and causes, their words without secrets. */
  public static LoggedFailure of(Throwable failure) {
    return new LoggedFailure(failure, CAUSES_MAX);
  }

  /** The failure's own class and words. */
  @Override
  public String toString() {
    return getMessage();
  }
}
