package io.txns.iceberg;

import java.security.SecureRandom;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * The only source of time, randomness and ids of the protocol (Iceberg's own are its own).
 *
 * <p>Clocks are not needed for safety: {@code commit_ts} never goes back whatever they say.
 */
public interface TxnClock {
  /** Wall-clock time in ms since the epoch. */
  long nowMs();

  /** A time in ms that only grows, whatever the wall clock is set to: for differences. */
  default long elapsedMs() {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
  }

  /** A new transaction id: a UUIDv7 (RFC 9562), so that ids sort by time. */
  String newTxnId();

  /** Wait between 1 and {@code maxMs} ms, at random: the back-off of the one retry loop. */
  void backOff(long maxMs);

  /** The system's clock. */
  static TxnClock system() {
    return SystemClock.INSTANCE;
  }

  /** The system's clock, a secure random source for ids, a fast one for back-off. */
  final class SystemClock implements TxnClock {
    private static final SystemClock INSTANCE = new SystemClock();
    private final SecureRandom random = new SecureRandom();

    private SystemClock() {}

    @Override
    public long nowMs() {
      return System.currentTimeMillis();
    }

    @Override
    public String newTxnId() {
      long high = (nowMs() << 16) | 0x7000L | (random.nextLong() & 0x0FFFL);
      long low = 0x8000000000000000L | (random.nextLong() & 0x3FFFFFFFFFFFFFFFL);
      return new UUID(high, low).toString();
    }

    @Override
    public void backOff(long maxMs) {
      try {
        Thread.sleep(1 + ThreadLocalRandom.current().nextLong(maxMs));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
