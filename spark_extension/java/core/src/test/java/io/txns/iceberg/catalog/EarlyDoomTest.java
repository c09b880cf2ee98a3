package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ServiceUnavailableException;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A transaction that has lost learns it at its next statement (docs/isolation.md). */
@Timeout(60)
class EarlyDoomTest {
  private static final String READ = "shop.read";
  private static final String WRITTEN = "shop.written";
  private static final String THIRD = "shop.third";

  @TempDir Path folder;
  private MovedClock clock = new MovedClock();
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
    for (String name : new String[] {READ, WRITTEN}) {
      Days.create(lake, name, Map.of("format-version", "2"));
      handle.register(id(name));
    }
    lake.create(handle, THIRD);
  }

  private Transaction begin() {
    return handle.begin(BeginOptions.defaults().withToldEarly(true));
  }

  private Table load(Transaction txn, String name) {
    return handle.catalog(() -> txn).loadTable(id(name));
  }

  private Table loadForWrite(Transaction txn, String name) {
    return handle.catalog(() -> txn).loadTableForWrite(id(name));
  }

  private static void scan(Table table, Expression filter) {
    try (CloseableIterable<FileScanTask> tasks = table.newScan().filter(filter).planFiles()) {
      tasks.forEach(task -> {});
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** One that has read day 1 of a table, and has written another one. */
  private Transaction begun() {
    Transaction txn = begin();
    scan(load(txn, READ), day(1));
    append(load(txn, WRITTEN), 1);
    return txn;
  }

  private static void append(Table table, long day) {
    table.newAppend().appendFile(file(table, day, 100)).commit();
  }

  /** Somebody else writes a day of the table that was read. */
  private static void write(TxnHandle by, long day) {
    append(by.catalog(() -> null).loadTable(id(READ)), day);
  }

  private static TxnException refused(ThrowingCallable statement) {
    TxnException found = catchThrowableOfType(TxnException.class, statement);
    assertThat(found).isNotNull();
    assertThat(found.sqlState()).isEqualTo("40001");
    return found;
  }

  /** From now on time passes by {@code clock.aheadMs} alone. */
  private void stop() {
    long atMs = clock.elapsedMs();
    clock =
        new MovedClock() {
          @Override
          public long elapsedMs() {
            return atMs + aheadMs;
          }
        };
    handle = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
  }

  @Test
  void whoHasLostLearnsItWhenItLoadsATable() {
    Transaction txn = begun();
    write(handle, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    assertThat(refused(() -> load(txn, THIRD)))
        .hasMessageContaining("a table that it read was written");
    refused(() -> loadForWrite(txn, THIRD));
    refused(() -> handle.catalog(() -> txn).dropTable(id(THIRD)));
    assertThat(txn.loss()).isPresent();
    assertThat(txn.state()).isEqualTo(Transaction.State.ACTIVE);
    refused(txn::commit);
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
  }

  @Test
  void whoDoesNotAskForItIsToldByItsCommit() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    scan(load(txn, READ), day(1));
    append(load(txn, WRITTEN), 1);
    write(handle, 1);
    clock.aheadMs += EarlyDoom.HEARD_MS;
    load(txn, THIRD);
    refused(txn::commit);
  }

  /** Until it writes: then it is told before the first file. */
  @Test
  void whoOnlyReadsHasNotLost() {
    Transaction txn = begin();
    scan(load(txn, READ), day(1));
    write(handle, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    load(txn, READ);
    refused(() -> loadForWrite(txn, WRITTEN));
  }

  @Test
  void whatMeetsInNoFileIsNoReason() {
    Transaction txn = begun();
    write(handle, 2);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    load(txn, THIRD);
    assertThat(txn.loss()).isEmpty();
    txn.commit();
  }

  @Test
  void whatALevelAllowsIsNoReason() {
    Transaction txn =
        handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT).withToldEarly(true));
    scan(load(txn, READ), day(1));
    append(load(txn, WRITTEN), 1);
    write(handle, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    load(txn, THIRD);
    txn.commit();
  }

  /** What it costs is more than what is lost. */
  @Test
  void shortTransactionsDoNotLook() {
    stop();
    Transaction txn = begun();
    write(handle, 1);
    load(txn, THIRD);
    refused(txn::commit);
  }

  /** The catalog is not asked at each statement; what this process has heard needs no question. */
  @Test
  void whatOthersCommitIsFoundAfterASecond() {
    stop();
    TxnHandle process = lake.open();
    Transaction txn = begun();
    write(process, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    load(txn, THIRD);
    clock.aheadMs += EarlyDoom.HEARD_MS;
    refused(() -> load(txn, THIRD));
  }

  @Test
  void whatAnotherBeginHasSeenIsHeard() {
    TxnHandle process = lake.open();
    Transaction txn = begun();
    write(process, 1);
    begin();
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    refused(() -> load(txn, THIRD));
  }

  /** It may turn out to touch other days than those that somebody has written. */
  @Test
  void whatAStatementHasYetToSayIsLeftToTheCommit() {
    Transaction txn = begin();
    append(load(txn, WRITTEN), 1);
    Table table = load(txn, READ);
    DataFile old = files(table, day(1)).iterator().next();
    OverwriteFiles overwrite = table.newOverwrite();
    write(handle, 2);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    load(txn, THIRD);
    overwrite.deleteFile(old).addFile(file(table, 1, 11)).conflictDetectionFilter(day(1)).commit();
    txn.commit();
  }

  @Test
  void whoGoesBackToASavepointMayStillCommit() {
    Transaction txn = begin();
    append(load(txn, WRITTEN), 1);
    txn.savepoint("before");
    load(txn, READ).updateProperties().set("a", "b").commit();
    write(handle, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    refused(() -> load(txn, THIRD));
    txn.rollbackTo("before");
    assertThat(txn.loss()).isEmpty();
    load(txn, THIRD);
    txn.commit();
  }

  /** 1. Two tries under one id. 2. One commits. 3. The other goes on: its COMMIT says so. */
  @Test
  void whatAnotherTryUnderItsIdHasCommittedIsNoLoss() {
    BeginOptions nightly = BeginOptions.defaults().withId("nightly").withToldEarly(true);
    Transaction first = handle.begin(nightly);
    Transaction second = handle.begin(nightly);
    for (Transaction one : new Transaction[] {first, second}) {
      scan(load(one, READ), day(1));
      append(load(one, READ), 1);
    }
    long commitTs = first.commit().commitTs();
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    load(second, THIRD);
    assertThat(second.commit().commitTs()).isEqualTo(commitTs);
  }

  /** 1. It has lost. 2. The catalog cannot be reached for a while, when it is to look. */
  @Test
  void aCatalogThatCannotBeReachedIsNoReason() {
    AtomicBoolean reachable = new AtomicBoolean(true);
    handle = TxnHandle.open("lake", asking(() -> answer(reachable)), Lake.INLINE, clock);
    Transaction txn = begun();
    load(txn, THIRD);
    write(lake.open(), 1);
    clock.aheadMs += EarlyDoom.HEARD_MS;
    reachable.set(false);
    load(txn, THIRD);
    assertThat(txn.state()).isEqualTo(Transaction.State.ACTIVE);
    assertThat(txn.loss()).isEmpty();
    reachable.set(true);
    refused(txn::commit);
  }

  private static void answer(AtomicBoolean reachable) {
    if (!reachable.get()) {
      throw new ServiceUnavailableException("no route to host");
    }
  }

  /** A client of the lake's catalog that runs {@code asked} before each answer. */
  private JdbcCatalog asking(Runnable asked) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            return new HookedOperations(super.newTableOps(identifier)) {
              @Override
              public TableMetadata current() {
                return answer(super.current());
              }

              @Override
              public TableMetadata refresh() {
                return answer(super.refresh());
              }

              private TableMetadata answer(TableMetadata answer) {
                asked.run();
                return answer;
              }
            };
          }
        };
    catalog.initialize("lake", lake.options());
    return catalog;
  }

  /** 1. A write runs, and is looked after. 2. The catalog does not answer. 3. The write ends. */
  @Test
  void aWriteDoesNotWaitForWhoLooksAfterIt() throws Exception {
    Slow slow = new Slow("watch");
    handle = TxnHandle.open("lake", asking(slow), Lake.INLINE, clock);
    Transaction txn = begun();
    Table written = load(txn, WRITTEN);
    write(lake.open(), 1);
    clock.aheadMs += EarlyDoom.HEARD_MS;
    Thread watch = new Thread(txn::lossWhileWriting, "watch");
    watch.start();
    slow.asked.await();
    append(written, 2);
    txn.savepoint("s");
    slow.answers.countDown();
    watch.join();
    assertThat(slow.late).as("it has waited").isFalse();
    assertThat(txn.loss()).isPresent();
  }

  /**
   * 1. A write is looked after: a table is loaded for that, slowly. 2. The write ends, and more.
   */
  @Test
  void norForTheTablesThatAreLoadedForIt() throws Exception {
    Slow slow = slowed();
    Transaction txn = begun();
    Table written = load(txn, WRITTEN);
    write(handle, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    Thread watch = watched(txn, slow);
    append(written, 2);
    load(txn, THIRD);
    txn.savepoint("s");
    slow.answers.countDown();
    watch.join();
    assertThat(slow.late).as("it has waited").isFalse();
    assertThat(txn.loss()).isPresent();
    refused(txn::commit);
  }

  /** A catalog that is slow to answer who looks, as nobody asks it for the log meanwhile. */
  private Slow slowed() {
    Slow slow = new Slow("watch");
    stop();
    handle = TxnHandle.open("lake", asking(slow), Lake.INLINE, clock);
    return slow;
  }

  private static Thread watched(Transaction txn, Slow slow) throws InterruptedException {
    Thread watch = new Thread(txn::lossWhileWriting, "watch");
    watch.start();
    assertThat(slow.asked.await(10, TimeUnit.SECONDS)).isTrue();
    return watch;
  }

  /** 1. It has altered what others have written. 2. Somebody looks. 3. It undoes that meanwhile. */
  @Test
  void whatIsUndoneMeanwhileIsNoLoss() throws Exception {
    Slow slow = slowed();
    Transaction txn = begun();
    txn.savepoint("before");
    load(txn, WRITTEN).updateProperties().set("a", "b").commit();
    write(handle, 2);
    append(handle.catalog(() -> null).loadTable(id(WRITTEN)), 2);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    Thread watch = watched(txn, slow);
    txn.rollbackTo("before");
    slow.answers.countDown();
    watch.join();
    assertThat(slow.late).as("it has waited").isFalse();
    assertThat(txn.loss()).isEmpty();
    txn.commit();
  }

  /** 1. Somebody looks, and would find that it has lost. 2. Its commit says so first. */
  @Test
  void whatHasEndedMeanwhileIsNotToldAgain() throws Exception {
    Slow slow = slowed();
    Transaction txn = begun();
    write(handle, 1);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    Thread watch = watched(txn, slow);
    refused(txn::commit);
    slow.answers.countDown();
    watch.join();
    assertThat(slow.late).as("it has waited").isFalse();
    assertThat(txn.loss()).isEmpty();
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
  }

  /** A catalog that lets a thread wait once, for ten seconds at most. */
  private static final class Slow implements Runnable {
    private final String thread;
    private final CountDownLatch asked = new CountDownLatch(1);
    private final CountDownLatch answers = new CountDownLatch(1);
    private volatile boolean late;

    private Slow(String thread) {
      this.thread = thread;
    }

    @Override
    public void run() {
      if (Thread.currentThread().getName().equals(thread) && asked.getCount() > 0) {
        asked.countDown();
        try {
          late |= !answers.await(10, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
          throw new IllegalStateException(e);
        }
      }
    }
  }

  /** 1. It lists the tables. 2. It is about to write one, which comes under care for that. */
  @Test
  void whatComesUnderCareForItIsNoReason() {
    Map<String, String> all = Map.of("txns.register", "all", "txns.apply", "inline");
    handle = TxnHandle.open("lake", lake.catalog(), TxnConfig.from(all), clock);
    Days.create(lake, "shop.plain", Map.of("format-version", "2"));
    Transaction txn = begin();
    handle.catalog(() -> txn).listTables(id(READ).namespace());
    Table plain = loadForWrite(txn, "shop.plain");
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    assertThat(txn.lossWhileWriting()).isEmpty();
    append(plain, 1);
    txn.commit();
  }

  /** It may replace other days than those that somebody has written. */
  @Test
  void whatAnOverwriteHasYetToSayIsLeftToTheCommit() {
    Transaction txn = begin();
    TxnTable table = (TxnTable) load(txn, READ);
    table.noteConditionalWrite(txn);
    write(handle, 2);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    assertThat(txn.lossWhileWriting()).isEmpty();
    table.newReplacePartitions().addFile(file(table, 1, 11)).commit();
    txn.commit();
  }

  @Test
  void aLookThatFailsFailsNothing() {
    EarlyDoom doom = new EarlyDoom(handle.services().log(), handle.services().loop(), clock);
    clock.aheadMs += EarlyDoom.PAUSE_MS;
    assertThat(doom.isDue()).isTrue();
    doom.look(
        head -> {
          clock.aheadMs += 1_000;
          throw new UncheckedIOException(new IOException("the storage does not answer"));
        });
    clock.aheadMs += 9_000;
    assertThat(doom.isDue()).as("a tenth of its time").isFalse();
    clock.aheadMs += 60_000;
    assertThat(doom.isDue()).isTrue();
    assertThatThrownBy(() -> doom.look(head -> refuse())).isInstanceOf(TxnException.class);
  }

  private static void refuse() {
    throw TxnException.rehearsed("t", "an option", 0);
  }
}
