package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Limits;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.log.Swap;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.StreamSupport;
import org.apache.iceberg.ContentScanTask;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The head stays small whoever applies, and whatever cannot be applied (docs/spec.md 4.7, 10). */
@Timeout(180)
class BoundedHeadTest extends TwoTables {
  private static final int INLINE = 65_000;

  /** Who leaves applying to the next writer leaves no entry in the head that is applied. */
  @Test
  void whatOthersHaveAppliedIsTidiedUnderApplyNext() {
    TxnHandle next = lake.open(Map.of("txns.apply", "next", "txns.tidy-after", "4"));
    for (int row = 2; row < 14; row++) {
      append(next.catalog(() -> null).loadTable(id("shop.a")), row);
      next.apply();
    }
    assertThat(entries()).isLessThanOrEqualTo(5);
  }

  /** Each swap writes a head of many bytes again; of one of few the newer half stays. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theNewerHalfOfASmallHeadStays(boolean large) {
    TxnHandle one = lake.open(Map.of("txns.tidy-after", "4"));
    handle.tidy();
    if (large) {
      fill(2, (head, ts) -> advance(head, ts, "x".repeat(300_000)));
    }
    List<Long> standing = new ArrayList<>();
    for (int row = 2; row < 9; row++) {
      append(one.catalog(() -> null).loadTable(id("shop.a")), row);
      standing.add(entries());
    }
    assertThat(standing)
        .isEqualTo(
            large ? List.of(0L, 1L, 2L, 3L, 4L, 2L, 3L) : List.of(1L, 2L, 3L, 2L, 3L, 4L, 2L));
  }

  /** A table that refuses its entries keeps those of the others out of no archive. */
  @Test
  void whatIsAppliedIsTidiedWhileAnotherTableCannotBe() {
    TxnHandle one = refusingB("4");
    for (int row = 2; row < 9; row++) {
      append(one.catalog(() -> null).loadTable(id("shop.a")), row);
    }
    for (int row = 1; row < 3; row++) {
      append(one.catalog(() -> null).loadTable(id("shop.b")), row);
    }
    assertThat(entries()).isLessThanOrEqualTo(6);
  }

  /** Where a table comes out of a long trouble, its writers tidy as before. */
  @Test
  void whatATidyHadToLeaveCountsNoMoreOnceAnotherOneHasMovedIt() {
    TxnHandle one = refusingB("4");
    for (int row = 2; row < 17; row++) {
      append(one.catalog(() -> null).loadTable(id("shop.b")), row);
    }
    assertThat(handle.apply()).isZero();
    assertThat(handle.tidy()).isGreaterThan(12);
    for (int row = 2; row < 14; row++) {
      append(one.catalog(() -> null).loadTable(id("shop.a")), row);
      assertThat(entries()).isLessThanOrEqualTo(5);
    }
  }

  /** One stands below a large one, or reaches into it, as each one after it into the one before. */
  @ParameterizedTest
  @ValueSource(strings = {"below", "within", "always"})
  void smallFilesOfTheArchiveAreMergedBesideLargeOnes(String late) {
    assertThat(handle.tidy()).isPositive();
    append(lazy.catalog(() -> null).loadTable(id("shop.b")), 7);
    if (late.equals("below")) {
      assertThat(handle.apply()).isZero();
      assertThat(handle.tidy()).isPositive();
    }
    int before = handle.transactions().size();
    Random random = new Random(1);
    fill(200, (head, ts) -> advance(head, ts, words(random)));
    assertThat(handle.tidy()).isEqualTo(200);
    assertThat(archive()).anyMatch(file -> file.fileSizeInBytes() >= 256 * 1024);
    int more = 3 * SmallFiles.ENOUGH;
    for (int each = 0; each < more; each++) {
      assertThat(handle.apply()).isZero();
      if (late.equals("always")) { // each tidy leaves an entry to the next one
        append(lazy.catalog(() -> null).loadTable(id("shop.b")), each);
      }
      fill(1, (head, ts) -> advance(head, ts, ""));
      assertThat(handle.tidy()).isPositive();
    }
    assertThat(archive()).hasSizeLessThanOrEqualTo(1 + SmallFiles.ENOUGH);
    assertThat(handle.transactions())
        .hasSize(before + 200 + more * (late.equals("always") ? 2 : 1))
        .extracting(TransactionRow::commitTs, TransactionRow::table)
        .doesNotHaveDuplicates();
  }

