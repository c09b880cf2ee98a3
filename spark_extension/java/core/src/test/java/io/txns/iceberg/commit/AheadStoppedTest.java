package io.txns.iceberg.commit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.Committed;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.Ready;
import io.txns.iceberg.meta.Rows;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Who is stopped, or fails, while something is written ahead of the lock (docs/spec.md 11.3). */
@Timeout(120)
class AheadStoppedTest extends WritesAhead {
  /** As Spark does where a job is cancelled; nobody has attempted anything for it. */
  @Test
  void whoIsInterruptedWhileItWaitsLeavesNothing() throws Exception {
    Transaction waiting = appending(2, A, B);
    Transaction before = appending(3, B);
    List<FutureTask<Committed>> done = new ArrayList<>();
    CountDownLatch opened = holding(before, done);
    Thread thread = start(waiting, done);
    Loops.awaitInGroup(thread);
    assertThat(ahead).hasSize(3).allMatch(Files::exists);
    thread.interrupt();
    thread.join();
    assertThatThrownBy(() -> done.get(1).get())
        .cause()
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("57014"));
    opened.countDown();
    done.get(0).get(60, TimeUnit.SECONDS);
    assertThat(at(B)).isEqualTo(ahead.get(0)).exists();
    assertThat(ahead.subList(1, 3)).noneMatch(Files::exists);
    assertThat(metadataFiles()).isEqualTo(named());
    assertThat(lake.plainIds("shop.b")).containsExactly(3L, 9L);
  }

  /** The attempt tells what is wrong with it, if it still is. */
  @Test
  void aStorageThatFailsAheadLeavesNothing() {
    Transaction txn = appending(2, A, B);
    HookedFiles.hook =
        path -> {
          note(path(path));
          if (ahead.size() == 2 && locked.isEmpty()) {
            throw new IllegalStateException("no space left");
          }
        };
    txn.commit();
    assertThat(ahead).hasSize(2).noneMatch(Files::exists);
    assertThat(ofTables(locked)).containsExactlyInAnyOrder(at(A), at(B));
    assertThat(metadataFiles()).isEqualTo(named());
  }

  @Test
  void whoIsStoppedWhileItWritesAheadLeavesNothing() {
    Transaction txn = appending(2, A, B);
    Set<Path> before = metadataFiles();
    HookedFiles.hook =
        path -> {
          note(path(path));
          if (ahead.size() == 2) {
            throw new ThreadDeath();
          }
        };
    assertThatThrownBy(txn::commit).isInstanceOf(ThreadDeath.class);
    assertThat(ahead).hasSize(2);
    assertThat(metadataFiles()).isEqualTo(before);
    HookedFiles.hook = path -> {};
    txn.rollback();
    appending(3, A, B).commit();
    assertThat(lake.plainIds("shop.b")).containsExactly(3L, 9L);
  }

  private Rows rows() {
    return atomic.services().rows().get().orElseThrow();
  }

  private Ready ready() {
    TableIdentifier commits = atomic.services().log().identifier();
    try (LockedRows looked = rows().lookedAt(commits, Map.of(A, stored(A)))) {
      TableOperations operations = looked.operations(A);
      TableMetadata base = operations.current();
      operations.commit(
          base, TableMetadata.buildFrom(base).setProperties(Map.of("owner", "somebody")).build());
      return looked.makeReady(Map.of(A, "a change")).get(A);
    }
  }

  private LockedRows lock() {
    return rows().locked(atomic.services().log().identifier(), List.of(A));
  }

  /**
   * A file has one owner.
   *
   * <ol>
   *   <li>What a thread has written ahead is taken by the one that leads its group.
   *   <li>The thread is stopped, and removes what it has written.
   *   <li>The leader moves the rows.
   * </ol>
   */
  @Test
  void whoIsStoppedRemovesNoFileThatAnotherOneMovesARowTo() {
    Path before = at(A);
    Ready written = ready();
    try (LockedRows locked = lock()) {
      assertThat(locked.take(written, "another change")).isFalse();
      assertThat(locked.take(written, "a change")).isTrue();
      written.end();
      assertThatThrownBy(locked::prepare).isInstanceOf(CommitFailedException.class);
    }
    assertThat(path(written.file())).doesNotExist();
    try (LockedRows locked = lock()) {
      assertThat(locked.take(written, "a change")).isFalse();
    }
    assertThat(at(A)).isEqualTo(before);
  }

  @Test
  void aFileThatARowIsMovedToIsNobodyElses() {
    Ready written = ready();
    try (LockedRows locked = lock()) {
      assertThat(locked.take(written, "a change")).isTrue();
      locked.prepare();
      written.end();
      locked.commit();
    }
    assertThat(at(A)).isEqualTo(path(written.file())).exists();
    assertThat(stored(A).properties()).containsEntry("owner", "somebody");
  }

  /** As where one of a group is refused after its change was carried out. */
  @Test
  void whatWasTakenIsGivenBackWithWhatWasSaid() {
    Ready written = ready();
    try (LockedRows locked = lock()) {
      Runnable backToNothing = locked.soFar();
      assertThat(locked.take(written, "a change")).isTrue();
      Runnable backToReady = locked.soFar();
      TableOperations operations = locked.operations(A);
      TableMetadata now = operations.current();
      operations.commit(
          now, TableMetadata.buildFrom(now).setProperties(Map.of("owner", "me")).build());
      backToReady.run();
      assertThat(locked.take(written, "a change")).isFalse(); // once
      backToNothing.run();
      assertThat(locked.operations(A).current().properties()).doesNotContainKey("owner");
      assertThat(locked.take(written, "a change")).isTrue();
      locked.prepare();
      locked.commit();
    }
    assertThat(at(A)).isEqualTo(path(written.file()));
    assertThat(stored(A).properties()).containsEntry("owner", "somebody");
  }
}
