package io.txns.iceberg;

/** The system's clock, some time ahead of it or behind: by less than Iceberg tolerates. */
public class MovedClock implements TxnClock {
  public long aheadMs;

  public MovedClock() {}

  public MovedClock(long aheadMs) {
    this.aheadMs = aheadMs;
  }

  @Override
  public long nowMs() {
    return TxnClock.system().nowMs() + aheadMs;
  }

  @Override
  public String newTxnId() {
    return TxnClock.system().newTxnId();
  }

  @Override
  public void backOff(long maxMs) {
    TxnClock.system().backOff(maxMs);
  }
}
