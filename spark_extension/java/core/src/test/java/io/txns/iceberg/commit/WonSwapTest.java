package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.EntryKind;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What was won is answered as committed, whatever is thrown between the swap and the answer. */
@Timeout(120)
class WonSwapTest extends TwoTables {
  /** What is thrown once, at the next look at the clock or at the options. */
  private final AtomicReference<Throwable> failure = new AtomicReference<>();

  private final MovedClock clock =
      new MovedClock() {
        @Override
        public long nowMs() {
          fail(failure.getAndSet(null));
          return super.nowMs();
        }

        @Override
        public long elapsedMs() {
          fail(failure.getAndSet(null));
          return super.elapsedMs();
        }
      };

  private static Stream<Throwable> failures() {
    return Stream.of(
        new IllegalStateException("after the swap"), new StackOverflowError("after the swap"));
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void fail(Throwable failure) throws E {
    if (failure != null) {
      throw (E) failure;
    }
  }

  private TxnHandle hooked(String table, TxnClock clock, HookedOperations.Hook hook) {
    return HookedOperations.open(lake, id(table), hook, clock);
  }

  private static Transaction appending(TxnHandle by, long row) {
    Transaction txn = by.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    append(by.catalog(() -> txn).loadTable(id("shop.a")), row);
    return txn;
  }

  /** The log remembers what it has made after the swap; that may fail. */
  @ParameterizedTest
  @MethodSource("failures")
  void whatTheLogDoesAfterASwapIsNoOutcome(Throwable thrown) {
    TxnHandle failing =
        hooked(
            "txns.commits",
            clock,
            (real, base, next) -> {
              real.commit(base, next);
              failure.set(thrown);
            });
    Transaction txn = appending(failing, 2);
    txn.commit();
    assertThat(txn.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(1L, 2L));
  }

  /** Whatever stops the thread in the swap, what it may have landed is known. */
  @Test
  void anAttemptIsNotedBeforeItIsMade() {
    Transaction[] txn = new Transaction[1];
    boolean[] noted = new boolean[1];
    TxnHandle looked =
        hooked(
            "txns.commits",
            clock,
            (real, base, next) -> {
              noted[0] = txn[0].mayLand();
              real.commit(base, next);
            });
    txn[0] = appending(looked, 2);
    txn[0].commit();
    assertThat(noted[0]).isTrue();
    assertThat(txn[0].mayLand()).isTrue();
  }

  /** An attempt of which nothing was sent is none: it may be undone. */
  @Test
  void whatWasNotSentIsNotOnItsWay() {
    CommitGroup group = new CommitGroup();
    CommitLoop loop = Loops.over(handle.services(), clock, group);
    CommitGroup.Key key =
        new CommitGroup.Key(clock.newTxnId(), handle.upper(), CommitGroup.Origin.FRESH);
    assertThatThrownBy(
            () ->
                loop.append(
                    key,
                    (head, commitTs) -> {
                      lake.catalog().dropTable(id("txns.commits"), false);
                      return head.entry(EntryKind.ADVANCE, commitTs, key.txnId(), List.of());
                    }))
        .isNotInstanceOf(Error.class);
    assertThat(key.attempts().mayLand()).isFalse();
  }

  /** What was refused before it may land, whatever was not sent since. */
  @Test
  void whatWasNotSentSaysNothingOfAnEarlierAttempt() {
    Attempts attempts = new Attempts();
    attempts.trying(handle.services().log().load());
    attempts.notWon(new IllegalStateException("403"));
    attempts.trying(handle.services().log().load());
    attempts.notSent();
    assertThat(attempts.mayLand()).isTrue();
  }

  /** An option that another thread has set wrong stops what comes after the swap, no more. */
  @ParameterizedTest
  @MethodSource("failures")
  void optionsThatCannotBeRead(Throwable thrown) {
    TxnHandle failing =
        TxnHandle.open(
            "lake",
            Map.of(),
            HookedOperations.catalog(
                lake,
                id("txns.commits"),
                (real, base, next) -> {
                  real.commit(base, next);
                  failure.set(thrown);
                }),
            () -> {
              fail(failure.getAndSet(null));
              return Lake.INLINE;
            },
            Lake.CLOCK);
    append(failing.catalog(() -> null).loadTable(id("shop.a")), 2);
    failure.set(null);
    Transaction txn = appending(failing, 3);
    assertThat(txn.commit().applied()).isFalse();
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(1L, 2L, 3L));
  }

  /** An apply that fails is the next writer's, whatever it fails with. */
  @Test
  void anErrorInApply() {
    TxnHandle failing =
        hooked(
            "shop.a",
            clock,
            (real, base, next) -> {
              throw new StackOverflowError("in apply");
            });
    assertThat(appending(failing, 2).commit().applied()).isFalse();
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(1L, 2L));
  }
}
