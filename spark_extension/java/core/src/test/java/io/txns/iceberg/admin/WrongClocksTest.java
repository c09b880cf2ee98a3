package io.txns.iceberg.admin;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;
import org.apache.iceberg.Table;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Hosts whose clocks are hours and days apart, at once; as integration_tests has it of Python. */
@Timeout(120)
class WrongClocksTest extends TwoTables {
  private static final int EACH = 4;

  private final Map<String, TxnHandle> hosts = new LinkedHashMap<>();

  /** When somebody has begun, and was told that he has committed, by the machine's own clock. */
  private record Told(long begunNs, long toldNs, long commitTs) {}

  private final Queue<Told> told = new ConcurrentLinkedQueue<>();

  @BeforeEach
  void openHosts() {
    Map.of("right", 0L, "fast", 1L, "slow", -1L, "days", 8 * 24L)
        .forEach(
            (name, hours) -> {
              MovedClock clock = new MovedClock(Duration.ofHours(hours).toMillis());
              hosts.put(name, TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock));
            });
  }

  private void commits(String host, long first, int count) {
    TxnHandle on = hosts.get(host);
    for (long row = first; row < first + count; row++) {
      long begunNs = System.nanoTime();
      Transaction txn = on.begin(BeginOptions.defaults());
      append(on.catalog(() -> txn).loadTable(id("shop.a")), row);
      long commitTs = txn.commit().commitTs();
      told.add(new Told(begunNs, System.nanoTime(), commitTs));
    }
  }

  /** They commit in one order: who begins when another one has been told comes after it. */
  @Test
  void hostsThatWriteAtOnceCommitInOneOrder() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(3);
    List<Future<?>> running = new ArrayList<>();
    long first = 100;
    for (String host : List.of("right", "fast", "slow")) {
      long from = first;
      running.add(threads.submit(() -> commits(host, from, EACH)));
      first += 100;
    }
    for (Future<?> each : running) {
      each.get();
    }
    threads.shutdown();
    for (String host : List.of("days", "slow", "right", "fast")) {
      commits(host, first, 1);
      first += 100;
    }
    for (Told before : told) {
      assertThat(told)
          .filteredOn(after -> after.begunNs() > before.toldNs())
          .allMatch(after -> after.commitTs() > before.commitTs());
    }
    assertThat(lake.txnIds("shop.a"))
        .containsExactlyElementsOf(
            LongStream.concat(
                    LongStream.concat(
                        LongStream.of(1),
                        LongStream.of(100, 200, 300)
                            .flatMap(at -> LongStream.range(at, at + EACH))),
                    LongStream.of(400, 500, 600, 700))
                .boxed()
                .toList());
  }

  /**
   * 1. A transaction begins, one commits under an id, a table is dropped. 2. Hosts write whose
   * clocks are right, an hour fast and slow, then 8 days fast. 3. The transaction commits, and the
   * id is known. 4. The drop is as young as it was, and who is wrong is told so.
   */
  @Test
  void nobodyDestroysWhatIsYounger() {
    Transaction open = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> open).loadTable(id("shop.a")), 2);
    Transaction once = handle.begin(BeginOptions.defaults().withId("once"));
    append(handle.catalog(() -> once).loadTable(id("shop.a")), 3);
    once.commit();
    ours.dropTable(id("shop.b"));
    hosts.keySet().forEach(host -> commits(host, 10 + told.size(), 1));
    commits("right", 20, 1);
    open.commit();
    assertThat(handle.begin(BeginOptions.defaults().withId("once")).committed()).isPresent();
    hosts.forEach(
        (name, host) -> {
          boolean right = name.equals("right");
          refused(right ? "0A000" : "58000", () -> host.purge(id("shop.b")));
          Table table = host.catalog(() -> null).loadTable(id("shop.a"));
          long oldest = table.history().get(0).snapshotId();
          if (!right) {
            refused("58000", () -> table.expireSnapshots().expireSnapshotId(oldest).commit());
            assertThat(outside.loadTable(id("shop.a")).snapshot(oldest)).isNotNull();
          }
        });
    assertThat(outside.tableExists(id("shop.b"))).isTrue();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 10L, 11L, 12L, 13L, 20L);
  }

  private static void refused(String sqlState, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo(sqlState));
  }
}
