package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a handle counts: transactions by what became of them, and how long their phases take. */
class CommitMetricsTest {
  @TempDir Path folder;
  private final Counted counted = new Counted();
  private final MovedClock clock = new MovedClock();
  private Lake lake;
  private TxnHandle handle;

  /** What the catalog answers to the handle's swaps of the commit table; null for the truth. */
  private HookedOperations.Hook swap;

  /** Counts in memory, as Spark's side does in a registry. */
  private static final class Counted implements TxnMetrics {
    private final Map<Count, Long> counts = new EnumMap<>(Count.class);
    private final Map<Phase, List<Long>> took = new EnumMap<>(Phase.class);

    @Override
    public void count(Count what, long by) {
      counts.merge(what, by, Long::sum);
    }

    @Override
    public void took(Phase phase, long ms) {
      took.computeIfAbsent(phase, each -> new ArrayList<>()).add(ms);
    }

    long of(Count what) {
      return counts.getOrDefault(what, 0L);
    }
  }

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    lake.create(lake.open(), "shop.a", "shop.b");
    handle =
        TxnHandle.open(
            "lake",
            HookedOperations.catalog(
                lake,
                id("txns.commits"),
                (real, base, next) -> {
                  if (swap == null) {
                    real.commit(base, next);
                  } else {
                    swap.commit(real, base, next);
                  }
                }),
            TxnConfig.from(Map.of("txns.tidy-after", "1")),
            clock,
            counted);
  }

  private Transaction begin() {
    return handle.begin(BeginOptions.defaults());
  }

  private void append1(Transaction txn) {
    append(handle.catalog(() -> txn).loadTable(id("shop.a")), 1);
  }

  @Test
  void outcomesAreCounted() {
    Transaction txn = begin();
    append1(txn);
    txn.commit();
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    begin().commit();
    Transaction late = begin();
    overwrite(handle.catalog(() -> late).loadTable(id("shop.a")), 3);
    overwrite(lake.open().catalog(() -> null).loadTable(id("shop.a")), 4);
    assertThatThrownBy(late::commit).hasMessageContaining("lost a race");
    begin().rollback();
    assertThat(counted.of(TxnMetrics.Count.STARTED)).isEqualTo(5);
    assertThat(counted.of(TxnMetrics.Count.COMMITTED)).isEqualTo(3);
    assertThat(counted.of(TxnMetrics.Count.CONFLICTED)).isEqualTo(1);
    assertThat(counted.of(TxnMetrics.Count.RETRIED)).isZero();
    assertThat(counted.of(TxnMetrics.Count.UNKNOWN)).isZero();
  }

  @Test
  void upkeepIsNoTransaction() {
    handle.forget(id("shop.b"));
    handle.tidy();
    assertThat(counted.of(TxnMetrics.Count.STARTED)).isZero();
    assertThat(counted.of(TxnMetrics.Count.COMMITTED)).isZero();
  }

  @Test
  void furtherAttemptsAreCounted() {
    int[] lost = {0};
    swap =
        (real, base, next) -> {
          if (lost[0]++ < 2) {
            throw new CommitFailedException("not now");
          }
          real.commit(base, next);
        };
    Transaction txn = begin();
    append1(txn);
    txn.commit();
    assertThat(counted.of(TxnMetrics.Count.RETRIED)).isEqualTo(2);
    assertThat(counted.took.get(TxnMetrics.Phase.VALIDATE)).hasSize(3);
    assertThat(counted.took.get(TxnMetrics.Phase.SWAP)).hasSize(1);
  }

  @Test
  void anUnknownOutcomeIsCounted() {
    swap =
        (real, base, next) -> {
          clock.aheadMs += 20_000;
          throw new ServiceFailureException("connection reset by peer");
        };
    Transaction txn = begin();
    append1(txn);
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    assertThat(counted.of(TxnMetrics.Count.UNKNOWN)).isEqualTo(1);
    assertThat(counted.of(TxnMetrics.Count.COMMITTED)).isZero();
  }

  @Test
  void phasesAreMeasuredOnTheProtocolsClock() {
    swap =
        (real, base, next) -> {
          clock.aheadMs += 7000;
          real.commit(base, next);
        };
    Transaction txn = begin();
    append1(txn);
    clock.aheadMs += 5000;
    txn.commit();
    assertThat(only(TxnMetrics.Phase.STAGE)).isBetween(5000L, 6999L);
    assertThat(only(TxnMetrics.Phase.SWAP)).isBetween(7000L, 11_999L);
    assertThat(only(TxnMetrics.Phase.TIDY)).isBetween(7000L, 11_999L); // which swaps as well
    assertThat(only(TxnMetrics.Phase.APPLY)).isLessThan(7000L);
  }

  private long only(TxnMetrics.Phase phase) {
    assertThat(counted.took.get(phase)).hasSize(1);
    return counted.took.get(phase).get(0);
  }

  @Test
  void namesAreThoseOfPython() {
    assertThat(TxnMetrics.Count.COMMITTED.metric()).isEqualTo("txns_transactions_committed_total");
    assertThat(TxnMetrics.Phase.SWAP.word()).isEqualTo("swap");
  }
}
