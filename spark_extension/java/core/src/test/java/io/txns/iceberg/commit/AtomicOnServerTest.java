package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Locks of rows, and limits of time, as a PostgreSQL has them (docs/spec.md 11.3). */
@Timeout(180)
@EnabledIfSystemProperty(named = "txns.test.jdbc.uri", matches = "jdbc:postgresql:.*")
class AtomicOnServerTest extends AtomicTables {
  private static final long WAITS_MS = 2_000;

  /** The key of `lake` and `txns.commits`. */
  private static final String QUEUE = "-7502411005222971326";

  private Connection connected() throws SQLException {
    return DriverManager.getConnection(lake.options().get("uri"));
  }

  /** As a backup, or a person's session, does. */
  @Test
  void aRowThatSomebodyElseHoldsIsWaitedFor() throws Exception {
    TxnHandle atomic = lake.atomic();
    Transaction txn = appending(atomic, 2, A, B);
    CompletableFuture<Committed> committing;
    try (Connection other = connected();
        Statement statement = other.createStatement()) {
      other.setAutoCommit(false);
      statement.execute("SELECT * FROM iceberg_tables WHERE table_name = 'b' FOR UPDATE");
      committing = CompletableFuture.supplyAsync(txn::commit);
      Thread.sleep(WAITS_MS);
      assertThat(committing).isNotDone();
      assertThat(lake.plainIds("shop.a")).containsExactly(1L);
      other.rollback();
    }
    assertThat(committing.get(60, TimeUnit.SECONDS).applied()).isTrue();
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
  }

  /** As a fail-over, or an administrator, ends it: nothing was sent on it. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT * FROM iceberg_tables WHERE table_name = 'a' FOR UPDATE",
        "SELECT pg_advisory_xact_lock(%s)"
      })
  void aConnectionThatIsLostAsItWaitsLosesAnAttempt(String held) throws Exception {
    TxnHandle atomic = lake.atomic();
    appending(atomic, 2, A).commit(); // no fresh connection takes the place of the one that is kept
    Transaction txn = appending(atomic, 3, A, B);
    CompletableFuture<Committed> committing;
    try (Connection other = connected();
        Statement statement = other.createStatement()) {
      other.setAutoCommit(false);
      statement.execute(String.format(held, QUEUE));
      committing = CompletableFuture.supplyAsync(txn::commit);
      for (int cut = 0; cut < 2; cut++) {
        while (!isCut()) {
          Thread.sleep(50);
        }
      }
      other.rollback();
    }
    assertThat(committing.get(60, TimeUnit.SECONDS).applied()).isTrue();
    assertThat(lake.plainIds("shop.b")).containsExactly(3L);
  }

  /** Ends the session of somebody who waits for a lock, if anybody does. */
  private boolean isCut() throws SQLException {
    try (Connection other = connected();
        Statement statement = other.createStatement();
        ResultSet cut =
            statement.executeQuery(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    + " WHERE wait_event_type = 'Lock'"
                    + " AND datname = current_database()")) {
      return cut.next();
    }
  }

