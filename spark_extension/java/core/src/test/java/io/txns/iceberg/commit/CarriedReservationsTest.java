package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertTimeout;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Reservation;
import io.txns.iceberg.log.Swap;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What somebody has reserved is carried by every record after it (docs/spec.md 11.4). */
class CarriedReservationsTest extends TwoTables {
  private static final String TABLE = "5f1d9c5e-7a31-4c5c-9f0b-2f6f6f0c6a01";
  private static final Reservation ANOTHERS =
      new Reservation("another", List.of(TABLE), 1, 2, 60_000);
  private static final Reservation OURS = new Reservation("ours", List.of(TABLE), 2, 1, 120_000);

  @Test
  void aTransactionCarriesThemAndATidyDoes() {
    reserve(ANOTHERS, OURS);
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(reserved()).containsExactly(ANOTHERS, OURS);
    handle.tidy();
    assertThat(reserved()).containsExactly(ANOTHERS, OURS);
  }

  /** It has been used. */
  @Test
  void aTransactionLeavesOutWhatWasReservedForIt() {
    reserve(ANOTHERS, OURS);
    Transaction transaction = handle.begin(BeginOptions.defaults().withId("ours"));
    append(handle.catalog(() -> transaction).loadTable(id("shop.a")), 2);
    transaction.commit();
    assertThat(reserved()).containsExactly(ANOTHERS);
  }

  /** And whoever has waited leaves it out; who only appends has not, nor who writes another one. */
  @Test
  void whoWritesByWhatATableHoldsWaitsForWhoIsOlder() {
    Reservation dead = new Reservation("dead", List.of(uuid("shop.a")), 0, 1, 6000);
    reserve(dead, ANOTHERS);
    long beganNs = System.nanoTime();
    append(ours.loadTable(id("shop.a")), 2);
    overwrite(ours.loadTable(id("shop.b")), 2);
    assertThat(reserved()).containsExactly(dead, ANOTHERS);
    overwrite(ours.loadTable(id("shop.a")), 3);
    assertThat(System.nanoTime() - beganNs).isGreaterThan(6_000_000_000L);
    assertThat(reserved()).containsExactly(ANOTHERS);
    assertThat(ids(outside.loadTable(id("shop.a")))).containsExactly(3L);
  }

  /** Its holder has lost to such ones although all others have waited. */
  @Test
  void whoOnlyAppendsWaitsForWhoHasLostAgain() {
    Reservation twice = new Reservation("twice", List.of(uuid("shop.a")), 0, 2, 3000);
    reserve(twice);
    long beganNs = System.nanoTime();
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(System.nanoTime() - beganNs).isGreaterThan(3_000_000_000L);
    assertThat(reserved()).isEmpty();
    reserve(new Reservation("again", List.of(uuid("shop.a")), 0, 2, 60_000));
    assertTimeout(Duration.ofSeconds(30), () -> append(ours.loadTable(id("shop.b")), 2));
  }

  /**
   * Else who adopts in turn would have a reader lose until he has no try left. Who adopts on his
   * way is as old as he is.
   */
  @Test
  void whoOnlyAdoptsWaitsAsAnAppendDoes() {
    TxnHandle atomic = lake.atomic();
    Transaction old = atomic.begin(BeginOptions.defaults());
    append(atomic.catalog(() -> old).loadTable(id("shop.a")), 2);
    append(outside.loadTable(id("shop.a")), 100);
    reserve(new Reservation("twice", List.of(uuid("shop.a")), old.readTs() + 1, 2, 3000));
    assertThat(assertTimeout(Duration.ofSeconds(30), old::commit)).isNotNull();
    assertThat(old.waitedMs()).isZero();
    assertThat(lake.txnIds("shop.a")).contains(2L, 100L);
    append(outside.loadTable(id("shop.a")), 101);
    reserve(new Reservation("again", List.of(uuid("shop.a")), 0, 2, 3000));
    long beganNs = System.nanoTime();
    assertThat(handle.services().committer().adopt(id("shop.a"))).isTrue();
    assertThat(System.nanoTime() - beganNs).isGreaterThan(3_000_000_000L);
    assertThat(reserved()).isEmpty();
  }

