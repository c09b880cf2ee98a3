package io.txns.iceberg.log;

import java.util.List;

/**
 * What one transaction that has lost asks of the younger ones (docs/spec.md 11.4); pure.
 *
 * @param txnId the try that is going to use it
 * @param uuids of the tables for which it is waited
 * @param ticket the upper, in ms, that its first try began with: the least is the oldest
 * @param number how often it has reserved
 * @param lastsMs for how long anybody waits for it
 */
public record Reservation(String txnId, List<String> uuids, long ticket, int number, long lastsMs) {
  /** How many a record has. */
  public static final int MAX = 8;

  public static final int UUIDS_MAX = 32;
  public static final int NUMBER_MAX = 5;
  public static final long LASTS_MS_MAX = 120_000;

  public Reservation {
    uuids = List.copyOf(uuids);
  }

  /** For how many seconds anybody waits for it, as people are told. */
  public long lastsSeconds() {
    return (lastsMs + 999) / 1_000;
  }
}
