package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Swap;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.function.Function;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tries under one id of the caller's: what a conflict says of the others, and how it is kept. */
@Timeout(120)
class TriesTest {
  private static final String ID = "nightly";

  @TempDir Path folder;
  private Lake lake;
  private TxnHandle other;
  private TxnHandle handle;
  private final MovedClock clock = new MovedClock();

  /** What the catalog answers to the handle's swaps of the commit table; null for the truth. */
  private HookedOperations.Hook swap;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    other = lake.open();
    lake.create(other, "shop.a", "shop.b");
    append(other.catalog(() -> null).loadTable(id("shop.a")), 1);
    handle =
        HookedOperations.open(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              if (swap == null) {
                real.commit(base, next);
              } else {
                swap.commit(real, base, next);
              }
            },
            clock);
  }

  private static BeginOptions options(String id) {
    BeginOptions options = BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT);
    return id == null ? options : options.withId(id);
  }

  /** A try that clashes with nothing. */
  private static Transaction appending(TxnHandle by, BeginOptions options, long row) {
    Transaction txn = by.begin(options);
    append(by.catalog(() -> txn).loadTable(id("shop.b")), row);
    return txn;
  }

  /** A try that loses against any other write of its table. */
  private static Transaction clashing(TxnHandle by, String id) {
    Transaction txn = by.begin(options(id));
    overwrite(by.catalog(() -> txn).loadTable(id("shop.a")), 7);
    return txn;
  }

  private void writeElsewhere(long row) {
    append(other.catalog(() -> null).loadTable(id("shop.a")), row);
  }

  private void advanceElsewhere() {
    String id = Lake.CLOCK.newTxnId();
    appendElsewhere(head -> head.entry(EntryKind.ADVANCE, head.upper() + 1, id, List.of()));
  }

  private void abortElsewhere(String id) {
    appendElsewhere(head -> head.abort(head.upper() + 1, id, head.upper()));
  }

  /** What another process commits: threads of this one wait for each other. */
  private void appendElsewhere(Function<Head, Entry> entry) {
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK);
    Head head = log.load();
    assertThat(log.append(head, List.of(entry.apply(head))).outcome()).isEqualTo(Swap.Outcome.WON);
  }

  private static void refused(Transaction txn, String reason) {
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining(reason);
  }

  private static void isUnknown(Throwable error) {
    assertThat(error)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
  }

  private List<String> aborts() {
    return lake.open().transactions().stream()
        .filter(row -> row.kind().equals("abort"))
        .map(TransactionRow::txnId)
        .toList();
  }

  // The promise

  /**
   * 1. T1 and T2 begin under one id; T2 clashes with what another commits then. 2. T1's swap is on
   * its way, and is not answered. 3. T2 is told a conflict. 4. T1's swap arrives.
   */
  @Test
  void aConflictIsOneOfEarlierTries() {
    Transaction first = appending(handle, options(ID), 1);
    Transaction second = clashing(other, ID);
    writeElsewhere(2);
    List<Runnable> onItsWay = new ArrayList<>();
    swap =
        (real, base, next) -> {
          onItsWay.add(() -> real.commit(base, next));
          clock.aheadMs += 10_000; // there are 30 s
          throw new ServiceFailureException("connection reset by peer");
        };
    assertThatThrownBy(first::commit).satisfies(TriesTest::isUnknown);
    refused(second, "was written");
    assertThatThrownBy(onItsWay.get(0)::run).isInstanceOf(CommitFailedException.class);
    assertThat(lake.txnIds("shop.b")).isEmpty();
  }

  /** Who validates after the abort is told a conflict as well, also when it has been archived. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void anEarlierTryIsRefused(boolean tidied) {
    Transaction early = appending(handle, options(ID), 1);
    Transaction late = clashing(other, ID);
    writeElsewhere(2);
    refused(late, "was written");
    if (tidied) {
      other.tidy();
      assertThat(other.services().log().load().state().entries()).isEmpty();
    }
    refused(early, "a try under its id");
    assertThat(aborts()).containsExactly(ID);
    assertThat(lake.txnIds("shop.b")).isEmpty();
  }

  /** Whoever begins after the conflict was told may commit, once, and the id is found by it. */
  @Test
  void aLaterTryCommits() {
    for (long row = 2; row < 4; row++) {
      Transaction txn = clashing(handle, ID);
      writeElsewhere(row);
      refused(txn, "was written");
      assertThat(handle.begin(options(ID)).state()).isEqualTo(Transaction.State.ACTIVE);
    }
    long commitTs = clashing(handle, ID).commit().commitTs();
    handle.tidy();
    assertThat(handle.services().log().load().state().entries()).isEmpty();
    assertThat(handle.begin(options(ID)).commit().commitTs()).isEqualTo(commitTs);
    assertThat(aborts()).containsExactly(ID, ID);
    assertThat(lake.plainIds("shop.a")).containsExactly(7L);
  }

  /** What a try reads at is when it began: the error says from when on it may. */
  @Test
  void aTryAsOfBeforeTheAbort() {
    long asOf = handle.upper();
    Transaction late = clashing(handle, ID);
    writeElsewhere(2);
    refused(late, "was written");
    Transaction before = appending(handle, options(ID).withAsOf(asOf), 1);
    refused(before, "least_ts=`" + handle.upper() + "`");
    appending(handle, options(ID).withAsOf(handle.upper()), 1).commit();
    assertThat(lake.txnIds("shop.b")).containsExactly(1L);
  }

  // Who needs none

  /** Nobody else can try a fresh id; a rollback says what became of one try. */
  @Test
  void noAbort() {
    Transaction fresh = clashing(handle, null);
    writeElsewhere(2);
    long upper = handle.upper();
    refused(fresh, "was written");
    appending(handle, options(ID), 1).rollback();
    assertThat(handle.upper()).isEqualTo(upper);
  }

  /**
   * 1. T1, with a fresh id, is about to swap. 2. Another process tries its id again, is told a
   * conflict, and its abort is archived. 3. T1's swap is lost, and it tries again.
   */
  @Test
  void aFreshIdThatAnotherTriesAgain() {
    Transaction first = appending(handle, options(null), 1);
    swap =
        (real, base, next) -> {
          swap = null;
          abortElsewhere(first.id());
          other.tidy();
          real.commit(base, next);
        };
    refused(first, "a try under its id");
    assertThat(lake.txnIds("shop.b")).isEmpty();
  }

  /**
   * 1. T1 begins, with a fresh id. 2. T2 tries it again, is told a conflict, and its abort is
   * archived. 3. T1 makes its first attempt.
   */
  @Test
  void aFreshIdThatAnotherTriedBeforeItsFirstAttempt() {
    Transaction first = appending(handle, options(null), 1);
    Transaction again = clashing(other, first.id());
    writeElsewhere(2);
    refused(again, "was written");
    other.tidy();
    assertThat(other.services().log().load().state().entries()).isEmpty();
    refused(first, "a try under its id");
    assertThat(lake.txnIds("shop.b")).isEmpty();
  }

  // The abort's own swap

  /** It is settled by the abort in the next head; what is told is why the try was refused. */
  @Test
  void aLostAnswerOfTheAbort() {
    Transaction txn = clashing(handle, ID);
    writeElsewhere(2);
    swap =
        (real, base, next) -> {
          swap = null;
          real.commit(base, next);
          throw new ServiceFailureException("connection reset by peer");
        };
    refused(txn, "was written");
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
    assertThat(aborts()).containsExactly(ID);
  }

  /** Nobody is told a conflict that may be untrue. */
  @Test
  void anAbortThatDoesNotGetThrough() {
    Transaction txn = clashing(handle, ID);
    writeElsewhere(2);
    swap =
        (real, base, next) -> {
          clock.aheadMs += 10_000;
          throw new ServiceFailureException("connection reset by peer");
        };
    assertThatThrownBy(txn::commit).satisfies(TriesTest::isUnknown);
    assertThat(aborts()).isEmpty();
  }

  /** A refusal is told as what it is, and the next COMMIT may work. */
  @Test
  void anAbortThatIsRefused() {
    Transaction txn = clashing(handle, ID);
    writeElsewhere(2);
    swap =
        (real, base, next) -> {
          throw new ForbiddenException("no writer here");
        };
    assertThatThrownBy(txn::commit).hasMessageContaining("no writer here");
    swap = null;
    refused(txn, "was written");
    assertThat(aborts()).containsExactly(ID);
  }

  /** Under a caller's id nothing is known when every swap is lost: others may have tried it. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void tooManyOthers(boolean own) {
    Transaction txn = appending(handle, options(own ? ID : null), 1);
    swap =
        (real, base, next) -> {
          advanceElsewhere();
          clock.aheadMs += 20_000;
          real.commit(base, next);
        };
    if (own) {
      assertThatThrownBy(txn::commit).satisfies(TriesTest::isUnknown);
    } else {
      refused(txn, "too many others");
    }
    assertThat(aborts()).isEmpty();
  }

  /** No entry stands above an {@code off}: the error is that one, which promises nothing. */
  @Test
  void aLogThatTakesNoWriters() {
    Transaction txn = clashing(handle, ID);
    writeElsewhere(2);
    other.off();
    assertThatThrownBy(txn::commit).hasMessageContaining("transactions are off");
    assertThat(aborts()).isEmpty();
  }

  // In a group

  /** One swap has the abort of one try, which refuses another under its id, and a commit. */
  @Test
  void anAbortInAGroup() throws Exception {
    Transaction first = appending(handle, options(null), 1);
    Transaction refused = clashing(handle, ID);
    Transaction second = appending(handle, options(ID), 2);
    Transaction third = appending(handle, options(null), 3);
    writeElsewhere(2);
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch opened = new CountDownLatch(1);
    swap =
        (real, base, next) -> {
          swap = null;
          reached.countDown();
          try {
            opened.await();
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          real.commit(base, next);
        };
    List<FutureTask<Committed>> tasks = new ArrayList<>();
    for (Transaction txn : List.of(first, refused, second, third)) {
      FutureTask<Committed> task = new FutureTask<>(txn::commit);
      Thread thread = new Thread(task);
      thread.start();
      reached.await();
      if (!tasks.isEmpty()) {
        Loops.awaitInGroup(thread);
      }
      tasks.add(task);
    }
    opened.countDown();
    tasks.get(0).get();
    assertThatThrownBy(tasks.get(1)::get).hasMessageContaining("was written");
    assertThatThrownBy(tasks.get(2)::get).hasMessageContaining("a try under its id");
    tasks.get(3).get();
    assertThat(aborts()).containsExactly(ID);
    assertThat(lake.txnIds("shop.b")).containsExactly(1L, 3L);
  }
}
