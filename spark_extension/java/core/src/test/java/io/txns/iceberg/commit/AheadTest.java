package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.iceberg.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What is written before the rows are locked, and what comes between (docs/spec.md 11.3). */
@Timeout(120)
class AheadTest extends WritesAhead {
  @Test
  void nothingOfTheTablesIsWrittenUnderTheLock() {
    Transaction txn = appending(2, A);
    Lake.overwrite(atomic.catalog(() -> txn).loadTableForWrite(B), 2);
    txn.commit();
    assertThat(ahead).containsExactlyInAnyOrder(at(A), at(B));
    assertThat(locked).isNotEmpty();
    assertThat(ofTables(locked)).isEmpty();
    assertThat(bornLast()).containsExactly(true, true);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 9L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(metadataFiles()).isEqualTo(named());
  }

  @Test
  void noneIsAskedForWhatIsWrittenAhead() {
    Transaction txn = appending(2, A, B);
    List<Integer> asked = new ArrayList<>();
    int before = HookedDriver.asked();
    meanwhile(() -> asked.add(HookedDriver.asked() - before));
    txn.commit();
    assertThat(ahead).hasSize(2);
    assertThat(asked).containsExactly(0);
  }

  private enum Moved {
    NOTHING,
    A_TABLE,
    THE_LOG,
    BOTH
  }

