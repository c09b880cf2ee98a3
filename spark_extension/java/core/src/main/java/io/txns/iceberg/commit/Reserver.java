package io.txns.iceberg.commit;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Reservation;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * Reserves tables for the next try of a transaction that has lost, each time by a swap that
 * validates nothing (docs/spec.md 11.4). Nothing rests on it: what fails is logged.
 */
public final class Reserver {
  private static final TxnLogger LOG = TxnLogger.of(Reserver.class);

  private final CommitLog log;
  private final CommitLoop loop;
  private final TxnClock clock;

  public Reserver(CommitLog log, CommitLoop loop, TxnClock clock) {
    this.log = log;
    this.loop = loop;
    this.clock = clock;
  }

  /**
   * Reserve tables for the next try, whose turn is {@link #await awaited} before; gives its turn.
   *
   * @param before that of the try that has lost
   * @param tookMs how long it took, without its waits for others, in ms
   * @param uuids of the tables at which it can lose again, those that count most first
   * @param txnId the id of the next one
   * @throws TxnException 57014 where it is cancelled
   */
  public Turn again(Turn before, long tookMs, List<String> uuids, String txnId) {
    Reservation reserved = null;
    Set<String> held = before.held();
    try {
      reserved = reserved(before, tookMs, first(uuids, before), txnId);
    } catch (RuntimeException e) {
      if (Thread.currentThread().isInterrupted()) {
        throw e;
      }
      LOG.debug(LogFields.of(txnId), "nothing is reserved for the next try", e);
      held = and(held, txnId); // it may have landed all the same
    }
    int number = reserved == null ? before.number() : reserved.number();
    return new Turn(before.ticket(), number, reserved, reserved == null ? held : Set.of(txnId));
  }

  /**
   * Wait for those who are older than the next try, for two minutes at most: before whatever holds
   * up others.
   *
   * @param txnId that of the try that has lost
   * @throws TxnException 57014 where it is cancelled
   */
  public void await(Turn before, List<String> uuids, String txnId) {
    try {
      if (mayReserve(before, uuids)) {
        awaitOlder(before, first(uuids, before), txnId);
      }
    } catch (RuntimeException e) {
      if (Thread.currentThread().isInterrupted()) {
        throw e;
      }
      LOG.debug(LogFields.of(txnId), "nobody is waited for", e);
    }
  }

  private Reservation reserved(Turn before, long tookMs, List<String> uuids, String txnId) {
    if (!mayReserve(before, uuids)) {
      return null;
    }
    if (loop.turns().arePaused(uuids)) {
      return null;
    }
    long lastsMs = Math.max(1, Math.min(tookMs * 3 / 2, Reservation.LASTS_MS_MAX));
    Reservation wanted =
        new Reservation(txnId, uuids, before.ticket(), before.number() + 1, lastsMs);
    return append(Turns.Claim.taking(wanted, and(before.held(), txnId)))
        .filter(entry -> entry.reserved().contains(wanted))
        .map(entry -> wanted)
        .orElse(null);
  }

  private static boolean mayReserve(Turn before, List<String> uuids) {
    return !uuids.isEmpty() && before.number() < Reservation.NUMBER_MAX;
  }

  private void awaitOlder(Turn before, List<String> uuids, String txnId) {
    Reservation mine = before.reserved();
    if (mine != null && !log.load().state().reserved().contains(mine)) {
      loop.turns().pause(mine.uuids(), mine.lastsMs()); // it was too slow for somebody
    }
    Set<String> tries = and(before.held(), txnId); // which it does not wait for
    loop.await(new Turns.Claim(before.ticket(), txnId, Set.copyOf(uuids), 1, null, tries));
  }

  private static Set<String> and(Set<String> held, String txnId) {
    Set<String> all = new LinkedHashSet<>(held);
    all.add(txnId);
    return all;
  }

  /** Take out what was reserved for tries, after which there is none: nobody has to wait. */
  public void giveUp(Turn turn) {
    Set<String> held = turn.held();
    if (held.isEmpty()) {
      return;
    }
    try {
      boolean stands =
          log.load().state().reserved().stream().anyMatch(each -> held.contains(each.txnId()));
      if (stands) {
        append(Turns.Claim.leaving(held));
      }
    } catch (RuntimeException e) {
      LOG.debug(LogFields.of(held.iterator().next()), "what was reserved stays", e);
    }
  }

  /** Append what says nothing but a claim; empty where the list is full, or has lost it. */
  private Optional<Entry> append(Turns.Claim claim) {
    CommitGroup.Key key = CommitGroup.Key.fresh(clock.newTxnId());
    CommitGroup.Attempt attempt =
        (head, commitTs) -> {
          List<Reservation> reserved = head.state().reserved();
          if (!claim.hasEffect(reserved, loop.turns().carried(reserved))) {
            throw new UnchangedException();
          }
          return head.entry(EntryKind.ADVANCE, commitTs, key.txnId(), List.of());
        };
    try {
      return Optional.of(loop.append(key, attempt, Map.of(), 0, claim));
    } catch (UnchangedException e) {
      return Optional.empty();
    }
  }

  /** A swap would cost all writers a turn, and change nothing that is reserved. */
  private static final class UnchangedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    UnchangedException() {
      super("nothing is reserved by it", null, false, false);
    }
  }

  /** The tables that count most, also where the try before has ended before its first one. */
  private static List<String> first(List<String> uuids, Turn before) {
    Set<String> known = new LinkedHashSet<>(uuids);
    if (before.reserved() != null) {
      known.addAll(before.reserved().uuids());
    }
    return known.stream().limit(Reservation.UUIDS_MAX).toList();
  }
}
