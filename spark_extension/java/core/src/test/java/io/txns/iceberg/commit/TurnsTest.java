package io.txns.iceberg.commit;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.log.Reservation;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Whose turn it is, by what one process has seen of reservations (docs/spec.md 11.4). */
class TurnsTest {
  private static final List<String> TABLE = List.of("t");

  private long elapsedMs;
  private final Turns turns =
      new Turns(
          new TxnClock() {
            @Override
            public long nowMs() {
              return Lake.CLOCK.nowMs();
            }

            @Override
            public long elapsedMs() {
              return elapsedMs;
            }

            @Override
            public String newTxnId() {
              return Lake.CLOCK.newTxnId();
            }

            @Override
            public void backOff(long maxMs) {
              elapsedMs += maxMs;
            }
          });

  /** Somebody looks who has reserved himself, and another thread of his process later. */
  @Test
  void theTimeOfWhoIsBehindAnOwnOneStandsStill() {
    Reservation own = new Reservation("own", TABLE, 1, 1, 60_000);
    Reservation behind = new Reservation("behind", TABLE, 2, 1, 1000);
    Turns.Claim holder = new Turns.Claim(1, "next", Set.of("t"), 1, null, Set.of("own"));
    Turns.Claim young = new Turns.Claim(9, "young", Set.of("t"), 1, null, Set.of());
    for (int look = 0; look < 3; look++) {
      assertThat(turns.isWaitedFor(List.of(own, behind), holder)).isEmpty();
      elapsedMs += 900;
    }
    assertThat(turns.carried(List.of(own, behind))).contains(behind);
    assertThat(turns.isWaitedFor(List.of(behind), young)).contains(behind);
    elapsedMs += 1010;
    assertThat(turns.isWaitedFor(List.of(behind), young)).isEmpty();
  }
}
