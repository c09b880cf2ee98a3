package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.security.AccessControlException;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.sqlite.SQLiteErrorCode;
import org.sqlite.SQLiteException;

/**
 * A storage that fails in the swap is no unknown outcome, and is given time (docs/spec.md 11.1).
 */
@Timeout(120)
class FullDiskTest extends TwoTables {
  private static final int EVER = 1_000;

  private final Pauses pauses = new Pauses();
  private HookedOperations.Hook swap;
  private TxnHandle full;

  /** A clock that notes pauses in place of making them, and is moved by them. */
  private static final class Pauses implements TxnClock {
    private long sleptMs;

    @Override
    public long nowMs() {
      return TxnClock.system().nowMs() + sleptMs;
    }

    @Override
    public String newTxnId() {
      return TxnClock.system().newTxnId();
    }

    @Override
    public void backOff(long maxMs) {
      sleptMs += maxMs;
    }
  }

  @BeforeEach
  void openOnTheDisk() {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            TableOperations real = super.newTableOps(identifier);
            return identifier.equals(id("txns.commits"))
                ? new HookedOperations(
                    real,
                    (ops, base, next) -> {
                      HookedOperations.Hook hook = swap;
                      if (hook == null) {
                        ops.commit(base, next);
                      } else {
                        hook.commit(ops, base, next);
                      }
                    })
                : real;
          }
        };
    Map<String, String> options = new HashMap<>(lake.options());
    options.put(CatalogProperties.FILE_IO_IMPL, FullDiskIO.class.getName());
    catalog.initialize("lake", options);
    full = TxnHandle.open("lake", catalog, TxnConfig.from(Map.of("txns.apply", "next")), pauses);
  }

  @AfterEach
  void free() {
    FullDiskIO.failing(0);
  }

  private Transaction appending(BeginOptions options, long row) {
    Transaction txn = full.begin(options);
    append(full.catalog(() -> txn).loadTable(id("shop.a")), row);
    return txn;
  }

  /** The storage's own error is told, what was staged stays, and nothing is left to settle. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aFullDiskIsNoOutcome(boolean withId) {
    BeginOptions options = BeginOptions.defaults();
    Transaction txn = appending(withId ? options.withId("nightly") : options, 2);
    FullDiskIO.failing(EVER);
    long before = pauses.sleptMs;
    assertThatThrownBy(txn::commit)
        .isNotInstanceOf(TxnException.class)
        .hasStackTraceContaining("No space left");
    assertThat(pauses.sleptMs - before).isBetween(28_000L, 34_000L);
    FullDiskIO.failing(0);
    txn.commit();
    assertThat(ids(ours.loadTable(id("shop.a")))).containsExactly(1L, 2L);
  }

  @Test
  void aTransactionThatMetAFullDiskCanBeRolledBack() throws IOException {
    Set<Path> before = files();
    Transaction txn = appending(BeginOptions.defaults(), 2);
    FullDiskIO.failing(EVER);
    assertThatThrownBy(txn::commit).hasStackTraceContaining("No space left");
    assertThatCode(txn::rollback).doesNotThrowAnyException();
    assertThat(files()).isEqualTo(before);
  }

  /** Its commit is won, after pauses that grow. */
  @Test
  void aDiskThatIsFreedInTime() {
    Transaction txn = appending(BeginOptions.defaults(), 2);
    FullDiskIO.failing(12);
    long before = pauses.sleptMs;
    txn.commit();
    assertThat(pauses.sleptMs - before).isEqualTo(10 * 255 + 4 * 2_000);
    assertThat(ids(ours.loadTable(id("shop.a")))).containsExactly(1L, 2L);
  }

  /** An attempt that was sent is not taken back by a later one that was not. */
  @Test
  void whatMayLandStaysUnknownOnAFullDisk() {
    Transaction txn = appending(BeginOptions.defaults(), 2);
    swap =
        (real, base, next) -> {
          swap = null;
          FullDiskIO.failing(EVER);
          throw new ServiceFailureException("no answer");
        };
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
  }

  static Stream<IOException> denials() {
    return Stream.of(
        new AccessDeniedException("not yours"),
        new AccessControlException("Permission denied: user=guest, access=WRITE, not yours"),
        new IOException(
            "cannot close",
            new IllegalStateException(
                "not yours (Service: S3, Status Code: 403, Request ID: 7, SDK Attempt Count: 1)")),
        new IOException(
            "cannot close",
            new IllegalStateException(
                "not yours to create", new IOException("403 Forbidden\nPOST https://store/lake"))),
        new IOException("Status code 403, \"AuthorizationPermissionMismatch: not yours\""));
  }

  /** No time helps there: on a local disk, on HDFS, and in an object store. */
  @ParameterizedTest
  @MethodSource("denials")
  void whoMayNotWriteIsToldAtOnce(IOException denied) {
    Transaction txn = appending(BeginOptions.defaults(), 2);
    FullDiskIO.failing(EVER + 1, () -> denied);
    assertThatThrownBy(txn::commit).hasStackTraceContaining("not yours");
    assertThat(FullDiskIO.FAILURES.get()).isEqualTo(EVER);
    assertThatCode(txn::rollback).doesNotThrowAnyException();
  }

  @Test
  void aTidyOnAFullDiskLeavesNoFiles() throws IOException {
    Set<Path> before = files();
    FullDiskIO.failing(1);
    assertThat(full.tidy()).isZero();
    assertThat(files()).isEqualTo(before);
    assertThat(full.tidy()).isPositive();
  }

  /** Who loses races tries again at once; who is not answered leaves the catalog time. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void pausesGrowWhereNothingIsAnswered(boolean isAnswered) {
    Transaction txn = appending(BeginOptions.defaults(), 2);
    swap =
        (real, base, next) -> {
          throw isAnswered
              ? new CommitFailedException("lost")
              : new ServiceFailureException("no answer");
        };
    long before = pauses.sleptMs;
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    long sleptMs = pauses.sleptMs - before;
    assertThat(sleptMs).isBetween(isAnswered ? 0L : 28_000L, isAnswered ? 500L : 34_000L);
  }

  /**
   * Manifests and their lists: a full disk leaves metadata files, and data files are an engine's.
   */
  private Set<Path> files() {
    return lake.filesBelow("").stream()
        .filter(path -> path.toString().endsWith(".avro"))
        .collect(Collectors.toSet());
  }

  /** What it says it has no room for has not landed: that is told, and nothing is to settle. */
  @ParameterizedTest
  @ValueSource(strings = {"postgresql", "sqlite"})
  void aDatabaseWithoutRoomIsNoOutcome(String database) throws IOException {
    full =
        TxnHandle.open(
            "lake",
            HookedDriver.catalog(lake),
            TxnConfig.from(Map.of("txns.apply", "next")),
            pauses);
    Transaction txn = appending(BeginOptions.defaults(), 2);
    HookedDriver.hook(
        update -> {
          throw database.equals("sqlite")
              ? new SQLiteException("[SQLITE_FULL] no room", SQLiteErrorCode.SQLITE_FULL)
              : new SQLException("no room to extend the file", "53100");
        });
    assertThatThrownBy(txn::commit)
        .isNotInstanceOf(TxnException.class)
        .hasStackTraceContaining("no room");
    txn.rollback();
    assertThat(ids(ours.loadTable(id("shop.a")))).containsExactly(1L);
  }
}
