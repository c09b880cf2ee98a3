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
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.stream.LongStream;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Transactions that wait in one process are appended in one swap, each validated. */
class GroupCommitTest {
  @TempDir Path folder;
  private Lake lake;
  private Gate gate;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    lake.create(lake.open(), "shop.a", "shop.b");
    gate = new Gate();
  }

  /** Holds the first swap of the commit table until it is opened, and counts all of them. */
  private static final class Gate {
    private final AtomicInteger swaps = new AtomicInteger();
    private final AtomicInteger failures = new AtomicInteger();
    private final CountDownLatch reached = new CountDownLatch(1);
    private final CountDownLatch opened = new CountDownLatch(1);

    private void pass() {
      if (swaps.incrementAndGet() == 1) {
        reached.countDown();
        await(opened);
      }
      if (failures.getAndDecrement() > 0) {
        throw new CommitFailedException("called stale");
      }
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** A session of its own: handles do not share anything but the process and its options. */
  private TxnHandle session() {
    JdbcCatalog catalog =
        HookedOperations.catalog(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              gate.pass();
              real.commit(base, next);
            });
    Lake.leaveApplies(lake.open());
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "next"));
    return TxnHandle.open("lake", lake.options(), catalog, () -> config, Lake.CLOCK);
  }

  private Transaction begin(TxnHandle handle) {
    return handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
  }

  /** Commit the first, and the others while the first one's swap is held. */
  private List<FutureTask<Committed>> commitTogether(List<Transaction> transactions)
      throws Exception {
    List<FutureTask<Committed>> done = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (Transaction transaction : transactions) {
      FutureTask<Committed> task = new FutureTask<>(transaction::commit);
      Thread thread = new Thread(task, "commit-" + threads.size());
      thread.start();
      if (threads.isEmpty()) {
        gate.reached.await();
      }
      done.add(task);
      threads.add(thread);
    }
    for (Thread thread : threads.subList(1, threads.size())) {
      Loops.awaitInGroup(thread);
    }
    gate.opened.countDown();
    for (Thread thread : threads) {
      thread.join();
    }
    return done;
  }

  @Test
  void waitingTransactionsShareASwap() throws Exception {
    List<Transaction> transactions = new ArrayList<>();
    for (long row = 0; row < 9; row++) {
      TxnHandle handle = session();
      Transaction transaction = begin(handle);
      append(handle.catalog(() -> transaction).loadTable(id("shop.a")), row);
      append(handle.catalog(() -> transaction).loadTable(id("shop.b")), row);
      transactions.add(transaction);
    }
    List<Long> commits = new ArrayList<>();
    for (FutureTask<Committed> one : commitTogether(transactions)) {
      commits.add(one.get().commitTs());
    }
    assertThat(gate.swaps).hasValue(2);
    assertThat(commits).doesNotHaveDuplicates();
    List<Long> rows = LongStream.range(0, 9).boxed().toList();
    assertThat(lake.txnIds("shop.a")).isEqualTo(rows);
    assertThat(lake.open().apply()).isZero();
    assertThat(lake.plainIds("shop.a")).isEqualTo(rows);
    assertThat(lake.plainIds("shop.b")).isEqualTo(rows);
  }

  @Test
  void membersOfAGroupConflictWithEachOther() throws Exception {
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 7);
    TxnHandle first = session();
    Transaction opener = begin(first);
    append(first.catalog(() -> opener).loadTable(id("shop.b")), 0);
    List<Transaction> transactions = new ArrayList<>(List.of(opener));
    for (long row = 1; row <= 3; row++) {
      TxnHandle handle = session();
      Transaction transaction = begin(handle);
      overwrite(handle.catalog(() -> transaction).loadTable(id("shop.a")), row);
      transactions.add(transaction);
    }
    List<FutureTask<Committed>> done = commitTogether(transactions);
    assertThat(done.get(0).get().tables()).containsExactly("shop.b");
    int committed = 0;
    for (FutureTask<Committed> one : done.subList(1, 4)) {
      try {
        one.get();
        committed++;
      } catch (ExecutionException e) {
        assertThat(e.getCause())
            .isInstanceOfSatisfying(
                TxnException.class, x -> assertThat(x.kind()).isEqualTo(ErrorKind.CONFLICT));
      }
    }
    assertThat(committed).isEqualTo(1);
    assertThat(lake.txnIds("shop.a")).hasSize(1);
  }

  /** Two tries under one id in one swap: both are answered with the one entry. */
  @Test
  void anIdCommitsOnceInAGroup() throws Exception {
    TxnHandle first = session();
    Transaction opener = begin(first);
    append(first.catalog(() -> opener).loadTable(id("shop.b")), 0);
    List<Transaction> transactions = new ArrayList<>(List.of(opener));
    for (long row = 1; row <= 2; row++) {
      TxnHandle handle = session();
      BeginOptions options = BeginOptions.defaults().withId("load-7");
      Transaction transaction = handle.begin(options.withIsolation(Isolation.SNAPSHOT));
      append(handle.catalog(() -> transaction).loadTable(id("shop.a")), row);
      transactions.add(transaction);
    }
    List<FutureTask<Committed>> done = commitTogether(transactions);
    assertThat(done.get(1).get().commitTs()).isEqualTo(done.get(2).get().commitTs());
    assertThat(lake.txnIds("shop.a")).hasSize(1);
  }

  /** An id twice is no state of a log, wherever the second one comes from (I8). */
  @Test
  void anIdTwiceIsCorrupt() {
    Head head = lake.open().services().log().load();
    Entry last = head.state().entries().get(0);
    Entry twice = head.entry(EntryKind.ADVANCE, head.upper() + 1, last.txnId(), List.of());
    assertThatThrownBy(() -> head.with(twice).state().validate()).hasMessageContaining("I8");
  }

  /**
   * A member whose entry stands does not wait behind the groups that came later, and a failed
   * leader is not its group.
   */
  @Test
  void aFailedLeaderFailsAlone() throws Exception {
    CommitGroup group = new CommitGroup();
    CountDownLatch led = new CountDownLatch(1);
    CountDownLatch joined = new CountDownLatch(1);
    CommitGroup.Member[] members = new CommitGroup.Member[3];
    for (int i = 0; i < members.length; i++) {
      members[i] =
          new CommitGroup.Member(new CommitGroup.Key("t" + i, 0, CommitGroup.Origin.FRESH), null);
    }
    Thread first =
        new Thread(
            () ->
                group.run(
                    members[0],
                    (leader, taken) -> {
                      led.countDown();
                      await(joined);
                      throw new IllegalStateException("connection reset by peer");
                    }));
    first.start();
    led.await();
    List<Thread> others = new ArrayList<>();
    for (CommitGroup.Member one : List.of(members[1], members[2])) {
      Thread thread =
          new Thread(
              () ->
                  group.run(
                      one,
                      (leader, taken) -> {
                        assertThat(taken).contains(leader);
                        taken.forEach(each -> each.notCommitted(new ArithmeticException()));
                      }));
      thread.start();
      others.add(thread);
    }
    joined.countDown();
    first.join();
    for (Thread thread : others) {
      thread.join(10_000);
      assertThat(thread.isAlive()).isFalse();
    }
    assertThatThrownBy(members[0]::result).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(members[1]::result).isInstanceOf(ArithmeticException.class);
    assertThatThrownBy(members[2]::result).isInstanceOf(ArithmeticException.class);
  }

  /** What has been appended is no failure, whatever the log makes of the head that holds it. */
  @Test
  void whatRunsAfterAWinDoesNotThrow() throws Exception {
    Lake another = new Lake(Files.createDirectory(folder.resolve("another")));
    another.create(another.open(), "shop.a");
    Head foreign = another.open().services().log().load();
    CommitGroup led =
        new CommitGroup() {
          @Override
          void run(Member member, BiConsumer<Member, List<Member>> lead) {
            member.committed(foreign.state().entries().get(0), foreign);
          }
        };
    Services services = lake.open().services();
    CommitLog log = services.log();
    Head own = log.load();
    CommitLoop loop = Loops.over(services, Lake.CLOCK, led);
    assertThat(loop.append(CommitGroup.Key.fresh("t1"), (head, commitTs) -> null))
        .isEqualTo(foreign.state().entries().get(0));
    assertThat(log.newest()).isSameAs(own);
  }

  @Test
  void aLostSwapIsTriedAgainByAllOfThem() throws Exception {
    List<Transaction> transactions = new ArrayList<>();
    for (long row = 0; row < 4; row++) {
      TxnHandle handle = session();
      Transaction transaction = begin(handle);
      append(handle.catalog(() -> transaction).loadTable(id("shop.a")), row);
      transactions.add(transaction);
    }
    gate.failures.set(3);
    for (FutureTask<Committed> one : commitTogether(transactions)) {
      one.get();
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(0L, 1L, 2L, 3L);
    lake.open().services().log().load().state().validate();
  }

  @Test
  void aFailedLeaderLeavesTheGroupToTheNext() {
    TxnHandle handle = session();
    gate.opened.countDown();
    gate.failures.set(Integer.MAX_VALUE);
    Transaction hopeless = begin(handle);
    append(handle.catalog(() -> hopeless).loadTable(id("shop.a")), 1);
    assertThatThrownBy(hopeless::commit) // "lost", and yet the head has not moved
        .isInstanceOfSatisfying(
            TxnException.class,
            x -> assertThat(x.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    gate.failures.set(0);
    Transaction next = begin(handle);
    append(handle.catalog(() -> next).loadTable(id("shop.a")), 2);
    next.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }
}
