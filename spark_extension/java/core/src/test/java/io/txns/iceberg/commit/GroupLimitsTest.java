package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Swap;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Who is in one swap with whom: what stops one member, or is known of it, is not the others'. */
class GroupLimitsTest extends TwoTables {
  private static final int MAX_ATTEMPTS = 50;
  private static final int ROUNDS = 100;

  private final AtomicInteger lost = new AtomicInteger();
  private CommitLoop loop;

  /** How many swaps are still lost to somebody else. */
  private int toLose = Integer.MAX_VALUE;

  @BeforeEach
  void contend() {
    TxnHandle contended =
        HookedOperations.open(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              if (lost.get() >= toLose) {
                real.commit(base, next);
                return;
              }
              lost.incrementAndGet();
              advanceElsewhere();
              throw new CommitFailedException("somebody else was faster");
            },
            Lake.CLOCK);
    CommitGroup group = new CommitGroup();
    loop = Loops.over(contended.services(), Lake.CLOCK, group);
  }

  private void advanceElsewhere() {
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK);
    Head head = log.load();
    Entry entry = advance(head, head.upper() + 1, "elsewhere-" + lost);
    assertThat(log.append(head, List.of(entry)).outcome()).isEqualTo(Swap.Outcome.WON);
  }

  private static Entry advance(Head head, long commitTs, String txnId) {
    return head.entry(EntryKind.ADVANCE, commitTs, txnId, List.of());
  }

  private static CommitGroup.Member member(String txnId) {
    return new CommitGroup.Member(
        new CommitGroup.Key(txnId, 0, CommitGroup.Origin.FRESH),
        (head, commitTs) -> advance(head, commitTs, txnId));
  }

  private static void tried(CommitGroup.Member member, int times) {
    for (int i = 0; i < times; i++) {
      member.isTried();
    }
  }

  /**
   * 1. L has waited and lost as long as it may. 2. It leads a swap with M, which has just come. 3.
   * The swap is lost: M goes on under the next leader.
   */
  @Test
  void aLeaderWhoseTimeIsUpIsNotTheGroup() {
    CommitGroup.Member late = member("late");
    CommitGroup.Member fresh = member("new");
    late.endsBy(0);
    loop.appendAll(late, List.of(late, fresh));
    assertThatThrownBy(late::result)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(fresh.isOpen()).isTrue();
    toLose = 0;
    loop.appendAll(fresh, List.of(fresh));
    assertThat(fresh.result().entry().txnId()).isEqualTo("new");
  }

  /** Nobody is tried for longer, or more often, than it may, whoever has led. */
  @Test
  void whoseTimeIsUpGoesWithTheLeader() {
    CommitGroup.Member leader = member("leader");
    CommitGroup.Member old = member("old");
    CommitGroup.Member often = member("often");
    leader.endsBy(0);
    old.endsBy(0);
    tried(often, MAX_ATTEMPTS - 1);
    loop.appendAll(leader, List.of(leader, old, often));
    assertThat(List.of(leader, old, often)).noneMatch(CommitGroup.Member::isOpen);
  }

  /** Its attempts are counted, those that others have led included. */
  @Test
  void aMemberIsTriedForAsOftenAsItMay() {
    CommitGroup.Member often = member("often");
    tried(often, MAX_ATTEMPTS - 3);
    loop.appendAll(often, List.of(often));
    assertThatThrownBy(often::result).hasMessageContaining("too many others");
    assertThat(lost).hasValue(3);
  }

  /** Whose entry a swap was refused for is found out one by one, whoever waits meanwhile. */
  @Test
  void whoIsToGoAloneLeadsNobody() throws Exception {
    CommitGroup group = new CommitGroup();
    CommitGroup.Member alone = member("alone");
    alone.refused(null);
    Set<List<CommitGroup.Member>> led = ConcurrentHashMap.newKeySet();
    AtomicInteger rounds = new AtomicInteger();
    CountDownLatch both = new CountDownLatch(1);
    List<Thread> threads = new ArrayList<>();
    for (CommitGroup.Member one : List.of(alone, member("other"))) {
      Thread thread =
          new Thread(
              () ->
                  group.run(
                      one,
                      (leader, members) -> {
                        await(both);
                        led.add(members);
                        if (rounds.incrementAndGet() > ROUNDS) {
                          leader.notCommitted(new ArithmeticException());
                        }
                      }));
      thread.start();
      threads.add(thread);
      Loops.awaitInGroup(thread);
    }
    both.countDown();
    for (Thread thread : threads) {
      thread.join();
    }
    assertThat(led).contains(List.of(alone)).allMatch(members -> members.size() == 1);
  }

  /** What a leader is stopped by, declared or not, is told by its own thread, and it has left. */
  @ParameterizedTest
  @ValueSource(classes = {IOException.class, StackOverflowError.class, ArithmeticException.class})
  void whatStopsALeaderIsItsOwn(Class<? extends Throwable> kind) {
    CommitGroup group = new CommitGroup();
    CommitGroup.Member stopped = member("stopped");
    group.run(stopped, (leader, members) -> fail(kind));
    assertThatThrownBy(stopped::result)
        .satisfiesAnyOf(
            told -> assertThat(told).isInstanceOf(kind),
            told -> assertThat(told).hasCauseInstanceOf(kind));
    CommitGroup.Member next = member("next");
    group.run(
        next,
        (leader, members) -> {
          assertThat(members).containsExactly(next);
          leader.notCommitted(new ArithmeticException());
        });
    assertThat(next.isOpen()).isFalse();
  }

  /** Not even an Error says that an attempt has not landed, nor that an entry does not stand. */
  @ParameterizedTest
  @ValueSource(classes = {IOException.class, StackOverflowError.class, ArithmeticException.class})
  void whatStopsALeaderAfterItsAttemptIsNoOutcome(Class<? extends Throwable> kind) {
    CommitGroup group = new CommitGroup();
    CommitGroup.Member tried = member("tried");
    Head head = lake.open().services().log().load();
    group.run(
        tried,
        (leader, members) -> {
          leader.attempts().trying(head);
          fail(kind);
        });
    assertThatThrownBy(tried::result)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    CommitGroup.Member won = member("won");
    Entry entry = advance(head, head.upper() + 1, "won");
    group.run(
        won,
        (leader, members) -> {
          leader.committed(entry, head);
          fail(kind);
        });
    assertThat(won.result().entry()).isSameAs(entry);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void fail(Class<? extends Throwable> kind) throws E {
    try {
      throw (E) kind.getConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Another {@code main} says nothing; a replica that lags has another one, too. */
  @Test
  void aHeadIsPastOlderOnesOnly() {
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK);
    Head before = log.load();
    advanceElsewhere();
    Head after = log.load();
    assertThat(after.isPast(before)).isTrue();
    assertThat(before.isPast(after)).isFalse();
    assertThat(after.isPast(after)).isFalse();
  }
}
