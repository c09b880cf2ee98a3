package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Head;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The rows that a swap locks, and who else wants them (docs/spec.md 11.3). */
@Timeout(120)
class AtomicLockTest extends AtomicTables {
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLostAnswerIsSettled(boolean landed) {
    TxnHandle losing = HookedDriver.atomic(lake);
    BeginOptions nightly = BeginOptions.defaults().withId("nightly");
    Transaction txn = losing.begin(nightly);
    append(losing.catalog(() -> txn).loadTable(A), 2);
    append(losing.catalog(() -> txn).loadTable(B), 2);
    List<Integer> lost = new ArrayList<>();
    HookedDriver.hookCommit(
        commit -> {
          if (lost.isEmpty()) {
            lost.add(1);
            if (landed) {
              commit.run();
            }
            throw new SQLException("the connection is gone", "08006");
          }
          return commit.run();
        });
    txn.commit();
    assertThat(lost).isNotEmpty();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(Lake.standing(handle))
        .filteredOn(entry -> entry.txnId().equals("nightly"))
        .hasSize(1);
  }

  /**
   * Rows are those of one attempt.
   *
   * <ol>
   *   <li>A commit's answer is lost: the next attempt finds the entry in a head of locked rows.
   *   <li>The session is inline from then on, and commits on that head.
   * </ol>
   */
  @Test
  void aHeadThatIsKeptHasNoRows() {
    AtomicReference<String> mode = new AtomicReference<>("atomic");
    TxnHandle handle =
        HookedDriver.open(lake, () -> TxnConfig.from(Map.of("txns.apply", mode.get())));
    Transaction txn = appending(handle, 2, A, B);
    HookedDriver.hookCommit(
        commit -> {
          HookedDriver.hookCommit(HookedDriver.Update::run);
          commit.run();
          throw new SQLException("the connection is gone", "08006");
        });
    txn.commit();
    mode.set("inline");
    appending(handle, 3, A, B).commit();
    assertThat(bornLast()).containsExactly(false, false);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 3L);
  }

  /** Where no row can be locked any more, the log tells; nothing is deleted while it does not. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anAnswerThatStaysLost(boolean landed) {
    TxnHandle losing = HookedDriver.atomic(lake);
    Transaction txn = appending(losing, 2, A, B);
    Set<Path> before = metadataFiles();
    HookedDriver.hookCommit(
        commit -> {
          HookedDriver.hookBegin(
              begin -> {
                throw new SQLException("no connection", "08001");
              });
          if (landed) {
            commit.run();
          }
          throw new SQLException("the connection is gone", "08006");
        });
    if (landed) {
      txn.commit();
    } else {
      assertThatThrownBy(txn::commit)
          .isInstanceOfSatisfying(
              TxnException.class,
              e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    }
    assertThat(metadataFiles()).hasSize(before.size() + 2);
    assertThat(lake.plainIds("shop.b")).isEqualTo(landed ? List.of(2L) : List.of());
  }

  /** Who was overtaken takes no time that overtakes those behind him. */
  @ParameterizedTest
  @ValueSource(strings = {"atomic", "inline"})
  void aQueueGoesByWhatWasProposed(String apply) {
    MovedClock clock = new MovedClock(0);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", apply));
    TxnHandle waiting = HookedDriver.open(lake, () -> config, clock);
    Transaction txn = appending(waiting, 2, A);
    List<Committed> overtaking = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          if (overtaking.isEmpty()) {
            overtaking.add(appending(lake.atomic(), 3, B).commit());
            clock.aheadMs += 20_000; // so long it waits
          }
          return begin.run();
        });
    assertThat(txn.commit().commitTs() - overtaking.get(0).commitTs()).isBetween(1L, 10_000L);
  }

  /** On a head that was read before the lock one would lose to whoever was in the queue before. */
  @Test
  void whoMovesTheLogAloneWaitsInTheQueueToo() {
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "next"));
    TxnHandle waiting = HookedDriver.open(lake, () -> config, TxnClock.system());
    Transaction txn = appending(waiting, 2, A);
    List<Integer> begun = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          begun.add(1);
          if (begun.size() == 1) {
            appending(lake.atomic(), 3, B).commit();
          }
          return begin.run();
        });
    txn.commit();
    assertThat(begun).hasSize(1);
    assertThat(bornLast()).containsExactly(false);
  }

  /** A lock that is not to be had is a lost attempt, and no outcome; by whose time-out ever. */
  @Test
  void aLockThatOthersHoldIsWaitedFor() {
    TxnHandle waiting = HookedDriver.atomic(lake);
    Transaction txn = appending(waiting, 2, A, B);
    List<Integer> busy = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          busy.add(1);
          if (busy.size() < 4) {
            String told = busy.size() % 2 == 0 ? "57014" : "55P03"; // of statements, or of locks
            throw new SQLException("canceling statement due to a timeout", told);
          }
          return begin.run();
        });
    txn.commit();
    assertThat(busy).hasSize(4);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Who never gets it is told that others commit, which is definite. */
  @Test
  void aLockThatIsNeverToBeHad() {
    TxnHandle waiting = HookedDriver.atomic(lake);
    Transaction txn = appending(waiting, 2, A, B);
    HookedDriver.hookBegin(
        begin -> {
          throw new SQLException("canceling statement due to lock timeout", "55P03");
        });
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** A row that a stranger has moved between the load and the update rolls everything back. */
  @Test
  void aRowThatMovedUnderTheLockIsALostAttempt() {
    TxnHandle moved = HookedDriver.atomic(lake);
    Transaction txn = appending(moved, 2, A, B);
    List<Integer> updates = new ArrayList<>();
    HookedDriver.hook(
        update -> {
          updates.add(1);
          boolean isMoved = updates.size() == (Lake.isOnServer() ? 1 : 2); // one there moves all
          return isMoved ? 0 : update.run();
        });
    Set<Path> before = metadataFiles();
    txn.commit();
    assertThat(updates).hasSizeGreaterThan(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(metadataFiles()).hasSize(before.size() + 2);
    assertThat(metadataFiles()).isEqualTo(named(A, B));
  }

  /**
   * A newer head beside older rows says that they lack what the log has.
   *
   * <ol>
   *   <li>The lock is lost; others write the table, and what they did leaves the head.
   *   <li>Another thread of the process sees that head.
   *   <li>The attempt has the rows of before.
   * </ol>
   */
  @Test
  void rowsWhoseLockWasLostSetNoTableBack() {
    TxnHandle losing = HookedDriver.atomic(lake);
    Transaction txn = appending(losing, 2, A);
    List<Head> seen = new ArrayList<>();
    HookedDriver.hookBegin(
        begin -> {
          HookedDriver.hookBegin(HookedDriver.Update::run);
          HookedDriver.hookAsked(
              () -> {
                HookedDriver.hookAsked(() -> {});
                append(ours.loadTable(A), 3);
                assertThat(handle.tidy()).isPositive();
                seen.add(losing.services().log().load());
              });
          return 0; // nothing is begun, and no row locked
        });
    txn.commit();
    assertThat(seen).hasSize(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** The next committer does it. */
  @Test
  void aTidyThatGetsNoLockIsALostOne() {
    TxnHandle busy = HookedDriver.atomic(lake);
    HookedDriver.hookBegin(
        begin -> {
          throw new SQLException("canceling statement due to lock timeout", "55P03");
        });
    assertThat(busy.tidy()).isZero();
    HookedDriver.hookBegin(HookedDriver.Update::run);
    assertThat(busy.tidy()).isPositive();
  }

  /** However often that happens: no COMMIT was sent. */
  @Test
  void aRowThatAlwaysMovesUnderTheLockIsAConflict() {
    TxnHandle moved = HookedDriver.atomic(lake);
    Transaction txn = appending(moved, 2, A, B);
    HookedDriver.hook(update -> 0);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** A connection goes back with nothing begun, whatever stops who has it. */
  @Test
  void whoIsStoppedUnderTheLockLeavesNothingBegun() {
    TxnHandle stopped = HookedDriver.atomic(lake);
    Transaction txn = appending(stopped, 2, A, B);
    HookedDriver.hook(
        update -> {
          throw new ThreadDeath();
        });
    Set<Path> before = metadataFiles();
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN))
        .hasRootCauseInstanceOf(ThreadDeath.class);
    assertThat(metadataFiles()).isEqualTo(before);
    HookedDriver.hook(HookedDriver.Update::run);
    appending(lake.atomic(), 3, A, B).commit(); // nobody holds the lock
    appending(stopped, 4, A, B).commit();
    assertThat(lake.plainIds("shop.b")).containsExactly(3L, 4L);
  }
}
