package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.Ready;
import io.txns.iceberg.meta.Rows;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What is written before the rows are locked, and what comes between (docs/spec.md 11.3). */
@Timeout(120)
class AheadTest extends TwoTables {
  private static final TableIdentifier A = id("shop.a");
  private static final TableIdentifier B = id("shop.b");

  private final List<Path> ahead = Collections.synchronizedList(new ArrayList<>());
  private final List<Path> locked = Collections.synchronizedList(new ArrayList<>());
  private TxnHandle atomic;
  private volatile boolean isLocked;

  @BeforeEach
  void openAtomic() {
    atomic =
        HookedDriver.atomic(
            lake, Map.of(CatalogProperties.FILE_IO_IMPL, HookedFiles.class.getName()));
    appending(9, A, B).commit(); // a catalog looks once how it reaches files
    HookedFiles.hook = path -> note(path(path));
    HookedDriver.hookBegin(this::begun);
    HookedDriver.hookCommit(this::committed);
  }

  @AfterEach
  void forget() {
    HookedFiles.hook = path -> {};
  }

  private int begun(HookedDriver.Update begin) throws SQLException {
    begin.run();
    isLocked = true;
    return 0;
  }

  private int committed(HookedDriver.Update commit) throws SQLException {
    isLocked = false;
    return commit.run();
  }

  /** Metadata that is written before the rows of its table are locked; all that is afterwards. */
  private void note(Path path) {
    if (isLocked) {
      locked.add(path);
    } else if (path.toString().endsWith(".metadata.json")) {
      ahead.add(path);
    }
  }

  /** Let something happen once between what is written ahead and the lock. */
  private void meanwhile(Runnable deed) {
    HookedDriver.hookBegin(
        begin -> {
          HookedDriver.hookBegin(this::begun);
          deed.run();
          return begun(begin);
        });
  }

  private Transaction appending(long row, TableIdentifier... tables) {
    return appending(atomic, row, tables);
  }

  private static Transaction appending(TxnHandle handle, long row, TableIdentifier... tables) {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    for (TableIdentifier table : tables) {
      append(handle.catalog(() -> txn).loadTable(table), row);
    }
    return txn;
  }

  private List<Boolean> bornLast() {
    List<Entry> standing = Lake.standing(handle);
    return standing.get(standing.size() - 1).changes().stream().map(Change::bornApplied).toList();
  }

  private TableMetadata stored(TableIdentifier table) {
    return ((BaseTable) outside.loadTable(table)).operations().refresh();
  }

  private Path at(TableIdentifier table) {
    return path(stored(table).metadataFileLocation());
  }

  private static Path path(String location) {
    return Path.of(location.replaceFirst("^file:", ""));
  }

  private static List<Path> ofTables(List<Path> paths) {
    return paths.stream().filter(path -> !path.toString().contains("/txns/")).toList();
  }

  private Set<Path> metadataFiles() {
    List<Path> files = ofTables(lake.filesBelow(""));
    return files.stream()
        .filter(path -> path.toString().endsWith(".metadata.json"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** The metadata files that the rows of tables lead to. */
  private Set<Path> named() {
    Set<Path> named = new TreeSet<>();
    for (TableIdentifier table : List.of(A, B)) {
      named.add(at(table));
      stored(table).previousFiles().forEach(file -> named.add(path(file.file())));
    }
    return named;
  }

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
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch opened = new CountDownLatch(1);
    meanwhile(
        () -> {
          begun.countDown();
          await(opened);
        });
    List<FutureTask<Committed>> done = new ArrayList<>();
    start(before, done);
    await(begun);
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

  /** As Spark does where a job is cancelled; nobody has attempted anything for it. */
  @Test
  void whoIsInterruptedWhileItWaitsLeavesNothing() throws Exception {
    Transaction waiting = appending(2, A, B);
    Transaction before = appending(3, B);
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch opened = new CountDownLatch(1);
    meanwhile(
        () -> {
          begun.countDown();
          await(opened);
        });
    List<FutureTask<Committed>> done = new ArrayList<>();
    start(before, done);
    await(begun);
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

  private static Thread start(Transaction txn, List<FutureTask<Committed>> done) {
    FutureTask<Committed> task = new FutureTask<>(txn::commit);
    done.add(task);
    Thread thread = new Thread(task);
    thread.start();
    return thread;
  }

  private static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
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