  /** Nothing rests on it. */
  @Test
  void whoMayNotWaitInTheQueueGoesWithout() throws SQLException {
    run(
        "CREATE ROLE poor LOGIN",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO poor",
        "REVOKE EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) FROM PUBLIC");
    try {
      String uri = lake.options().get("uri").replaceFirst("user=[^&]*", "user=poor");
      TxnHandle poor = lake.atomic(Map.of(CatalogProperties.URI, uri));
      assertThat(appending(poor, 2, A).commit().applied()).isTrue();
      assertThat(appending(poor, 3, A).commit().applied()).isTrue();
    } finally {
      run(
          "GRANT EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) TO PUBLIC",
          "DROP OWNED BY poor",
          "DROP ROLE poor");
    }
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** Anybody who may connect can take that lock, whatever rights he has on the tables. */
  @Test
  void whoHoldsTheQueueForEverKeepsNobodyOut() throws SQLException {
    Transaction txn = appending(lake.atomic(), 2, A);
    try (Connection other = connected();
        Statement statement = other.createStatement()) {
      statement.execute("SELECT pg_advisory_lock(" + QUEUE + ")");
      assertThat(txn.commit().applied()).isTrue();
    }
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** The index keeps the new row out, and nothing has landed: a conflict, no unknown outcome. */
  @Test
  void aNameThatIsTakenWhileTheRowsStandStill() throws Exception {
    TxnHandle atomic = lake.atomic();
    Transaction txn = appending(atomic, 2, A);
    append(atomic.catalog(() -> txn).createTable(id("shop.new"), Lake.SCHEMA), 1);
    CompletableFuture<Committed> committing;
    try (Connection other = connected();
        Statement statement = other.createStatement()) {
      other.setAutoCommit(false);
      statement.executeUpdate(
          "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name,"
              + " metadata_location, iceberg_type) SELECT catalog_name, table_namespace, 'new',"
              + " metadata_location, iceberg_type FROM iceberg_tables WHERE table_name = 'b'");
      committing = CompletableFuture.supplyAsync(txn::commit);
      Thread.sleep(WAITS_MS);
      assertThat(committing).isNotDone();
      other.commit();
    }
    assertThatThrownBy(() -> committing.get(60, TimeUnit.SECONDS))
        .cause()
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining("another table of that name");
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** They lock rows in one order, whatever order they have written them in. */
  @Test
  void writersInAnyOrderDoNotWaitForEachOther() throws Exception {
    TxnHandle one = lake.atomic();
    TxnHandle two = lake.atomic();
    List<CompletableFuture<Void>> all =
        List.of(
            CompletableFuture.runAsync(() -> commitAll(one, 100, A, B)),
            CompletableFuture.runAsync(() -> commitAll(two, 200, B, A)));
    for (CompletableFuture<Void> each : all) {
      each.get(120, TimeUnit.SECONDS);
    }
    assertThat(lake.plainIds("shop.b")).hasSize(20);
  }

  private static void commitAll(TxnHandle handle, long first, TableIdentifier... tables) {
    for (int row = 0; row < 10; row++) {
      appending(handle, first + row, tables).commit();
    }
  }

  /** Who says nothing for too long is ended: nothing was done, and it is done again. */
  @Test
  void whoStandsStillUnderTheLockIsEnded() {
    TxnHandle slow = HookedDriver.atomic(lake);
    Transaction txn = appending(slow, 2, A, B);
    List<Integer> updates = new ArrayList<>();
    HookedDriver.hook(
        update -> {
          updates.add(1);
          if (updates.size() == 1) {
            sleep(9_500);
          }
          return update.run();
        });
    txn.commit();
    assertThat(updates.size()).isEqualTo(2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
  }

  /**
   * Who needs longer than that and is at work is not: what was written before the rows are locked
   * does not stand, and is written again.
   */
  @Test
  void aSlowStorageIsGivenTime() {
    TxnHandle slow =
        lake.atomic(Map.of(CatalogProperties.FILE_IO_IMPL, SlowFilesIO.class.getName()));
    Transaction txn = appending(slow, 2, A, B);
    for (TableIdentifier table : List.of(A, B)) {
      outside.loadTable(table).updateProperties().set("owner", "somebody").commit();
    }
    SlowFilesIO.slow = ".metadata.json";
    long beganMs = System.currentTimeMillis();
    try {
      txn.commit();
    } finally {
      SlowFilesIO.slow = null;
    }
    assertThat(System.currentTimeMillis() - beganMs).isBetween(22_000L, 31_000L); // 5 files, once
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
  }

  /** Nor is who puts appends on newer tables, with the log's row alone. */
  @Test
  void aSlowStorageIsGivenTimeWhereTablesMoveAlone() {
    Map<String, String> options = new TreeMap<>(lake.options());
    options.put(CatalogProperties.FILE_IO_IMPL, SlowFilesIO.class.getName());
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "inline"));
    TxnHandle slow = TxnHandle.open("lake", options, catalog, () -> config, Lake.CLOCK);
    Transaction txn = appending(slow, 2, A, B);
    appending(lake.open(), 3, A, B).commit();
    SlowFilesIO.slow = "/snap-";
    long beganMs = System.currentTimeMillis();
    try {
      txn.commit();
    } finally {
      SlowFilesIO.slow = null;
    }
    assertThat(System.currentTimeMillis() - beganMs).isBetween(9_000L, 17_000L); // once
    assertThat(lake.plainIds("shop.b")).containsExactlyInAnyOrder(2L, 3L);
  }

  /**
   * It is committed, as changes of tables are whose rows one may not write, and so is what else the
   * transaction has written: a database that has refused something goes on where one goes back.
   */
  @ParameterizedTest
  @ValueSource(strings = {"SELECT, UPDATE", "SELECT, UPDATE, INSERT"})
  void aTableThatOneMayNotCreateIsLeftToOthers(String rights) throws SQLException {
    run(
        "CREATE ROLE writer LOGIN",
        "GRANT SELECT ON iceberg_namespace_properties TO writer",
        "GRANT " + rights + " ON iceberg_tables TO writer",
        "ALTER TABLE iceberg_tables ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY reads ON iceberg_tables FOR SELECT USING (true)",
        "CREATE POLICY writes ON iceberg_tables FOR UPDATE TO writer USING (true)");
    try {
      String uri = lake.options().get("uri").replaceFirst("user=[^&]*", "user=writer");
      TxnHandle writer = lake.atomic(Map.of(CatalogProperties.URI, uri));
      Transaction txn = appending(writer, 2, A);
      append(writer.catalog(() -> txn).createTable(id("shop.new"), Lake.SCHEMA), 7);
      assertThat(txn.commit().applied()).isFalse();
      assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
      assertThat(outside.tableExists(id("shop.new"))).isFalse();
      assertThat(lake.txnIds("shop.new")).containsExactly(7L);
      handle.apply();
      assertThat(lake.plainIds("shop.new")).containsExactly(7L);
    } finally {
      run(
          "ALTER TABLE iceberg_tables DISABLE ROW LEVEL SECURITY",
          "DROP POLICY reads ON iceberg_tables",
          "DROP OWNED BY writer",
          "DROP ROLE writer");
    }
  }

  private void run(String... statements) throws SQLException {
    try (Connection other = connected();
        Statement statement = other.createStatement()) {
      for (String each : statements) {
        statement.execute(each);
      }
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Nor is there any when who commits was interrupted, as Spark does where a job is cancelled. */
  @Test
  void noConnectionIsLeftInATransaction() throws Exception {
    TxnHandle stopped = HookedDriver.atomic(lake);
    Transaction txn = appending(stopped, 2, A, B);
    HookedDriver.hook(
        update -> {
          Thread.currentThread().interrupt();
          throw new IllegalStateException("stopped");
        });
    try {
      txn.commit();
    } catch (RuntimeException e) {
      assertThat(e).hasMessageNotContaining("committed at");
    } finally {
      Thread.interrupted();
    }
    try (Connection other = connected();
        Statement statement = other.createStatement();
        ResultSet begun =
            statement.executeQuery(
                "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")) {
      assertThat(begun.next()).isTrue();
      assertThat(begun.getInt(1)).isZero();
    }
    HookedDriver.hook(HookedDriver.Update::run);
    appending(stopped, 3, A, B).commit();
    assertThat(lake.plainIds("shop.b")).contains(3L);
  }
}
