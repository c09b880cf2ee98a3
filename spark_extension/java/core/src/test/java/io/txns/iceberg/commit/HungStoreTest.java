package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.net.SocketTimeoutException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.LongStream;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.Table;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A store whose calls hang: they end by their time-outs, and who writes other tables goes on all
 * the while; as integration_tests has it of Python.
 */
@Tag("slow") // Iceberg repeats a load whose metadata file hangs for a minute and a half
@Timeout(300)
class HungStoreTest extends TwoTables {
  private final MovedClock clock = new MovedClock();
  private TxnHandle far;

  @BeforeEach
  void openOnTheStore() {
    far = onTheStore();
  }

  @AfterEach
  void goOn() {
    HungStoreIO.goOn();
  }

  private TxnHandle onTheStore() {
    JdbcCatalog catalog = new JdbcCatalog();
    Map<String, String> options = new HashMap<>(lake.options());
    options.put(CatalogProperties.FILE_IO_IMPL, HungStoreIO.class.getName());
    catalog.initialize("lake", options);
    return TxnHandle.open("lake", catalog, Lake.INLINE, clock);
  }

  private Table farTable() {
    return far.catalog(() -> null).loadTable(id("shop.b"));
  }

  /** They share the log, and a client of the catalog. */
  @Test
  void whoWritesOtherTablesGoesOn() {
    append(farTable(), 1);
    HungStoreIO.stop("/shop/b/");
    AtomicBoolean told = new AtomicBoolean();
    CompletableFuture<Void> writer =
        CompletableFuture.runAsync(
            () -> {
              assertThatThrownBy(() -> append(farTable(), 2))
                  .hasRootCauseInstanceOf(SocketTimeoutException.class);
              told.set(true);
            });
    int committed = 0;
    while (!told.get() || committed < 3) {
      append(far.catalog(() -> null).loadTable(id("shop.a")), 10 + committed++);
    }
    writer.join();
    assertThat(ids(far.catalog(() -> null).loadTable(id("shop.a"))))
        .hasSize(1 + committed)
        .doesNotHaveDuplicates();
    HungStoreIO.goOn();
    append(farTable(), 3);
    assertThat(lake.plainIds("shop.b")).containsExactly(1L, 3L);
  }

  /** What is logged is committed: who comes by when the store goes on carries it over. */
  @Test
  void aTableThatHangsIsAppliedLater() {
    Transaction txn = far.begin(BeginOptions.defaults());
    append(far.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(far.catalog(() -> txn).loadTable(id("shop.b")), 3);
    HungStoreIO.stop("/shop/b/");
    assertThat(txn.commit().applied()).isFalse();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).isEmpty();
    HungStoreIO.goOn();
    assertThat(lake.txnIds("shop.b")).containsExactly(3L);
    while (far.apply() != 0) { // whose load hangs comes to its end first
      Lake.CLOCK.backOff(100);
    }
    assertThat(lake.plainIds("shop.b")).containsExactly(3L);
  }

  /** That of the log: nothing is asked of the catalog before its new metadata file is there. */
  @Test
  void aLogWhoseStoreHangsIsNoUnknownOutcome() {
    Transaction txn = far.begin(BeginOptions.defaults());
    append(far.catalog(() -> txn).loadTable(id("shop.a")), 2);
    HungStoreIO.stop("/txns/commits/metadata/");
    CompletableFuture<Void> passing =
        CompletableFuture.runAsync(
            () ->
                LongStream.range(0, 100)
                    .forEach(
                        each -> {
                          Lake.CLOCK.backOff(10);
                          clock.aheadMs += 1_000; // or this test would wait
                        }));
    assertThatThrownBy(txn::commit)
        .isNotInstanceOf(TxnException.class)
        .hasRootCauseInstanceOf(SocketTimeoutException.class);
    passing.join();
    HungStoreIO.goOn();
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }
}
