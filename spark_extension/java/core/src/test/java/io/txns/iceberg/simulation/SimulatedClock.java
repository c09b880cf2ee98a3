package io.txns.iceberg.simulation;

import io.txns.iceberg.TxnClock;
import java.util.Random;
import java.util.UUID;

/** The core's clock: that of whichever simulated thread asks. */
record SimulatedClock() implements TxnClock {
  @Override
  public long nowMs() {
    return SimulatedThread.current().nowMs();
  }

  @Override
  public long elapsedMs() {
    return SimulatedThread.current().elapsedMs();
  }

  @Override
  public String newTxnId() {
    Random random = SimulatedThread.current().random();
    long high = (nowMs() << 16) | 0x7000L | (random.nextLong() & 0x0FFFL);
    long low = 0x8000000000000000L | (random.nextLong() & 0x3FFFFFFFFFFFFFFFL);
    return new UUID(high, low).toString();
  }

  @Override
  public void backOff(long maxMs) {
    SimulatedThread.current().sleep(maxMs);
  }
}
