package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Faults around the swap, and writes to the commit table itself. */
@Timeout(120)
class CommitFaultTest {
  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    Lake.leaveApplies(handle);
    lake.create(handle, "shop.a", "shop.b");
  }

  private TxnHandle hooked(HookedOperations.Hook hook, String apply) {
    JdbcCatalog catalog = HookedOperations.catalog(lake, id("txns.commits"), hook);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", apply));
    return TxnHandle.open("lake", lake.options(), catalog, () -> config, Lake.CLOCK);
  }

  /** A session is cancelled while it leads: the others must not fail for it. */
  @Test
  void interruptedLeader() throws Exception {
    AtomicInteger swaps = new AtomicInteger();
    CountDownLatch reached = new CountDownLatch(1);
    CountDownLatch opened = new CountDownLatch(1);
    HookedOperations.Hook hook =
        (real, base, next) -> {
          int swap = swaps.incrementAndGet();
          if (swap == 1) {
            reached.countDown();
            try {
              opened.await();
            } catch (InterruptedException e) {
              throw new IllegalStateException(e);
            }
          }
          if (swap == 2) {
            Thread.currentThread().interrupt(); // Spark cancels the leader's statement
            throw new CommitFailedException("stale");
          }
          real.commit(base, next);
        };
    List<FutureTask<Committed>> tasks = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      TxnHandle session = hooked(hook, "next");
      Transaction txn = session.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
      append(session.catalog(() -> txn).loadTable(id("shop.a")), i);
      FutureTask<Committed> task = new FutureTask<>(txn::commit);
      Thread thread = new Thread(task);
      thread.start();
      if (i == 0) {
        reached.await();
      } else {
        Loops.awaitInGroup(thread);
      }
      tasks.add(task);
      threads.add(thread);
    }
    opened.countDown();
    int failed = 0;
    for (int i = 0; i < 4; i++) {
      try {
        tasks.get(i).get();
      } catch (Exception e) {
        failed++;
      }
    }
    assertThat(failed).isLessThanOrEqualTo(1);
  }

  /** An Error out of the swap says nothing of its outcome. */
  @Test
  void errorFromTheSwapThenRollback() {
    TxnHandle other =
        hooked(
            (real, base, next) -> {
              real.commit(base, next);
              throw new OutOfMemoryError("after the swap");
            },
            "next");
    Transaction txn = other.begin(BeginOptions.defaults());
    append(other.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
    txn.rollback(); // harmless: it has committed
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }

  /** Nobody but the tidier and the commit loop writes the commit table. */
  @Test
  void appendToTheCommitTableThroughOurCatalog() {
    TxnCatalog tables = handle.catalog(() -> null);
    assertThatThrownBy(() -> tables.loadTableForWrite(id("txns.commits")))
        .isInstanceOf(TxnException.class);
    Table commits = tables.loadTable(id("txns.commits"));
    assertThatThrownBy(
            () -> commits.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit())
        .hasMessageContaining("commit table");
    assertThatThrownBy(() -> tables.dropTable(id("txns.commits"), false))
        .hasMessageContaining("commit table");
    assertThat(lake.txnIds("shop.a")).isEmpty();
  }

  /** RENAME that comes between a swap and its apply. */
  @Test
  void renameWithAnOutstandingEntry() {
    AtomicInteger swaps = new AtomicInteger();
    TxnHandle other =
        hooked(
            (real, base, next) -> {
              real.commit(base, next);
              if (swaps.incrementAndGet() == 1) {
                lake.catalog().renameTable(id("shop.a"), id("shop.c")); // after handle.apply
              }
            },
            "inline");
    Transaction txn = other.begin(BeginOptions.defaults());
    append(other.catalog(() -> txn).loadTable(id("shop.a")), 1);
    txn.commit();
    assertThat(lake.txnIds("shop.c")).containsExactly(1L);
    lake.open().apply();
    append(lake.open().catalog(() -> null).loadTable(id("shop.c")), 2);
    lake.open().apply();
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L);
  }
}
