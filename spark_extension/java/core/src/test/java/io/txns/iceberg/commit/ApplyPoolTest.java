package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import java.time.Duration;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.MDC;

/** A table that hangs keeps nobody: neither who waits, nor other tables, nor other clients. */
@Timeout(60)
class ApplyPoolTest extends TwoTables {
  private static final long WAIT_MS = 500;

  private final CountDownLatch answer = new CountDownLatch(1);

  @AfterEach
  void letGo() {
    answer.countDown();
  }

  private boolean hangs() {
    try {
      answer.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return true;
  }

  private static Set<TableIdentifier> tables(int count) {
    return IntStream.range(0, count)
        .mapToObj(number -> id("shop.t" + number))
        .collect(Collectors.toCollection(LinkedHashSet::new));
  }

  @Test
  void whoWaitsGoesOnWithoutATableThatHangs() {
    ApplyPool pool = new ApplyPool(WAIT_MS);
    Set<TableIdentifier> all = tables(9);
    assertThat(pool.left(all, table -> !table.equals(id("shop.t0")) || hangs()))
        .containsExactly(id("shop.t0"));
    assertThat(pool.isHanging()).isTrue();
  }

  @Test
  void whereNothingIsDueNobodyWaits() {
    long began = System.nanoTime();
    assertThat(new ApplyPool().left(Set.of(), table -> false)).isEmpty();
    assertThat(Duration.ofNanos(System.nanoTime() - began)).isLessThan(Duration.ofSeconds(10));
  }

  /** It is begun once; the others have their turn however many hang. */
  @Test
  void whatHangsIsNotBegunAgainUntilItEnds() throws Exception {
    ApplyPool pool = new ApplyPool(WAIT_MS);
    Set<TableIdentifier> four = tables(4);
    assertThat(pool.left(four, table -> hangs())).isEqualTo(four);
    Set<TableIdentifier> begun = ConcurrentHashMap.newKeySet();
    Set<TableIdentifier> six = tables(6);
    assertThat(pool.left(six, begun::add)).isEqualTo(four);
    assertThat(begun).containsExactlyInAnyOrder(id("shop.t4"), id("shop.t5"));
    answer.countDown();
    while (pool.isHanging()) {
      Thread.sleep(Duration.ofMillis(10).toMillis());
    }
    assertThat(pool.left(six, table -> true)).isEmpty();
  }

  /** What takes long and goes on is waited for. */
  @Test
  void manyTablesMayTakeLong() {
    ApplyPool pool = new ApplyPool(WAIT_MS);
    assertThat(
            pool.left(
                tables(20),
                table -> {
                  try {
                    Thread.sleep(WAIT_MS / 3);
                  } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                  }
                  return true;
                }))
        .isEmpty();
  }

  @Test
  void anErrorIsThatTablesAlone() {
    ApplyPool pool = new ApplyPool(WAIT_MS);
    assertThat(
            pool.left(
                tables(3),
                table -> {
                  if (table.equals(id("shop.t1"))) {
                    throw new NoClassDefFoundError("a driver");
                  }
                  return true;
                }))
        .containsExactly(id("shop.t1"));
  }

  /** Some loggers hand on what the work was about in which a thread was made. */
  @Test
  void aThreadSaysNothingOfTheWorkThatItWasMadeFor() {
    ApplyPool pool = new ApplyPool(WAIT_MS);
    LogFields.of("first").in(Phase.APPLY).during(() -> pool.left(tables(1), table -> true));
    Map<String, String> seen = new ConcurrentHashMap<>();
    LogFields.of("second")
        .during(
            () ->
                pool.left(
                    tables(1),
                    table -> {
                      seen.putAll(MDC.getCopyOfContextMap());
                      return true;
                    }));
    assertThat(seen).isEqualTo(Map.of("txn", "second"));
    pool.left(
        tables(1),
        table -> {
          seen.clear();
          seen.putAll(Objects.requireNonNullElse(MDC.getCopyOfContextMap(), Map.of()));
          return true;
        });
    assertThat(seen).isEmpty();
  }

  /** Threads are of the client that they work for, and have what its caller has. */
  @Test
  void aClientHasThreadsOfItsOwn() {
    Set<Thread> ones = new HashSet<>();
    Set<Thread> others = new HashSet<>();
    InheritableThreadLocal<String> identity = new InheritableThreadLocal<>();
    List<String> seen = new java.util.concurrent.CopyOnWriteArrayList<>();
    for (Set<Thread> threads : List.of(ones, others)) {
      identity.set(threads == ones ? "one" : "other");
      new ApplyPool(WAIT_MS)
          .left(
              tables(1), table -> threads.add(Thread.currentThread()) && seen.add(identity.get()));
    }
    assertThat(seen).containsExactly("one", "other");
    assertThat(ones).doesNotContainAnyElementsOf(others).allMatch(Thread::isDaemon);
  }

  /** A real table whose swap is not answered, and another one beside it. */
  @Test
  void aCommitGoesOnWithoutATableThatHangs() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> null).loadTable(id("shop.b")), 3);
    var catalog =
        HookedOperations.catalog(
            lake,
            id("shop.a"),
            (real, base, next) -> {
              hangs();
              real.commit(base, next);
            });
    CommitLog log = handle.services().log();
    DataTables tables = handle.services().tables();
    AllowedPlaces places = handle.services().places();
    Applier applier = new Applier(catalog, log, tables, places, Lake.CLOCK, new ApplyPool(WAIT_MS));
    Head head = log.load();
    assertThat(applier.applyAll(head, Set.of(id("shop.a"), id("shop.b"))))
        .containsExactly(id("shop.a"));
    assertThat(ids(outside.loadTable(id("shop.b")))).containsExactly(3L);
    assertThat(applier.isHanging()).isTrue();
    assertThat(handle.apply()).isZero();
    assertThat(ids(outside.loadTable(id("shop.a")))).containsExactly(1L, 2L);
  }
}
