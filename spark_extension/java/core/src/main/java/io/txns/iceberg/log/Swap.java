package io.txns.iceberg.log;

/**
 * How an attempt to replace the head ended.
 *
 * @param cause what the catalog, or the storage, said; null for nothing
 */
public record Swap(Outcome outcome, RuntimeException cause) {
  public enum Outcome {
    WON,
    /** The catalog says no; it may still be wrong, the next head tells. */
    LOST,
    /** The catalog's answer was lost; the next head tells. */
    MAYBE,
    /** The catalog refuses the request, or one that repeated it; the next head tells. */
    REFUSED,
    /**
     * The catalog was not asked, or has done nothing: the head had moved already, which has no
     * cause, the new metadata file could not be written, or a database had no room.
     */
    NOT_SENT
  }

  /** Whether catalog or storage have failed, in place of an answer. */
  public boolean hasFailed() {
    return outcome == Outcome.MAYBE || isUnwritten();
  }

  /** Whether nothing was done since a file, or a row, could not be written. */
  public boolean isUnwritten() {
    return outcome == Outcome.NOT_SENT && cause != null;
  }

  static final Swap WON = new Swap(Outcome.WON, null);
  static final Swap NOT_SENT = new Swap(Outcome.NOT_SENT, null);
}
