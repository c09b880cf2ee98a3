package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.catalog.Transaction;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Sessions of one process whose commit tables have one uuid, and that are not to share a swap. */
class CopiedLakeTest extends TwoTables {
  private static final int COMMIT_S = 20;

  private final CountDownLatch reached = new CountDownLatch(1);
  private final CountDownLatch opened = new CountDownLatch(1);

  @AfterEach
  void letGo() {
    opened.countDown();
  }

  /** The catalog's database as a backup of it is, with the same commit table in it. */
  private Map<String, String> copied() throws Exception {
    assumeFalse(Lake.isRest(), "what is copied is the database of the JDBC catalog");
    String uri = lake.options().get("uri");
    try (Connection connection = DriverManager.getConnection(uri);
        Statement statement = connection.createStatement()) {
      statement.execute("VACUUM INTO '" + folder.resolve("copy.db") + "'");
    }
    return with("uri", uri.replace("catalog.db", "copy.db"));
  }

  private Map<String, String> with(String key, String value) {
    Map<String, String> options = new TreeMap<>(lake.options());
    options.put(key, value);
    return options;
  }

  private static Catalog client(Map<String, String> options) {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    return catalog;
  }

  private static TxnHandle session(Map<String, String> options, Catalog catalog) {
    return TxnHandle.open("lake", options, catalog, TxnConfig::defaults, Lake.CLOCK);
  }

  /** A session over the lake whose first swap waits to be let go on. */
  private TxnHandle held() {
    AtomicInteger swaps = new AtomicInteger();
    JdbcCatalog catalog =
        HookedOperations.catalog(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              if (swaps.incrementAndGet() == 1) {
                reached.countDown();
                await(opened);
              }
              real.commit(base, next);
            });
    return session(lake.options(), catalog);
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static CompletableFuture<Committed> appended(TxnHandle handle, long row) {
    CompletableFuture<Committed> done = new CompletableFuture<>();
    Transaction transaction =
        handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    append(handle.catalog(() -> transaction).loadTable(id("shop.a")), row);
    new Thread(
            () -> {
              try {
                done.complete(transaction.commit());
              } catch (RuntimeException e) {
                done.completeExceptionally(e);
              }
            })
        .start();
    return done;
  }

  /** Commits a row by another session while the first one is in its swap, which is then made. */
  private void commitBeside(TxnHandle first, TxnHandle second) throws Exception {
    CompletableFuture<Committed> leading = appended(first, 10);
    reached.await();
    appended(second, 20).get(COMMIT_S, TimeUnit.SECONDS);
    opened.countDown();
    leading.get();
  }

  /**
   * A member of the copy that waited behind a leader of the original would be told that it has
   * committed, and its rows would be in the original's log.
   */
  @Test
  void aCopyOfALakeHasALogOfItsOwn() throws Exception {
    Map<String, String> copy = copied();
    commitBeside(held(), session(copy, client(copy)));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 10L);
    TxnCatalog copied = session(copy, client(copy)).catalog(() -> null);
    assertThat(Lake.ids(copied.loadTable(id("shop.a")))).containsExactly(1L, 20L);
  }

  /** What one session may write is not for another to find out. */
  @Test
  void whoAsksWithOtherRightsMakesSwapsOfItsOwn() throws Exception {
    Map<String, String> others = with("token", "another one");
    commitBeside(held(), session(others, lake.catalog()));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 10L, 20L);
  }

  /** Without options nobody knows which catalog a handle stands for. */
  @Test
  void whoSaysNotWhichCatalogItIsSharesWithNobody() throws Exception {
    commitBeside(held(), lake.open());
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 10L, 20L);
  }
}
