package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.log.Reservation;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Whose turn it is: the younger wait for those who have lost, for a bounded time (docs/spec.md
 * 11.4). It is what one process has seen of reservations; threads and handles may share it.
 *
 * <p>Nothing rests on it: whoever comes out of turn is validated like everybody.
 */
final class Turns {
  private static final Comparator<Reservation> OLDEST_FIRST =
      Comparator.comparingLong(Reservation::ticket).thenComparing(Reservation::txnId);

  /** The number of a reservation for which who cannot lose waits, too: it has lost to such. */
  static final int APPENDS_WAIT_FROM = 2;

  private static final int SEEN_MAX = 32;

  /** For how long one is remembered that heads do not show any more: some threads are late. */
  private static final long KEPT_MS = 4 * Reservation.LASTS_MS_MAX;

  /** What tells a reservation from every other one. */
  private record Which(String txnId, int number) {
    static Which of(Reservation one) {
      return new Which(one.txnId(), one.number());
    }
  }

  /** For how long one has been seen; whether somebody has waited for it. */
  private static final class Seen {
    private long seenMs;
    private long atMs;
    private boolean waitedFor;
    private boolean paused;

    Seen(long atMs) {
      this.atMs = atMs;
    }
  }

  private final TxnClock clock;
  private final Map<Which, Seen> seen = new HashMap<>();

  /** Until when nobody waits for a table, or reserves it, by its uuid, in ms. */
  private final Map<String, Long> paused = new HashMap<>();

  Turns(TxnClock clock) {
    this.clock = clock;
  }

  /** Those of a head's reservations whose time is not over, the oldest first. */
  synchronized List<Reservation> standing(Collection<Reservation> reserved) {
    long nowMs = clock.elapsedMs();
    if (seen.size() > SEEN_MAX) {
      seen.values().removeIf(one -> one.atMs + KEPT_MS <= nowMs);
    }
    List<Reservation> standing = new ArrayList<>();
    for (Reservation each : reserved.stream().sorted(OLDEST_FIRST).toList()) {
      Seen known = seen.computeIfAbsent(Which.of(each), which -> new Seen(nowMs));
      // The time of who has to wait himself stands still.
      boolean rests = standing.stream().anyMatch(older -> sharesTable(older, each.uuids()));
      known.seenMs += rests ? 0 : nowMs - known.atMs;
      known.atMs = nowMs;
      if (known.seenMs < each.lastsMs()) {
        standing.add(each);
      } else if (known.waitedFor && !known.paused) {
        known.paused = true;
        pause(each.uuids(), each.lastsMs());
      }
    }
    return standing;
  }

  /**
   * Those that the next record repeats: not what somebody here has waited for enough, nor what has
   * been there for longer than anybody waits.
   *
   * @param reserved all that a head has, those that its next record leaves out as well: the time of
   *     what is behind one of them stands still until then
   */
  synchronized List<Reservation> carried(Collection<Reservation> reserved) {
    List<Reservation> standing = standing(reserved);
    return reserved.stream()
        .filter(each -> standing.contains(each) || !isOver(seen.get(Which.of(each))))
        .toList();
  }

  private static boolean isOver(Seen known) {
    return known.waitedFor || known.seenMs >= Reservation.LASTS_MS_MAX;
  }

  /** The oldest one for whom somebody has to wait; empty where it is his turn. */
  synchronized Optional<Reservation> isWaitedFor(Collection<Reservation> reserved, Claim claim) {
    Optional<Reservation> first =
        claim.others(standing(reserved)).stream() // what waits for his own stands still
            .filter(each -> claim.yieldsTo(each))
            .filter(
                each ->
                    each.uuids().stream()
                        .anyMatch(uuid -> claim.uuids().contains(uuid) && !isPaused(uuid)))
            .findFirst();
    first.ifPresent(each -> seen.get(Which.of(each)).waitedFor = true);
    return first;
  }

  /** Let there be no turns on tables for a while, in ms: they have cost time for nothing. */
  synchronized void pause(Collection<String> uuids, long lastsMs) {
    long nowMs = clock.elapsedMs();
    paused.values().removeIf(until -> until <= nowMs);
    uuids.forEach(uuid -> paused.put(uuid, nowMs + lastsMs));
  }

  /** Whether there are no turns on one of some tables for now. */
  synchronized boolean arePaused(Collection<String> uuids) {
    return uuids.stream().anyMatch(this::isPaused);
  }

  private boolean isPaused(String uuid) {
    return paused.getOrDefault(uuid, Long.MIN_VALUE) > clock.elapsedMs();
  }

  private static boolean sharesTable(Reservation one, Collection<String> uuids) {
    return one.uuids().stream().anyMatch(Set.copyOf(uuids)::contains);
  }

  /**
   * How somebody who appends an entry stands to reservations.
   *
   * @param ticket the upper that his first try began with, in ms
   * @param txnId his own id: of two with one ticket the lesser id is the older
   * @param uuids of the tables for which the turn of the older is waited for
   * @param waitsFrom how often an older one must have reserved at least
   * @param takes what the entry reserves; null for nothing
   * @param leaves the ids of tries whose reservations it takes out
   */
  record Claim(
      long ticket,
      String txnId,
      Set<String> uuids,
      int waitsFrom,
      Reservation takes,
      Set<String> leaves) {
    /** Of who neither waits nor reserves. */
    static final Claim NONE = leaving(Set.of());

    /** Of who only takes out what he or his tries before have reserved. */
    static Claim leaving(Set<String> leaves) {
      return taking(null, leaves);
    }

    /** Of who reserves, and waits for nobody. */
    static Claim taking(Reservation takes, Set<String> leaves) {
      return new Claim(0, "", Set.of(), 1, takes, leaves);
    }

    Claim {
      uuids = Set.copyOf(uuids);
      leaves = Set.copyOf(leaves);
    }

    /** The same, for other tables. */
    Claim forTables(Set<String> others) {
      return new Claim(ticket, txnId, others, waitsFrom, takes, leaves);
    }

    /** The same of who does not wait any more. */
    Claim withoutWaiting() {
      return taking(takes, leaves);
    }

    /** Whether another's turn comes before its own. */
    boolean yieldsTo(Reservation other) {
      int byTicket = Long.compare(ticket, other.ticket());
      boolean younger = byTicket > 0 || (byTicket == 0 && txnId.compareTo(other.txnId()) > 0);
      return younger && other.number() >= waitsFrom;
    }

    /** What is reserved for others. */
    List<Reservation> others(Collection<Reservation> reserved) {
      return reserved.stream().filter(each -> !leaves.contains(each.txnId())).toList();
    }

    /**
     * Whether an entry that says nothing else changes what is reserved.
     *
     * @param reserved what a head has
     * @param carried what of it the next record repeats, the own as well
     */
    boolean hasEffect(Collection<Reservation> reserved, Collection<Reservation> carried) {
      return takes == null
          ? reserved.stream().anyMatch(each -> leaves.contains(each.txnId()))
          : others(carried).size() < Reservation.MAX;
    }

    /** What is reserved from its entry on. */
    List<Reservation> reserved(List<Reservation> standing) {
      List<Reservation> left = new ArrayList<>(others(standing));
      if (takes != null && left.size() < Reservation.MAX) {
        left.add(takes);
      }
      return left;
    }
  }

  /** It is an older one's turn: an attempt ends, and with it the locks that it has. */
  static final class MustWaitException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    MustWaitException() {
      super("an older transaction has lost, and comes first", null, false, false);
    }
  }
}