  /**
   * For nobody: they are over.
   *
   * <p>1. The third try reserves for the second time, and does not hear of it. 2. It loses. 3.
   * Nothing can be reserved for the fourth one, which adopts.
   */
  @Test
  void whoAdoptsOnHisWayDoesNotWaitForHisTriesBefore() {
    TxnHandle atomic = lake.atomic();
    Transaction third = atomic.begin(BeginOptions.defaults());
    reserve(new Reservation(third.id(), List.of(uuid("shop.a")), third.readTs(), 2, 30_000));
    Transaction fourth =
        atomic
            .begin(BeginOptions.defaults())
            .inTurn(new Turn(third.readTs(), 1, null, Set.of(third.id())));
    append(atomic.catalog(() -> fourth).loadTable(id("shop.a")), 2);
    append(outside.loadTable(id("shop.a")), 100);
    assertThat(assertTimeout(Duration.ofSeconds(20), fourth::commit)).isNotNull();
    assertThat(fourth.waitedMs()).isZero();
    assertThat(newest(EntryKind.ADOPT).reserved()).isEmpty();
    assertThat(lake.txnIds("shop.a")).contains(2L, 100L);
  }

  /**
   * Else one table would hold up whoever adopts for others as well.
   *
   * <p>1. It waits for an older one. 2. Somebody commits to the table, and another one reserves it.
   */
  @Test
  void whoOnlyAdoptsWaitsOnce() {
    Transaction overtaking = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> overtaking).loadTable(id("shop.a")), 2);
    append(ours.loadTable(id("shop.b")), 3);
    append(outside.loadTable(id("shop.a")), 100);
    long ticket = overtaking.readTs() + 1;
    List<String> uuids = List.of(uuid("shop.a"));
    reserve(new Reservation("first", uuids, ticket, 2, 30_000));
    AtomicLong passedMs = new AtomicLong();
    TxnHandle writer =
        HookedOperations.open(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              if (overtaking.state() == Transaction.State.ACTIVE) {
                overtaking.commit();
                reserve(new Reservation("second", uuids, ticket, 2, 30_000));
              }
              real.commit(base, next);
            },
            fast(passedMs));
    assertThat(writer.services().committer().adopt(id("shop.a"))).isFalse();
    assertThat(overtaking.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(passedMs.get()).isBetween(29_000L, 40_000L);
    assertThat(writer.services().committer().adopt(id("shop.a"))).isTrue();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 100L);
  }

  private static TxnClock fast(AtomicLong passedMs) {
    return new MovedClock() {
      @Override
      public long elapsedMs() {
        return super.elapsedMs() + passedMs.get();
      }

      @Override
      public void backOff(long maxMs) {
        passedMs.addAndGet(maxMs);
      }
    };
  }

  private Entry newest(EntryKind kind) {
    return handle.services().log().load().state().entries().stream()
        .filter(entry -> entry.kind() == kind)
        .reduce((before, entry) -> entry)
        .orElseThrow();
  }

  /** It has kept nobody, and its holder may come yet. */
  @Test
  void whatNobodyHasWaitedForIsCarried() {
    Reservation once = new Reservation("once", List.of(uuid("shop.a")), 0, 1, 10);
    reserve(once);
    append(ours.loadTable(id("shop.a")), 2);
    sleep(50);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(reserved()).containsExactly(once);
  }

  /** The second handle of a process has not to wait for whom the first one has waited. */
  @Test
  void whatAProcessHasWaitedForCostsItOnce() {
    Reservation dead = new Reservation("dead", List.of(uuid("shop.a")), 0, 1, 1500);
    TxnHandle first = sharing();
    TxnHandle second = sharing();
    Transaction transaction = first.begin(BeginOptions.defaults());
    overwrite(first.catalog(() -> transaction).loadTable(id("shop.a")), 3);
    reserve(dead);
    transaction.commit();
    reserve(dead);
    long beganNs = System.nanoTime();
    overwrite(second.catalog(() -> null).loadTable(id("shop.a")), 4);
    assertThat(System.nanoTime() - beganNs).isLessThan(1_400_000_000L);
  }

  private TxnHandle sharing() {
    return TxnHandle.open(
        "lake", Map.of("sharing", "turns"), lake.catalog(), () -> Lake.INLINE, Lake.CLOCK);
  }

  /** It is no turn of who is younger. */
  @Test
  void whoIsOlderDoesNotWait() {
    Transaction old = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> old).loadTable(id("shop.a")), 3);
    Reservation younger =
        new Reservation("y", List.of(uuid("shop.a")), handle.upper() + 1, 1, 60_000);
    reserve(younger);
    assertThat(assertTimeout(Duration.ofSeconds(30), old::commit)).isNotNull();
    assertThat(reserved()).containsExactly(younger);
  }

  /** For half as long again as that took, as old as that; it leaves it out, or gives it up. */
  @Test
  void theNextTryOfWhoHasLostReservesItsTables() {
    long upper = handle.upper();
    Transaction lost = lost(null);
    Transaction again = handle.begin(BeginOptions.defaults(), lost, 40_000);
    assertThat(reserved())
        .containsExactly(new Reservation(again.id(), List.of(uuid("shop.a")), upper, 1, 60_000));
    again.rollback();
    Transaction third = handle.begin(BeginOptions.defaults(), again, 100_000);
    assertThat(reserved())
        .containsExactly(new Reservation(third.id(), List.of(uuid("shop.a")), upper, 2, 120_000));
    overwrite(handle.catalog(() -> third).loadTable(id("shop.a")), 5);
    third.commit();
    assertThat(reserved()).isEmpty();
    Transaction last = handle.begin(BeginOptions.defaults(), lost(null), 40_000);
    assertThat(reserved()).hasSize(1);
    last.rollback();
    handle.giveUp(last);
    assertThat(reserved()).isEmpty();
  }

  /** Nor can anything be given up that somebody has taken out. */
  @Test
  void aFullListCostsNobodyASwap() {
    Transaction lost = lost(null);
    Reservation[] full =
        IntStream.range(0, Reservation.MAX)
            .mapToObj(n -> new Reservation("z" + n, List.of(TABLE), 1, 1, 120_000))
            .toArray(Reservation[]::new);
    reserve(full);
    long upper = handle.upper();
    Transaction again = handle.begin(BeginOptions.defaults(), lost, 40_000);
    assertThat(again.turn().reserved()).isNull();
    again.rollback();
    handle.giveUp(again);
    assertThat(handle.upper()).isEqualTo(upper);
    assertThat(reserved()).containsExactly(full);
  }

  /** 1. Who gives up sees that it stands. 2. Somebody takes it out, who has waited for it. */
  @Test
  void whatIsTakenOutMeanwhileCostsNobodyASwap() {
    Transaction own = handle.begin(BeginOptions.defaults(), lost(null), 40_000);
    own.rollback();
    List<Long> uppers = new ArrayList<>();
    TxnClock late =
        new MovedClock() {
          @Override
          public String newTxnId() { // which its swap has
            if (uppers.isEmpty()) {
              reserve();
              uppers.add(handle.upper());
            }
            return super.newTxnId();
          }
        };
    TxnHandle other = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, late);
    other.giveUp(own);
    assertThat(uppers).containsExactly(handle.upper());
  }

  /** Until the own one before it is given up. */
  @Test
  void whatIsBehindAnOwnOneHasItsTimeBeforeIt() {
    Transaction own = handle.begin(BeginOptions.defaults(), lost(null), 40_000);
    Reservation first = reserved().get(0);
    Reservation behind = new Reservation("behind", first.uuids(), first.ticket() + 1, 1, 3_000);
    reserve(first, behind);
    append(ours.loadTable(id("shop.a")), 5); // which sees both
    sleep(3_100);
    own.rollback();
    handle.giveUp(own);
    assertThat(reserved()).containsExactly(behind);
    Transaction young = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> young).loadTable(id("shop.a")), 6);
    young.commit();
    assertThat(young.waitedMs()).isPositive();
  }

  /** Whose begin holds up others waits before it, two minutes at most; and not again. */
  @Test
  void aTryThatBeginsAfterItsTurnWasAwaitedWaitsForNobody() {
    Transaction lost = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> lost).loadTable(id("shop.b")), 3);
    overwrite(handle.catalog(() -> lost).loadTable(id("shop.a")), 3);
    overwrite(ours.loadTable(id("shop.a")), 4);
    assertThatThrownBy(lost::commit).hasMessageContaining("shop.a");
    // The time of the second one stands still as long as the first one is waited for.
    reserve(
        new Reservation("first", List.of(uuid("shop.a")), 0, 1, 100_000),
        new Reservation("second", List.of(uuid("shop.a"), uuid("shop.b")), 1, 1, 100_000));
    AtomicLong passedMs = new AtomicLong();
    TxnHandle late =
        TxnHandle.open(
            "lake", Map.of("sharing", "late"), lake.catalog(), () -> Lake.INLINE, fast(passedMs));
    late.awaitTurn(lost);
    assertThat(passedMs.get()).isGreaterThan(119_000);
    passedMs.set(0);
    late.begin(BeginOptions.defaults(), lost, 40_000);
    assertThat(passedMs.get()).isLessThan(10_000);
  }

  /** Nobody is there who could use it. */
  @Test
  void aTryThatCannotBeginLeavesNothingReserved() {
    Transaction lost = lost(null);
    BeginOptions tomorrow =
        BeginOptions.defaults()
            .withIsolation(Isolation.SERIALIZABLE)
            .withAsOf(handle.upper() + 86_400_000);
    assertThatThrownBy(() -> handle.begin(tomorrow, lost, 40_000))
        .hasMessageContaining("nothing has committed at that time");
    assertThat(reserved()).isEmpty();
  }

  /** After the fifth there is none more, and nobody waits for the fifth. */
  @Test
  void theLastOneGoesWithTheRecordOfALaterTry() {
    Transaction lost = afterTheLastOne();
    assertThat(reserved()).hasSize(1);
    Transaction last = handle.begin(BeginOptions.defaults(), lost, 120_000);
    assertThat(last.turn().reserved()).isNull();
    overwrite(handle.catalog(() -> last).loadTable(id("shop.a")), 5);
    assertTimeout(Duration.ofSeconds(30), last::commit);
    assertThat(reserved()).isEmpty();
  }

  @Test
  void aLaterTryThatReservedNothingGivesUpWhatIsHeld() {
    Transaction lost = afterTheLastOne();
    assertThat(reserved()).hasSize(1);
    Transaction last = handle.begin(BeginOptions.defaults(), lost, 120_000);
    last.rollback();
    handle.giveUp(last);
    assertThat(reserved()).isEmpty();
  }

  /** Nothing has been committed, and nothing is out of turn. */
  @Test
  void whoIsInterruptedWhileHeWaitsEnds() {
    reserve(new Reservation("dead", List.of(uuid("shop.a")), 0, 1, 60_000));
    Transaction young = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> young).loadTable(id("shop.a")), 3);
    Thread waiting = Thread.currentThread();
    Thread stopper =
        new Thread(
            () -> {
              sleep(2000);
              waiting.interrupt();
            });
    stopper.start();
    try {
      assertThatThrownBy(young::commit)
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("57014"));
    } finally {
      Thread.interrupted();
    }
    assertThat(ids(outside.loadTable(id("shop.a")))).doesNotContain(3L);
  }

  @Test
  void whatItHasWaitedCountsForNothing() {
    Reservation dead = new Reservation("dead", List.of(uuid("shop.a")), 0, 1, 3000);
    Transaction young = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> young).loadTable(id("shop.a")), 3);
    append(ours.loadTable(id("shop.a")), 4);
    reserve(dead);
    assertThatThrownBy(young::commit).hasMessageContaining("shop.a");
    assertThat(young.waitedMs()).isGreaterThan(2500);
    sleep(3500); // there are no turns for as long
    handle.begin(BeginOptions.defaults(), young, young.waitedMs() + 2000);
    assertThat(reserved()).singleElement().extracting(Reservation::lastsMs).isEqualTo(3000L);
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Each to somebody older, who does not wait. */
  private Transaction afterTheLastOne() {
    List<Transaction> older =
        IntStream.rangeClosed(0, Reservation.NUMBER_MAX)
            .mapToObj(number -> handle.begin(BeginOptions.defaults()))
            .toList();
    append(ours.loadTable(id("shop.a")), 9);
    Transaction before = null;
    for (Transaction winner : older) {
      Transaction lost = handle.begin(BeginOptions.defaults(), before, 60_000);
      overwrite(handle.catalog(() -> lost).loadTable(id("shop.a")), 3);
      append(handle.catalog(() -> winner).loadTable(id("shop.a")), 4);
      winner.commit();
      assertThatThrownBy(lost::commit).hasMessageContaining("shop.a");
      before = lost;
    }
    return before;
  }

  private Transaction lost(Transaction before) {
    Transaction lost = handle.begin(BeginOptions.defaults(), before, 0);
    overwrite(handle.catalog(() -> lost).loadTable(id("shop.a")), 3);
    overwrite(ours.loadTable(id("shop.a")), 4);
    assertThatThrownBy(lost::commit).hasMessageContaining("shop.a");
    return lost;
  }

  private String uuid(String table) {
    return outside.loadTable(id(table)).uuid().toString();
  }

  private void reserve(Reservation... reservations) {
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK);
    Head head = log.load();
    Entry advance =
        new Entry(
            EntryKind.ADVANCE,
            head.upper() + 1,
            head.upper(),
            head.upper() + 1,
            head.state().tidiedUpto(),
            head.upper(),
            Lake.CLOCK.newTxnId(),
            Isolation.SNAPSHOT,
            "",
            "",
            List.of(),
            Entry.Payload.NONE);
    List<Entry> entries = List.of(advance.reserving(List.of(reservations)));
    assertThat(log.append(head, entries).outcome()).isEqualTo(Swap.Outcome.WON);
  }

  private List<Reservation> reserved() {
    return new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK).load().state().reserved();
  }
}