  @ParameterizedTest
  @EnumSource
  void whatWasWrittenAheadStandsIfNothingHasMoved(Moved moved) {
    Transaction txn = appending(2, A, B);
    lake.create(handle, "shop.c");
    meanwhile(
        () -> {
          if (moved == Moved.A_TABLE || moved == Moved.BOTH) {
            outside.loadTable(A).updateProperties().set("owner", "somebody").commit();
          }
          if (moved == Moved.THE_LOG || moved == Moved.BOTH) {
            appending(lake.atomic(), 3, id("shop.c")).commit();
          }
        });
    txn.commit();
    assertThat(ahead).hasSize(2);
    List<Path> stand = List.copyOf(ahead).stream().filter(Files::exists).toList();
    List<Path> expected = new ArrayList<>();
    if (moved == Moved.NOTHING) {
      expected.add(at(A));
    }
    if (moved == Moved.NOTHING || moved == Moved.A_TABLE) {
      expected.add(at(B));
    }
    assertThat(stand).containsExactlyInAnyOrderElementsOf(expected);
    assertThat(ofTables(locked)).hasSize(2 - expected.size());
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 9L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 9L);
    assertThat(bornLast()).containsExactly(true, true);
    Set<Path> left = metadataFiles();
    left.removeIf(path -> path.toString().contains("/c/"));
    assertThat(left).isEqualTo(named());
  }

  /** Of a table that has moved as far as its writer knows. */
  @Test
  void nothingIsWrittenThatIsKnownNotToStand() {
    Transaction txn = appending(2, A, B);
    Set<Path> files = metadataFiles();
    appending(3, A).commit();
    ahead.clear();
    txn.commit();
    assertThat(ahead).containsExactly(at(B));
    assertThat(ofTables(locked)).contains(at(A)).doesNotContain(at(B));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 9L);
    assertThat(metadataFiles()).hasSize(files.size() + 3).isEqualTo(named());
  }

  /** Until one transaction comes through without others. */
  @Test
  void forATableThatOthersWriteFasterNothingIsWrittenAhead() {
    assertThat(namesAhead(2, true)).containsExactlyInAnyOrder("a", "b"); // in vain
    assertThat(namesAhead(4, true)).containsExactly("b");
    assertThat(namesAhead(6, false)).containsExactly("b");
    assertThat(namesAhead(7, false)).containsExactlyInAnyOrder("a", "b");
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 4L, 5L, 6L, 7L, 9L);
  }

  /** For which tables something was written ahead, of which others write the first meanwhile. */
  private Set<String> namesAhead(long row, boolean disturbed) {
    Transaction txn = appending(row, A, B);
    ahead.clear();
    if (disturbed) {
      meanwhile(() -> appending(lake.atomic(), row + 1, A).commit());
    }
    txn.commit();
    return ofTables(ahead).stream()
        .map(path -> path.getParent().getParent().getFileName().toString())
        .collect(Collectors.toSet());
  }

  @Test
  void whatIsRefusedLeavesNothing() {
    Transaction txn = atomic.begin(BeginOptions.defaults());
    Lake.overwrite(atomic.catalog(() -> txn).loadTableForWrite(A), 2);
    append(atomic.catalog(() -> txn).loadTable(B), 2);
    meanwhile(() -> appending(lake.atomic(), 3, A).commit());
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(ahead).hasSize(2).noneMatch(Files::exists);
    assertThat(metadataFiles()).isEqualTo(named());
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L, 9L);
  }

  /** Nobody knows whether rows name them. */
  @Test
  void whatMayHaveCommittedStays() {
    Transaction txn = appending(2, A, B);
    HookedDriver.hookCommit(
        commit -> {
          HookedDriver.hookBegin(
              begin -> {
                throw new SQLException("no connection", "08001");
              });
          throw new SQLException("the connection is gone", "08006");
        });
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    assertThat(ahead).hasSize(2).allMatch(Files::exists);
  }

  /** An attempt that was lost takes its files with it; the next one writes its own. */
  @Test
  void aLostAttemptLeavesNothing() {
    Transaction txn = appending(2, A, B);
    HookedDriver.hook(
        update -> {
          HookedDriver.hook(HookedDriver.Update::run);
          return 0;
        });
    txn.commit();
    assertThat(ahead).hasSize(2).noneMatch(Files::exists);
    assertThat(ofTables(locked)).containsExactlyInAnyOrder(at(A), at(B));
    assertThat(metadataFiles()).isEqualTo(named());
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 9L);
  }

  /**
   * The first one's is written ahead, the second one's is laid over it, in one file.
   *
   * <ol>
   *   <li>One holds the lock; two wait in its group, and have written.
   *   <li>One of the two leads both.
   * </ol>
   */
  @Test
  void aTableThatTwoOfAGroupWriteHasItsFileOfBeforeOnceInItsLog() throws Exception {
    List<Transaction> two = List.of(appending(2, A, B), appending(3, A, B));
    lake.create(handle, "shop.c");
    Transaction before = appending(4, id("shop.c"));
    List<FutureTask<Committed>> done = new ArrayList<>();
    CountDownLatch opened = holding(before, done);
    for (Transaction txn : two) {
      Loops.awaitInGroup(start(txn, done));
    }
    opened.countDown();
    for (FutureTask<Committed> each : done) {
      each.get(60, TimeUnit.SECONDS);
    }
    assertThat(ahead).hasSize(5);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 9L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 3L, 9L);
    assertThat(stored(A).previousFiles())
        .extracting(TableMetadata.MetadataLogEntry::file)
        .doesNotHaveDuplicates();
    Set<Path> left = metadataFiles();
    left.removeIf(path -> path.toString().contains("/c/"));
    assertThat(left).isEqualTo(named());
  }

  /** What was staged since, and what was restaged, is not what was written. */
  @Test
  void whatIsCommittedAgainIsWrittenAgain() {
    Transaction txn = appending(2, A);
    HookedDriver.hookBegin(
        begin -> {
          throw new SQLException("permission denied", "42501");
        });
    assertThatThrownBy(txn::commit).hasMessageContaining("permission denied");
    assertThat(ahead).hasSize(1).noneMatch(Files::exists);
    HookedDriver.hookBegin(this::begun);
    append(atomic.catalog(() -> txn).loadTable(A), 3);
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 9L);
    assertThat(ahead).hasSize(2).contains(at(A));
    assertThat(metadataFiles()).isEqualTo(named());
  }
}