  /** What cannot be said in less. */
  private static String words(Random random) {
    return random
        .ints(2000, 0x100, 0x800)
        .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
        .toString();
  }

  private List<DataFile> archive() {
    return StreamSupport.stream(
            outside.loadTable(id("txns.commits")).newScan().planFiles().spliterator(), false)
        .map(ContentScanTask::file)
        .toList();
  }

  /** A record does not change: what it counts for is kept from head to head. */
  @Test
  void aRecordIsCountedOnce() {
    fill(8, (head, ts) -> advance(head, ts, "x".repeat(4096)));
    CommitLog log = lazy.services().log();
    Head before = log.load();
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Head after = log.newest();
    assertThat(after.recordBytes()).isEqualTo(bytes(after)).isGreaterThan(bytes(before) + 1000);
    for (Entry entry : before.state().entries()) {
      Long counted = before.sizes().get(before.state().snapshotId(entry));
      assertThat(after.sizes().get(after.state().snapshotId(entry))).isSameAs(counted);
      assertThat(after.recordBytes(entry)).isEqualTo(counted);
    }
  }

  private static long bytes(Head head) {
    return head.metadata().snapshots().stream()
        .mapToLong(at -> Limits.recordBytes(at.summary()))
        .sum();
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aWriterThatMeetsALargeHeadAppliesAndTidiesFirst(boolean ofManyEntries) {
    append(lazy.catalog(() -> null).loadTable(id("shop.b")), 7);
    if (ofManyEntries) {
      fill(Limits.HEAD_ENTRIES, (head, ts) -> advance(head, ts, ""));
    } else {
      fill(Limits.HEAD_BYTES / 4096, (head, ts) -> advance(head, ts, "x".repeat(4096)));
    }
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(entries()).isEqualTo(1);
    assertThat(ids(outside.loadTable(id("shop.b")))).containsExactly(7L);
  }

  /** What a head holds for a table in the way is tried once, until it has grown. */
  @Test
  void whatCannotBeAppliedIsNotTriedByEachCommit() {
    fill(Limits.HEAD_ENTRIES + 1, (head, ts) -> lost(head, ts, "{}"));
    AtomicInteger loads = new AtomicInteger();
    JdbcCatalog counting =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            loads.addAndGet(identifier.equals(id("shop.lost")) ? 1 : 0);
            return super.newTableOps(identifier);
          }
        };
    counting.initialize("lake", lake.options());
    TxnHandle next =
        TxnHandle.open(
            "lake",
            counting,
            TxnConfig.from(Map.of("txns.apply", "next", "txns.tidy-after", "1000")),
            Lake.CLOCK);
    append(next.catalog(() -> null).loadTable(id("shop.a")), 2);
    int first = loads.get();
    assertThat(first).isPositive();
    for (int row = 3; row < 9; row++) {
      append(next.catalog(() -> null).loadTable(id("shop.a")), row);
    }
    assertThat(loads.get()).isEqualTo(first);
    assertThat(ids(ours.loadTable(id("shop.a")))).hasSize(8);
  }

  /** Who can apply, and tidy, what fills the head does so, and is not refused. */
  @Test
  void aFullHeadGetsRoomByTheCommitThatNeedsIt() {
    fill(Limits.HEAD_MAX_BYTES / 5100, (head, ts) -> advance(head, ts, "x".repeat(4096)));
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(entries()).isLessThan(3);
  }

  /** The error names what fills it, and what is to be done; what makes room goes on. */
  @Test
  void aFullHeadTakesNoCommitButWhatMakesRoom() {
    Transaction late = lazy.begin(BeginOptions.defaults().withId("job"));
    Lake.overwrite(lazy.catalog(() -> late).loadTable(id("shop.a")), 9);
    append(ours.loadTable(id("shop.a")), 2);
    String payload = "{\"table-changes\":[],\"x\":\"" + "x".repeat(INLINE) + "\"}";
    fill(Limits.HEAD_MAX_BYTES / (INLINE + 1500) + 1, (head, ts) -> lost(head, ts, payload));
    assertThatThrownBy(() -> append(ours.loadTable(id("shop.a")), 3))
        .hasStackTraceContaining("shop.lost")
        .hasStackTraceContaining("txns status")
        .hasStackTraceContaining("txns repair");
    Transaction txn = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> txn).loadTable(id("shop.b")), 3);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> {
              assertThat(e.sqlState()).isEqualTo("54000");
              assertThat(TxnException.isFinal(e)).isTrue();
            });
    lake.create(handle, "shop.c");
    assertThat(ours.tableExists(id("shop.c"))).isTrue();
    assertThatThrownBy(late::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(kinds()).contains(EntryKind.ABORT);
    assertThat(ids(ours.loadTable(id("shop.a")))).containsExactly(1L, 2L);
  }

  /** A table that cannot be applied has its share of the head, and others have the rest. */
  @Test
  void aTableThatCannotBeAppliedStopsItsOwnWritersAlone() {
    TxnHandle one = refusingB("1000");
    Table b = one.catalog(() -> null).loadTable(id("shop.b"));
    assertThatThrownBy(
            () -> {
              for (long i = 0; i <= Limits.HEAD_TABLE_MAX_BYTES / INLINE; i++) {
                b.updateProperties().set("note", i + "x".repeat(INLINE - 2_000)).commit();
              }
            })
        .hasStackTraceContaining("no room")
        .hasStackTraceContaining("most=`" + Limits.HEAD_TABLE_MAX_BYTES);
    assertThat(head().recordBytes()).isGreaterThan(Limits.HEAD_TABLE_MAX_BYTES - 2L * INLINE);
    append(one.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(ids(ours.loadTable(id("shop.a")))).containsExactly(1L, 2L);
  }

  /** A handle to which the catalog refuses every change of a table. */
  private TxnHandle refusingB(String tidyAfter) {
    return TxnHandle.open(
        "lake",
        HookedOperations.catalog(
            lake,
            id("shop.b"),
            (real, base, next) -> {
              throw new CommitFailedException("not now");
            }),
        TxnConfig.from(Map.of("txns.tidy-after", tidyAfter, "txns.apply", "inline")),
        Lake.CLOCK);
  }

  private interface Filler {
    Entry at(Head head, long commitTs);
  }

  /** Append entries to the log as it is, many in a swap. */
  private void fill(long count, Filler filler) {
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK);
    Head head = log.load();
    Head at = head;
    List<Entry> entries = new ArrayList<>();
    for (long i = 0; i < count; i++) {
      entries.add(filler.at(at, at.upper() + 1));
      at = at.with(entries.get(entries.size() - 1));
    }
    assertThat(log.append(head, entries).outcome()).isEqualTo(Swap.Outcome.WON);
  }

  private static Entry advance(Head head, long commitTs, String comment) {
    return entry(EntryKind.ADVANCE, head, commitTs, comment, List.of(), Entry.Payload.NONE);
  }

  /** A change of a table that is gone: nobody can apply it. */
  private static Entry lost(Head head, long commitTs, String payload) {
    Change change =
        new Change(
            id("shop.lost"),
            "00000000-0000-0000-0000-000000000001",
            Operation.APPEND,
            commitTs - 1,
            commitTs,
            0,
            0);
    return entry(
        EntryKind.COMMIT,
        head,
        commitTs,
        "",
        List.of(change),
        new Entry.Payload(payload, null, null));
  }

  private static Entry entry(
      EntryKind kind,
      Head head,
      long commitTs,
      String comment,
      List<Change> changes,
      Entry.Payload payload) {
    return new Entry(
        kind,
        commitTs,
        head.upper(),
        commitTs,
        head.state().tidiedUpto(),
        head.upper(),
        UUID.randomUUID().toString(),
        Isolation.SNAPSHOT,
        "",
        comment,
        changes,
        payload);
  }

  private List<EntryKind> kinds() {
    return head().state().entries().stream().map(Entry::kind).toList();
  }

  /** How many entries stand in the head, but for what the log is set to. */
  private long entries() {
    return head().state().entries().stream()
        .filter(entry -> entry.kind() != EntryKind.SETTINGS)
        .count();
  }

  private Head head() {
    return new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK).load();
  }
}
