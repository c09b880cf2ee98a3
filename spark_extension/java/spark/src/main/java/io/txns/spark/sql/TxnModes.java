package io.txns.spark.sql;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Isolation;

/**
 * The modes of a transaction as a statement names them; null is "not said".
 *
 * @param asOf the timestamp as written: digits are milliseconds, anything else a timestamp text
 * @param basis a timestamp that the transaction must have seen, written like {@code asOf}
 * @param comment words for the archive
 */
public record TxnModes(
    Boolean readOnly,
    Isolation isolation,
    String id,
    String asOf,
    String basis,
    Long timeoutMs,
    String comment) {

  /** Nothing said. */
  public static final TxnModes NONE = new TxnModes(null, null, null, null, null, null, null);

  TxnModes withReadOnly(Boolean said) {
    return new TxnModes(said, isolation, id, asOf, basis, timeoutMs, comment);
  }

  TxnModes withIsolation(Isolation said) {
    return new TxnModes(readOnly, said, id, asOf, basis, timeoutMs, comment);
  }

  TxnModes withId(String said) {
    return new TxnModes(readOnly, isolation, said, asOf, basis, timeoutMs, comment);
  }

  TxnModes withAsOf(String said) {
    return new TxnModes(readOnly, isolation, id, said, basis, timeoutMs, comment);
  }

  /** With a basis and how long to wait for it, in ms; null for the default. */
  TxnModes withBasis(String said, Long saidTimeoutMs) {
    return new TxnModes(readOnly, isolation, id, asOf, said, saidTimeoutMs, comment);
  }

  TxnModes withComment(String said) {
    return new TxnModes(readOnly, isolation, id, asOf, basis, timeoutMs, said);
  }

  /** These modes; what they leave open is taken from {@code defaults}. */
  public TxnModes orElse(TxnModes defaults) {
    return new TxnModes(
        readOnly != null ? readOnly : defaults.readOnly,
        isolation != null ? isolation : defaults.isolation,
        id != null ? id : defaults.id,
        asOf != null ? asOf : defaults.asOf,
        basis != null ? basis : defaults.basis,
        timeoutMs != null ? timeoutMs : defaults.timeoutMs,
        comment != null ? comment : defaults.comment);
  }

  /** How a transaction with these modes begins; what is left open has the catalog's default. */
  public BeginOptions options() {
    BeginOptions options = BeginOptions.defaults();
    if (id != null) {
      options = options.withId(id);
    }
    if (readOnly != null) {
      options = options.withReadOnly(readOnly);
    }
    if (isolation != null) {
      options = options.withIsolation(isolation);
    }
    if (asOf != null) {
      options = options.withAsOf(Timestamps.toMillis(asOf));
    }
    if (basis != null) {
      long timeout = timeoutMs != null ? timeoutMs : options.basisTimeoutMs();
      options = options.withBasis(Timestamps.toMillis(basis), timeout);
    }
    return options;
  }

  /** Whether a session can have them for all its transactions. */
  boolean areDefaults() {
    return equals(NONE.withReadOnly(readOnly).withIsolation(isolation));
  }

  /** Whether a level is said, and nothing else. */
  public boolean isOnlyIsolation() {
    return isolation != null && equals(NONE.withIsolation(isolation));
  }
}
