package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Clocks that are wrong: whatever they write can be loaded, which Iceberg refuses of a table whose
 * times go back by more than a minute, and others go on.
 */
@Timeout(120)
public class ClocksTest {
  private static final long YEAR_MS = 365L * 24 * 3600 * 1000;

  @TempDir Path folder;
  private Lake lake;
  private final MovedClock clock = new MovedClock();
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    lake.create(lake.open(), "shop.a", "shop.b");
    handle = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
  }

  private Table auto(String name) {
    return handle.catalog(() -> null).loadTable(id(name));
  }

  /** Each clock in turn writes, alters, registers, forgets, creates, drops and tidies. */
  @ParameterizedTest
  @ValueSource(strings = {"130,0,59", "3153600000,0,-31536000", "-130,-946080000,0"})
  void whatWrongClocksWrite(String seconds) {
    List<Long> expected = new ArrayList<>();
    for (long second : Arrays.stream(seconds.split(",")).mapToLong(Long::parseLong).toArray()) {
      clock.aheadMs = second * 1000;
      long number = expected.size();
      String created = "shop.new" + number;
      String late = "shop.late" + number;
      append(auto("shop.a"), number);
      expected.add(number);
      Transaction txn = handle.begin(BeginOptions.defaults());
      overwrite(handle.catalog(() -> txn).loadTable(id("shop.b")), 10 + number);
      append(handle.catalog(() -> txn).loadTable(id("shop.b")), 20 + number);
      txn.commit();
      auto("shop.a").updateProperties().set("number", seconds).commit();
      lake.create(handle, late);
      handle.catalog(() -> null).buildTable(id(created), Lake.SCHEMA).create();
      append(auto(created), 2);
      handle.catalog(() -> null).dropTable(id(created), false);
      handle.forget(id(late));
      handle.apply();
      handle.register(id(late));
      assertThat(handle.tidy()).isPositive();
      lake.catalog().loadTable(id("txns.commits"));
      lake.catalog().loadTable(id(created));
      assertThat(lake.plainIds(late)).isEmpty();
      assertThat(lake.plainIds("shop.b")).containsExactly(10 + number, 20 + number);
    }
    assertThat(lake.plainIds("shop.a")).isEqualTo(expected);
    assertThat(lake.txnIds("shop.a")).isEqualTo(expected);
  }

  /** It is over when so much time has passed, and not when the clock shows a time again. */
  @Test
  void aBasisIsWaitedForNoLongerWhereTheClockIsSetBack() {
    MovedClock setBack =
        new MovedClock() {
          @Override
          public void backOff(long maxMs) {
            setMs = -3_600_000;
            aheadMs += maxMs;
            assertThat(aheadMs).isLessThan(60_000);
          }
        };
    TxnHandle waits = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, setBack);
    BeginOptions options = BeginOptions.defaults().withBasis(handle.upper() + 100_000_000, 5000);
    assertThatThrownBy(() -> waits.begin(options))
        .hasMessageContaining("was not reached in time: wait longer");
  }

  /** As the beginning of 1970 is east of Greenwich; a record has no sign. */
  @ParameterizedTest
  @ValueSource(longs = {-1, -3_600_000, Long.MIN_VALUE})
  void aTimeBefore1970IsNoneOfTheLog(long asOf) {
    assertThatThrownBy(
            () -> {
              Transaction txn = handle.begin(BeginOptions.defaults().withAsOf(asOf));
              handle.catalog(() -> txn).buildTable(id("shop.new"), Lake.SCHEMA).create();
              txn.commit();
            })
        .hasMessageContaining("1970");
    lake.open();
  }

  @Test
  void aBasisIsWaitedForForEver() {
    MovedClock others =
        new MovedClock() {
          @Override
          public void backOff(long maxMs) {
            append(auto("shop.a"), 7);
          }
        };
    TxnHandle waits = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, others);
    long basis = handle.upper() + 1;
    Transaction txn = waits.begin(BeginOptions.defaults().withBasis(basis, Long.MAX_VALUE));
    assertThat(txn.readTs()).isGreaterThanOrEqualTo(basis);
  }

  /** What the log is written with is its own time, not the clock's (docs/spec.md 3). */
  @ParameterizedTest
  @ValueSource(longs = {0, YEAR_MS})
  void theLogIsUpdatedAtTheTimeOfItsNewestRecord(long aheadMs) {
    clock.aheadMs = aheadMs;
    lake.catalog()
        .loadTable(id("txns.commits"))
        .updateProperties()
        .set("note", "\"last-updated-ms\":7")
        .commit();
    for (long number = 0; number < 3; number++) {
      TableMetadata before = metadata("txns.commits");
      append(auto("shop.a"), number);
      TableMetadata now = metadata("txns.commits");
      assertThat(now.lastUpdatedMillis())
          .isGreaterThan(before.lastUpdatedMillis())
          .isEqualTo(now.currentSnapshot().timestampMillis());
      assertThat(now.previousFiles())
          .last()
          .extracting(TableMetadata.MetadataLogEntry::timestampMillis)
          .isEqualTo(before.lastUpdatedMillis());
    }
  }

  /** A time that Iceberg takes is one time, in main's history and in the snapshot. */
  @Test
  void whatIsAppliedToATableThatIsAheadHasOneTime() {
    append(auto("shop.a"), 1);
    Lake.leaveApplies(handle);
    TxnConfig next = TxnConfig.from(Map.of("txns.apply", "next"));
    TxnHandle lazy = TxnHandle.open("lake", lake.catalog(), next, clock);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Lake.CLOCK.backOff(5);
    append(lake.catalog().loadTable(id("shop.a")), 9); // later than what is logged
    putAhead("shop.a");
    assertThat(handle.apply()).isZero();
    TableMetadata applied = metadata("shop.a");
    assertThat(applied.snapshotLog())
        .allSatisfy(
            entry ->
                assertThat(applied.snapshot(entry.snapshotId()).timestampMillis())
                    .isEqualTo(entry.timestampMillis()));
  }

  /** What is not in the log follows the table's times as well. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void singleStatementsOnATableThatIsAhead(boolean registered) {
    append(auto("shop.a"), 1);
    long first = auto("shop.a").currentSnapshot().snapshotId();
    append(auto("shop.a"), 2);
    leaveTheLog(registered ? "off" : "unregistered");
    putAhead("shop.a");
    append(auto("shop.a"), 3);
    overwrite(auto("shop.a"), 4);
    auto("shop.a").updateProperties().set("number", "1").commit();
    auto("shop.a").updateSchema().addColumn("note", Types.StringType.get()).commit();
    auto("shop.a").manageSnapshots().createBranch("side", first).commit();
    org.apache.iceberg.Transaction several = auto("shop.a").newTransaction();
    several.updateProperties().set("number", "2").commit();
    several.newAppend().appendFile(Lake.file(auto("shop.a"), 5)).commit();
    several.commitTransaction();
    assertThat(lake.plainIds("shop.a")).containsExactly(4L, 5L);
    auto("shop.a").manageSnapshots().rollbackTo(first).commit();
    append(auto("shop.a"), 6);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 6L);
    assertThat(metadata("shop.a").properties()).containsEntry("number", "2");
  }

  /** CREATE OR REPLACE, with and without rows, wherever the table stands. */
  @ParameterizedTest
  @ValueSource(strings = {"under care", "off", "unregistered"})
  void replacementsOfATableThatIsAhead(String where) {
    Map<String, String> options = new HashMap<>(lake.options());
    options.put("table-default.owner", "us");
    options.put("table-override.limit", "1");
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    handle = TxnHandle.open("lake", catalog, Lake.INLINE, clock);
    append(auto("shop.a"), 1);
    auto("shop.a").updateProperties().set("kept", "yes").set("limit", "9").commit();
    leaveTheLog(where);
    putAhead("shop.a");
    long ahead = Timestamps.newestMs(metadata("shop.a"));
    var builder = handle.catalog(() -> null).buildTable(id("shop.a"), Lake.SCHEMA);
    var withRows = builder.withProperty("asked", "for").createOrReplaceTransaction();
    withRows.newAppend().appendFile(Lake.file(auto("shop.a"), 2)).commit();
    withRows.commitTransaction();
    assertThat(lake.plainIds("shop.a")).containsExactly(2L);
    assertThat(metadata("shop.a").properties())
        .containsEntry("kept", "yes")
        .containsEntry("asked", "for")
        .containsEntry("owner", "us")
        .containsEntry("limit", "1")
        .containsEntry("write.parquet.compression-codec", "zstd");
    builder.replaceTransaction().commitTransaction();
    assertThat(lake.plainIds("shop.a")).isEmpty();
    append(auto("shop.a"), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(3L);
    assertThat(Timestamps.newestMs(metadata("shop.a"))).isGreaterThanOrEqualTo(ahead);
  }

  /** Who loses a race builds on the newer state, and is told of what clashes, as on any table. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void racesForATableThatIsAhead(boolean registered) {
    append(auto("shop.a"), 1);
    leaveTheLog(registered ? "off" : "unregistered");
    putAhead("shop.a");
    AtomicReference<Runnable> rival = new AtomicReference<>(() -> {});
    var racing =
        new HadoopFileIO(new Configuration()) {
          @Override
          public OutputFile newOutputFile(String path) {
            if (path.endsWith(".metadata.json")) {
              rival.getAndSet(() -> {}).run();
            }
            return super.newOutputFile(path);
          }
        };
    JdbcCatalog catalog = new JdbcCatalog(options -> racing, null, true);
    catalog.initialize("lake", lake.options());
    Table table =
        TxnHandle.open("lake", catalog, Lake.INLINE, clock)
            .catalog(() -> null)
            .loadTable(id("shop.a"));
    rival.set(() -> append(auto("shop.a"), 2));
    append(table, 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    rival.set(() -> auto("shop.a").updateProperties().set("theirs", "1").commit());
    table.updateProperties().set("ours", "1").commit();
    assertThat(metadata("shop.a").properties()).containsEntry("theirs", "1").containsKey("ours");
    OverwriteFiles overwrite =
        table
            .newOverwrite()
            .overwriteByRowFilter(Expressions.alwaysTrue())
            .validateFromSnapshot(table.currentSnapshot().snapshotId())
            .conflictDetectionFilter(Expressions.alwaysTrue())
            .validateNoConflictingData();
    rival.set(() -> append(auto("shop.a"), 4));
    assertThatThrownBy(overwrite::commit).isInstanceOf(ValidationException.class);
    rival.set(() -> overwrite(auto("shop.a"), 5));
    append(table, 6);
    assertThat(lake.plainIds("shop.a")).containsExactly(5L, 6L);
    rival.set(() -> auto("shop.a").updateSchema().addColumn("c", Types.LongType.get()).commit());
    UpdateSchema schema = table.updateSchema().addColumn("d", Types.LongType.get());
    assertThatThrownBy(schema::commit).isInstanceOf(CommitFailedException.class);
  }

  /** A right clock reads what a fast one wrote, at an older timestamp as well, and writes on. */
  @Test
  void rightClockGoesOn() {
    append(auto("shop.a"), 1);
    long first = handle.upper();
    clock.aheadMs = YEAR_MS;
    append(auto("shop.a"), 2);
    TxnHandle right = lake.open(Map.of("txns.apply", "next"));
    TxnCatalog tables = right.catalog(() -> null);
    assertThat(Lake.ids(tables.loadTableAt(id("shop.a"), first))).containsExactly(1L);
    append(tables.loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    tables.loadTable(id("shop.a")).manageSnapshots().rollbackTo(firstSnapshot(tables)).commit();
    tables
        .loadTable(id("shop.a"))
        .updateSchema()
        .addColumn("more", new Schema(Lake.SCHEMA.columns()).findField("id").type())
        .commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    assertThat(right.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    right.forget(id("shop.a"));
    assertThat(right.apply()).isZero();
    assertThat(lake.txnIds("shop.b")).isEmpty();
  }

  private long firstSnapshot(TxnCatalog tables) {
    return tables.loadTable(id("shop.a")).history().stream()
        .filter(
            entry -> lake.catalog().loadTable(id("shop.a")).snapshot(entry.snapshotId()) != null)
        .skip(1) // the mark's is empty
        .findFirst()
        .orElseThrow()
        .snapshotId();
  }

  /** Where a stranger has written, the branch that keeps it comes with the same swap. */
  @Test
  void strangerBelowATimeThatIsAhead() {
    clock.aheadMs = 50_000;
    append(auto("shop.a"), 1);
    TxnHandle right = lake.open(Map.of("txns.apply", "next"));
    append(right.catalog(() -> null).loadTable(id("shop.a")), 2);
    append(lake.catalog().loadTable(id("shop.a")), 9);
    assertThat(right.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    right.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 9L);
  }

  /** No clock moves the times of the commit table: a right one is never behind them. */
  @Test
  void timesOfTheCommitTable() {
    for (long aheadMs : new long[] {YEAR_MS, 0, -YEAR_MS}) {
      clock.aheadMs = aheadMs;
      append(auto("shop.a"), 1);
    }
    TableMetadata commits = metadata("txns.commits");
    assertThat(commits.snapshots()).extracting(Snapshot::timestampMillis).isSorted();
    assertThat(commits.lastUpdatedMillis())
        .isEqualTo(commits.currentSnapshot().timestampMillis())
        .isLessThanOrEqualTo(System.currentTimeMillis());
    assertThat(handle.upper()).isGreaterThan(System.currentTimeMillis() + YEAR_MS / 2);
  }

  /**
   * A table and a commit table that another language's fast clock has written: Iceberg's builder
   * refuses to go on with them.
   */
  @Test
  void whatIsAheadOfTheClock() {
    append(auto("shop.a"), 1);
    long first = handle.upper();
    append(auto("shop.a"), 2);
    for (String name : List.of("shop.a", "shop.b", "txns.commits")) {
      putAhead(name);
      assertThatThrownBy(
              () -> lake.catalog().loadTable(id(name)).updateProperties().set("a", "b").commit())
          .hasMessageContaining("Invalid update timestamp");
    }
    assertThat(Lake.ids(handle.catalog(() -> null).loadTableAt(id("shop.a"), first)))
        .containsExactly(1L);
    append(auto("shop.a"), 3);
    overwrite(auto("shop.b"), 4);
    handle.forget(id("shop.b"));
    handle.register(id("shop.b"));
    assertThat(handle.tidy()).isPositive();
    append(auto("shop.a"), 5);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 5L);
    assertThat(lake.plainIds("shop.b")).containsExactly(4L);
    assertThat(metadata("shop.a").snapshotLog()).hasSameSizeAs(metadata("shop.a").snapshots());
  }

  /** A server makes the metadata of the changes: it is sent times that follow the table's. */
  @Test
  void whatAServerIsSentOfATableThatIsAhead() {
    append(auto("shop.a"), 1);
    putAhead("shop.a");
    TableMetadata base = metadata("shop.a");
    List<TableMetadata> sent = new ArrayList<>();
    TableOperations server =
        new HookedOperations(
            ((BaseTable) lake.catalog().loadTable(id("shop.a"))).operations(),
            (real, from, next) -> sent.add(next));
    Snapshot main = base.currentSnapshot();
    Timestamps.commit(
        server,
        base,
        System.currentTimeMillis(),
        seen -> {
          TableMetadata.Builder builder = TableMetadata.buildFrom(seen);
          for (long id = 1; id <= 2; id++) {
            builder.addSnapshot(
                SnapshotEdit.create(id, "append")
                    .parent(main.snapshotId())
                    .sequenceNumber(base.lastSequenceNumber() + id)
                    .timestampMs(System.currentTimeMillis())
                    .manifestList(main.manifestListLocation())
                    .build());
          }
          return builder.setBranchSnapshot(2, SnapshotRef.MAIN_BRANCH).build();
        });
    long newestMs = Timestamps.newestMs(base);
    assertThat(AddedSnapshots.of(sent.get(0).changes()))
        .extracting(Snapshot::timestampMillis)
        .containsExactly(newestMs + 1, newestMs + 1);
  }

  /** Have {@code shop.a} written outside the log, unless it is to stay under care. */
  private void leaveTheLog(String where) {
    if (where.equals("off")) {
      handle.off();
    } else if (where.equals("unregistered")) {
      handle.forget(id("shop.a"));
      assertThat(handle.apply()).isZero();
    }
  }

  private TableMetadata metadata(String name) {
    return ((BaseTable) lake.catalog().loadTable(id(name))).operations().current();
  }

  private void putAhead(String name) {
    TableOperations operations = ((BaseTable) lake.catalog().loadTable(id(name))).operations();
    TableMetadata base = operations.current();
    Pattern newest =
        Pattern.compile(
            "(\"(?:last-updated-ms|timestamp-ms)\":)(" + Timestamps.newestMs(base) + ")(?=[,}])");
    String ahead =
        newest
            .matcher(TableMetadataParser.toJson(base))
            .replaceAll(time -> time.group(1) + (Long.parseLong(time.group(2)) + YEAR_MS));
    operations.commit(base, TableMetadataParser.fromJson(null, ahead));
  }
}
