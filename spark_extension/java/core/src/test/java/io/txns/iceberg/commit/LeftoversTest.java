package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Swap;
import io.txns.iceberg.stage.Leftovers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What an attempt has written and no table can name goes; what one may name stays. */
@Timeout(120)
class LeftoversTest extends TwoTables {
  private HookedOperations.Hook instead;
  private TxnHandle late;

  /** A catalog that does something else with the next swap of the commit table. */
  @BeforeEach
  void openLate() {
    late =
        HookedOperations.open(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              HookedOperations.Hook hook = instead;
              instead = null;
              if (hook == null) {
                real.commit(base, next);
              } else {
                hook.commit(real, base, next);
              }
            },
            Lake.CLOCK);
  }

  private void write(long value) {
    append(late.catalog(() -> null).loadTable(id("shop.a")), value);
  }

  /** Append an entry past the group of this process, which waits for the swap that is hooked. */
  private void log(EntryKind kind) {
    CommitLog log = lake.open().services().log();
    Head head = log.load();
    Entry entry = head.entry(kind, head.upper() + 1, kind.stored(), List.of());
    assertThat(log.append(head, List.of(entry)).outcome()).isEqualTo(Swap.Outcome.WON);
  }

  /** The commit table's files but for those of its metadata. */
  private Set<String> files() {
    return all("txns/commits").stream()
        .filter(path -> !path.endsWith(".json"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  private Set<String> payloads() {
    return all("txns-payload-");
  }

  private Set<String> all(String part) {
    return lake.filesBelow("").stream()
        .map(Path::toString)
        .filter(path -> path.contains(part) && !path.endsWith(".crc"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** The files that the commit table names. */
  private Set<String> needed() {
    BaseTable table = (BaseTable) lake.catalog().loadTable(id("txns.commits"));
    Set<String> needed = new TreeSet<>();
    TableMetadata metadata = table.operations().current();
    for (Snapshot snapshot : metadata.snapshots()) {
      needed.add(snapshot.manifestListLocation());
      snapshot.allManifests(table.io()).stream().map(ManifestFile::path).forEach(needed::add);
    }
    table.newScan().planFiles().forEach(task -> needed.add(task.file().location()));
    return needed;
  }

  /** Steps: the tidier has written its files; somebody else commits; its swap is lost. */
  @Test
  void aTidyThatLostItsSwapLeavesNothing() {
    write(1);
    Set<String> before = files();
    instead =
        (real, base, next) -> {
          append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 2);
          real.commit(base, next);
        };
    assertThat(late.tidy()).isZero();
    assertThat(files()).isEqualTo(before);
    assertThat(late.tidy()).isPositive();
    assertThat(files()).containsAll(needed());
  }

  /** Both have archived the same entries; what is deleted is the loser's. */
  @Test
  void aTidyThatLostAgainstAnotherOne() {
    write(1);
    Set<String> before = files();
    instead =
        (real, base, next) -> {
          lake.open().tidy();
          real.commit(base, next);
        };
    assertThat(late.tidy()).isZero();
    Set<String> written = files();
    written.removeAll(before);
    Set<String> needed = needed();
    needed.removeAll(before);
    assertThat(written).isEqualTo(needed);
  }

  /** The next head holds its record: it counts. */
  @Test
  void aTidyWhoseAnswerWasLostIsOne() {
    write(1);
    instead =
        (real, base, next) -> {
          real.commit(base, next);
          throw new ServiceFailureException("no answer");
        };
    assertThat(late.tidy()).isPositive();
    assertThat(files()).containsAll(needed());
  }

  /**
   * What it has written stays until a newer head tells: its swap is not answered and the head has
   * not moved; then it lands late, or somebody else commits, and it never can.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTidyThatMayStillLand(boolean lands) {
    write(1);
    Set<String> before = files();
    Runnable[] swap = new Runnable[1];
    instead =
        (real, base, next) -> {
          swap[0] = () -> real.commit(base, next);
          throw new ServiceFailureException("no answer");
        };
    assertThat(late.tidy()).isZero();
    Set<String> written = files();
    written.removeAll(before);
    assertThat(written).hasSize(3);
    if (lands) {
      swap[0].run();
      Set<String> needed = needed();
      needed.removeAll(before);
      assertThat(needed).isEqualTo(written);
      assertThat(late.tidy()).isZero();
      assertThat(files()).containsAll(written);
    } else {
      append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 2);
      late.tidy();
      assertThat(files()).doesNotContainAnyElementsOf(written);
      assertThatThrownBy(swap[0]::run).isInstanceOf(CommitFailedException.class);
    }
    assertThat(files()).containsAll(needed());
  }

  /**
   * A scan at an entry in the head gives the archive of its time, however much is tidied later.
   * Steps: an entry is not applied and stays, with the manifest list of before; others are archived
   * beside it, twice; it is applied and archived itself, and nothing that it had listed is left,
   * but for what the last version of a minute names.
   */
  @Test
  void whatAnEntryThatStayedHadListedGoesWithIt() throws Exception {
    MovedClock clock = new MovedClock();
    clock.aheadMs = 60_000 - clock.nowMs() % 60_000;
    TxnHandle mine = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
    Set<String> kept = files();
    append(mine.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(mine.tidy()).isPositive();
    append(lazy.catalog(() -> null).loadTable(id("shop.b")), 9);
    for (long value = 3; value < 5; value++) {
      append(mine.catalog(() -> null).loadTable(id("shop.a")), value);
      assertThat(mine.tidy()).isPositive();
    }
    kept.addAll(needed());
    kept.addAll(dataFiles()); // of the list, too, that the one entry has
    clock.aheadMs += 61 * 60_000;
    append(mine.catalog(() -> null).loadTable(id("shop.a")), 5);
    Table log = lake.catalog().loadTable(id("txns.commits"));
    for (Snapshot snapshot : log.snapshots()) {
      try (var tasks = log.newScan().useSnapshot(snapshot.snapshotId()).planFiles()) {
        tasks.forEach(task -> assertThat(Path.of(task.file().location())).exists());
      }
    }
    mine.apply();
    assertThat(mine.tidy()).isPositive();
    clock.aheadMs += 61 * 60_000;
    append(mine.catalog(() -> null).loadTable(id("shop.a")), 6);
    kept.addAll(needed());
    waitUntil(() -> kept.containsAll(files()));
    assertThat(kept).containsAll(files());
    assertThat(files()).containsAll(needed());
  }

  private static void waitUntil(BooleanSupplier holds) throws InterruptedException {
    long deadline = System.currentTimeMillis() + 30_000;
    while (!holds.getAsBoolean() && System.currentTimeMillis() < deadline) {
      Thread.sleep(10); // a thread of its own deletes what is superseded
    }
  }

  /** The data files that all snapshots of the log reach. */
  private Set<String> dataFiles() throws Exception {
    Table log = lake.catalog().loadTable(id("txns.commits"));
    Set<String> found = new TreeSet<>();
    for (Snapshot snapshot : log.snapshots()) {
      try (var tasks = log.newScan().useSnapshot(snapshot.snapshotId()).planFiles()) {
        tasks.forEach(task -> found.add(task.file().location()));
      }
    }
    return found;
  }

  private Set<String> namedNow() {
    Table log = lake.catalog().loadTable(id("txns.commits"));
    Set<String> named = new TreeSet<>(needed());
    String own = ((BaseTable) log).operations().current().metadataFileLocation();
    named.add(own.replaceFirst("^file:/*", "/"));
    return named;
  }

  /** An hour after it was superseded any other one is gone, and what it alone has named. */
  @Test
  void theLastVersionOfEachMinuteIsKeptWithAllThatItNames() throws Exception {
    MovedClock clock = new MovedClock();
    TxnHandle mine = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
    Set<String> last = new TreeSet<>();
    Set<String> others = new TreeSet<>();
    for (long minute = 0; minute < 3; minute++) {
      clock.aheadMs += 60_000 - clock.nowMs() % 60_000;
      for (long number = 0; number < 3; number++) {
        append(mine.catalog(() -> null).loadTable(id("shop.a")), 10 * minute + number);
        assertThat(mine.tidy()).isPositive();
        (number == 2 ? last : others).addAll(namedNow());
      }
    }
    clock.aheadMs += 50 * 60_000;
    append(mine.catalog(() -> null).loadTable(id("shop.a")), 90);
    others.removeAll(last);
    assertThat(others).isNotEmpty().allMatch(path -> Files.exists(Path.of(path)));
    clock.aheadMs += 15 * 60_000;
    append(mine.catalog(() -> null).loadTable(id("shop.a")), 91);
    waitUntil(() -> Collections.disjoint(others, all("txns/commits")));
    others.retainAll(all("txns/commits"));
    assertThat(others).isEmpty();
    assertThat(all("txns/commits")).containsAll(last);
  }

  private Transaction largeTransaction(TxnHandle handle, BeginOptions options) {
    Transaction txn = handle.begin(options);
    UpdateProperties properties =
        handle.catalog(() -> txn).loadTable(id("shop.a")).updateProperties();
    for (int i = 0; i < 100; i++) {
      properties.set("key-" + i, "v".repeat(1000));
    }
    properties.commit();
    return txn;
  }

  @Test
  void payloadsOfLostAttempts() {
    Transaction txn = largeTransaction(late, BeginOptions.defaults());
    instead =
        (real, base, next) -> {
          log(EntryKind.ADVANCE);
          real.commit(base, next);
        };
    txn.commit();
    assertThat(payloads()).hasSize(1);
  }

  /**
   * Readers of heads in which its entry stands need the file for as long as they may. Steps: the
   * swap lands without an answer; somebody else archives the entry; the committer finds it there.
   */
  @Test
  void aPayloadWhoseEntryIsArchivedAlready() {
    Transaction txn = largeTransaction(late, BeginOptions.defaults());
    instead =
        (real, base, next) -> {
          real.commit(base, next);
          lake.open().apply();
          assertThat(lake.open().tidy()).isPositive();
          throw new ServiceFailureException("no answer");
        };
    txn.commit();
    assertThat(payloads()).hasSize(1);
  }

  /** Whose id has committed already, in a try of its own, leaves nothing behind. */
  @Test
  void theIdOfAnotherTry() throws Exception {
    BeginOptions nightly = BeginOptions.defaults().withId("nightly");
    Transaction second = late.begin(nightly);
    Transaction first = lake.open().begin(nightly);
    append(lake.open().catalog(() -> first).loadTable(id("shop.a")), 5);
    first.commit();
    Set<String> before = all("/shop/");
    Lake.written(second, () -> append(late.catalog(() -> second).loadTable(id("shop.a")), 2));
    assertThat(second.commit().commitTs()).isEqualTo(first.committed().orElseThrow().commitTs());
    assertThat(all("/shop/")).isEqualTo(before);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 5L);
  }

  /**
   * Cleaning never decides an answer. Steps: an append is restaged, and its swap is lost; what it
   * wrote cannot be read any more; the next attempt is refused.
   */
  @Test
  void whatCannotBeCleanedUp() {
    Transaction txn = late.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    append(late.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    Set<String> before = all("/shop/");
    instead =
        (real, base, next) -> {
          Set<String> written = all("/shop/");
          written.removeAll(before);
          written.stream().filter(path -> path.contains("/snap-")).forEach(LeftoversTest::delete);
          lake.open().catalog(() -> null).dropTable(id("shop.a"), false);
          real.commit(base, next);
        };
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
  }

  private static void delete(String path) {
    try {
      Files.delete(Path.of(path));
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The same of what nobody commits again: the refusal is told. */
  @Test
  void whatCannotBeCleanedUpOfADeed() {
    Set<String> before = all("/shop/");
    instead =
        (real, base, next) -> {
          Set<String> written = all("/shop/");
          written.removeAll(before);
          written.forEach(LeftoversTest::delete);
          log(EntryKind.OFF);
          real.commit(base, next);
        };
    assertThatThrownBy(() -> late.forget(id("shop.a")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("transactions are off");
  }

  /** A file that cannot be noted for removal stays, and whoever wanted it removed goes on. */
  @Test
  void whatCannotBeNotedForRemoval() {
    MovedClock stopped =
        new MovedClock() {
          @Override
          public long nowMs() {
            throw new IllegalStateException("no clock");
          }
        };
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), stopped);
    assertThatCode(() -> log.supersede("file:/a")).doesNotThrowAnyException();
  }

  /** Lost to a log that takes no writers any more: what a forget has written goes. */
  @Test
  void whatNobodyCommitsAgain() {
    Set<String> before = all("/shop/");
    instead =
        (real, base, next) -> {
          assertThat(all("/shop/")).hasSizeGreaterThan(before.size());
          log(EntryKind.OFF);
          real.commit(base, next);
        };
    assertThatThrownBy(() -> late.forget(id("shop.a")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("transactions are off");
    assertThat(all("/shop/")).isEqualTo(before);
  }

  /** Somebody may have taken the file of an attempt that stood still for one of nobody's. */
  @Test
  void aPayloadOfAnAttemptThatStoodStill() {
    CommitLog log = lake.open().services().log();
    Leftovers leftovers = new Leftovers(log);
    Head head = log.load();
    String json = "x".repeat(100_000);
    long standsMs = Leftovers.STANDS_MS;
    Entry.Payload first = leftovers.store(head, "txn", json, 0);
    assertThat(leftovers.store(head, "txn", json, standsMs - 1)).isEqualTo(first);
    Entry.Payload again = leftovers.store(head, "txn", json, standsMs);
    assertThat(again.location()).isEqualTo(first.location().replace(".json", "-1.json"));
    assertThat(again.sha256()).isEqualTo(first.sha256());
    assertThat(leftovers.store(head, "txn", json, standsMs + 1)).isEqualTo(again);
    assertThat(payloads()).hasSize(2);
    leftovers.removeAllBut(List.of());
    assertThat(payloads()).isEmpty();
  }
}
