package io.txns.iceberg;

/** The system's clock, some time ahead of it or behind: by less than Iceberg tolerates. */
public class MovedClock implements TxnClock {
  public long aheadMs;

  /** How far somebody has set it, while no time has passed. */
  public long setMs;

  public MovedClock() {}

  public MovedClock(long aheadMs) {
    this.aheadMs = aheadMs;
  }

  @Override
  public long nowMs() {
    return Lake.CLOCK.nowMs() + aheadMs + setMs;
  }

  @Override
  public long elapsedMs() {
    return Lake.CLOCK.elapsedMs() + aheadMs;
  }

  @Override
  public String newTxnId() {
    return Lake.CLOCK.newTxnId();
  }

  @Override
  public void backOff(long maxMs) {
    Lake.CLOCK.backOff(maxMs);
  }
}
