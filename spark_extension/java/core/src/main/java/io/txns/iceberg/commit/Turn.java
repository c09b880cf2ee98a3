package io.txns.iceberg.commit;

import io.txns.iceberg.log.Reservation;
import java.util.Set;

/**
 * How old one try of a transaction is, and what is reserved for it (docs/spec.md 11.4).
 *
 * @param ticket the upper that the first try began with, in ms
 * @param number how often its tries have reserved
 * @param reserved for this try; null where nothing is
 * @param held the ids of its tries whose reservations may still stand
 */
public record Turn(long ticket, int number, Reservation reserved, Set<String> held) {
  public Turn {
    held = Set.copyOf(held);
  }

  /** That of a first try. */
  public static Turn first(long upper) {
    return new Turn(upper, 0, null, Set.of());
  }
}
