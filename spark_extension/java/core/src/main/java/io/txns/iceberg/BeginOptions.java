package io.txns.iceberg;

/**
 * How a transaction begins; made by {@link #defaults()} and the {@code with} methods.
 *
 * @param id the caller's own transaction id, or null for a new one
 * @param readOnly whether writes are refused
 * @param isolation null for the catalog's default
 * @param asOf an explicit {@code read_ts} in ms, or null for the upper
 * @param basis a {@code commit_ts} in ms that it must at least have seen, or null
 * @param basisTimeoutMs how long to wait for the basis, in ms
 * @param toldEarly whether loading a table may tell it that it has lost (40001); else its commit
 *     does
 */
public record BeginOptions(
    String id,
    boolean readOnly,
    Isolation isolation,
    Long asOf,
    Long basis,
    long basisTimeoutMs,
    boolean toldEarly) {
  private static final long DEFAULT_BASIS_TIMEOUT_MS = 30_000;

  public static BeginOptions defaults() {
    return new BeginOptions(null, false, null, null, null, DEFAULT_BASIS_TIMEOUT_MS, false);
  }

  /**
   * The caller's idempotence key: a transaction with it commits once.
   *
   * @throws TxnException 42602 for an empty, too long or unprintable one
   */
  public BeginOptions withId(String newId) {
    if (!TxnId.isOne(newId)) {
      throw TxnException.invalidUsage(
          "42602", "a transaction id has 1 to 255 printable characters, not only blanks");
    }
    return new BeginOptions(newId, readOnly, isolation, asOf, basis, basisTimeoutMs, toldEarly);
  }

  public BeginOptions withReadOnly(boolean newReadOnly) {
    return new BeginOptions(id, newReadOnly, isolation, asOf, basis, basisTimeoutMs, toldEarly);
  }

  public BeginOptions withIsolation(Isolation newIsolation) {
    return new BeginOptions(id, readOnly, newIsolation, asOf, basis, basisTimeoutMs, toldEarly);
  }

  public BeginOptions withAsOf(long newAsOf) {
    return new BeginOptions(id, readOnly, isolation, newAsOf, basis, basisTimeoutMs, toldEarly);
  }

  public BeginOptions withBasis(long newBasis, long timeoutMs) {
    return new BeginOptions(id, readOnly, isolation, asOf, newBasis, timeoutMs, toldEarly);
  }

  public BeginOptions withToldEarly(boolean newToldEarly) {
    return new BeginOptions(id, readOnly, isolation, asOf, basis, basisTimeoutMs, newToldEarly);
  }
}
