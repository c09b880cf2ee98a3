package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Conflicts by file (docs/isolation.md): different files and partitions do not clash. */
@Timeout(60)
class ByFileTest extends DaysTestBase {
  /** Until that is taken back, whatever a transaction says. */
  @Test
  void aTableSaysThatItsDaysClash() {
    auto().updateProperties().set("txns.conflicts", "table").commit();
    Transaction one = begin();
    Transaction two = begin();
    rewrite(in(one), 1);
    rewrite(in(two), 2);
    one.commit();
    assertThatThrownBy(two::commit).hasMessageContaining(DAYS);
    auto().updateProperties().remove("txns.conflicts").commit();
    one = begin();
    two = begin();
    Write.OVERWRITE.run(in(one), 1);
    Write.OVERWRITE.run(in(two), 2);
    one.commit();
    two.commit();
    assertThatThrownBy(() -> auto().updateProperties().set("txns.conflicts", "row").commit())
        .hasMessageContaining("txns.conflicts");
  }

  private Transaction begin() {
    return handle.begin(BeginOptions.defaults());
  }

  private void writeElsewhere(Transaction txn) {
    Lake.append(handle.catalog(() -> txn).loadTable(id("shop.elsewhere")), 1);
  }

  private static void appendTo(Table table, long day, long... ids) {
    table.newAppend().appendFile(file(table, day, ids)).commit();
  }

  /** A day's rows but the first are written again, as copy-on-write does. */
  private static void rewrite(Table table, long day) {
    List<DataFile> read = files(table, day(day));
    OverwriteFiles overwrite = table.newOverwrite().conflictDetectionFilter(day(day));
    read.forEach(overwrite::deleteFile);
    overwrite.addFile(file(table, day, 10 * day + 1)).commit();
  }

  /** The first rows of a day's files are marked, as merge-on-read does. */
  private static void mark(Table table, long day) {
    RowDelta delta = table.newRowDelta().conflictDetectionFilter(day(day));
    for (DataFile each : files(table, day(day))) {
      delta.addDeletes(Days.marks(table, day, List.of(each)));
    }
    delta.addRows(file(table, day, 10 * day + 6)).commit();
  }

  enum Write {
    REWRITE {
      @Override
      void run(Table table, long day) {
        rewrite(table, day);
      }
    },
    MARK {
      @Override
      void run(Table table, long day) {
        mark(table, day);
      }
    },
    DELETE_DAY {
      @Override
      void run(Table table, long day) {
        table.newDelete().deleteFromRowFilter(day(day)).commit();
      }
    },
    OVERWRITE {
      @Override
      void run(Table table, long day) {
        table
            .newOverwrite()
            .overwriteByRowFilter(day(day))
            .addFile(file(table, day, 10 * day + 5))
            .commit();
      }
    },
    REPLACE {
      @Override
      void run(Table table, long day) {
        table.newReplacePartitions().addFile(file(table, day, 10 * day + 5)).commit();
      }
    },
    READ_AND_APPEND {
      @Override
      void run(Table table, long day) {
        assertThat(files(table, day(day))).isNotEmpty();
        appendTo(table, day, 10 * day + 2);
      }
    },
    SEVERAL {
      @Override
      void run(Table table, long day) {
        rewrite(table, day);
        DataFile passes = file(table, day, 10 * day + 8);
        table.newAppend().appendFile(passes).commit();
        table.newOverwrite().deleteFile(passes).conflictDetectionFilter(day(day)).commit();
        appendTo(table, day, 10 * day + 9);
        mark(table, day);
      }
    };

    abstract void run(Table table, long day);
  }

  static Stream<Arguments> writesAtLevels() {
    return Stream.of(Isolation.SNAPSHOT, Isolation.STRICT_SERIALIZABLE)
        .flatMap(level -> Stream.of(Write.values()).map(write -> Arguments.of(write, level)));
  }

  /** Both commit, and the table is as one after the other leaves it. */
  @Tag("sampled")
  @ParameterizedTest
  @MethodSource("writesAtLevels")
  void twoDaysDoNotClash(Write write, Isolation level) {
    Table alone = Days.create(lake, "shop.alone", FORMAT_2);
    for (long day = 1; day <= 2; day++) {
      write.run(alone, day);
    }
    BeginOptions options = BeginOptions.defaults().withIsolation(level);
    Transaction one = handle.begin(options);
    Transaction two = handle.begin(options);
    write.run(in(one), 1);
    write.run(in(two), 2);
    two.commit();
    one.commit();
    assertThat(lake.plainIds(DAYS)).isEqualTo(Lake.ids(lake.catalog().loadTable(id("shop.alone"))));
  }

  /** The error names the filter or the file, and who came first. */
  @Tag("sampled")
  @ParameterizedTest
  @EnumSource(Write.class)
  void theSameDayClashes(Write write) {
    Transaction one = begin();
    one.comment("nightly");
    Transaction two = begin();
    Transaction third = begin();
    write.run(in(one), 1);
    write.run(in(two), 1);
    Write.OVERWRITE.run(in(third), 2);
    one.commit();
    third.commit();
    List<Long> before = lake.plainIds(DAYS);
    assertThatThrownBy(two::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> {
              assertThat(e.sqlState()).isEqualTo("40001");
              assertThat(e.parameters()).containsEntry("otherTxnId", one.id());
              assertThat(e.parameters()).containsEntry("otherComment", "nightly");
            })
        .hasMessageMatching("(?s).*(day = 1|files that it replaced).*");
    assertThat(lake.plainIds(DAYS)).isEqualTo(before);
  }

  /** `txns.conflicts=table`, for who reads in ways that nobody sees. */
  @Tag("sampled")
  @ParameterizedTest
  @EnumSource(value = Write.class, names = "SEVERAL", mode = EnumSource.Mode.EXCLUDE)
  void byTableTwoDaysClash(Write write) {
    TxnHandle byTable = lake.open(Map.of("txns.conflicts", "table"));
    Transaction one = begin();
    Transaction two = byTable.begin(BeginOptions.defaults());
    write.run(in(one), 1);
    write.run(byTable.catalog(() -> two).loadTable(id(DAYS)), 2);
    one.commit();
    conflict(two::commit);
  }

  @ParameterizedTest
  @ValueSource(strings = {"files", "", "rows"})
  void aWrongChoiceIsRefused(String wrong) {
    Map<String, String> options = Map.of("txns.conflicts", wrong);
    assertThatThrownBy(() -> TxnConfig.from(options)).hasMessageContaining("txns.conflicts");
  }

  private static void conflict(ThrowingCallable commit) {
    assertThatThrownBy(commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"));
  }

  /** A reader of the first day, who writes elsewhere, loses to a writer of that day alone. */
  @ParameterizedTest
  @ValueSource(longs = {1, 2})
  void whatWasReadIsHeldAgainstFiles(long day) {
    Transaction txn = begin();
    assertThat(files(in(txn), day(1))).hasSize(1);
    writeElsewhere(txn);
    appendTo(auto(), day, 99);
    if (day == 2) {
      txn.commit();
    } else {
      assertThatThrownBy(txn::commit).hasMessageContaining("a table that it read was written");
    }
  }

  /** By statistics, where there is no partition; a file without may hold anything. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void statisticsTellFilesApart(boolean told) {
    if (!told) {
      auto().updateProperties().set("write.metadata.metrics.default", "none").commit();
    }
    Transaction txn = begin();
    assertThat(files(in(txn), Expressions.equal("id", 10L))).isNotEmpty();
    writeElsewhere(txn);
    DataFile file = file(auto(), 1, 50, 60);
    auto().newAppend().appendFile(told ? file : file.copyWithoutStats()).commit();
    if (told) {
      txn.commit();
    } else {
      conflict(txn::commit);
    }
  }

  static Stream<Arguments> wider() {
    return Stream.of(
        read("no filter", table -> files(table, Expressions.alwaysTrue())),
        read("any day", table -> files(table, Expressions.not(day(1)))),
        read(
            "an operation that says not by what",
            table -> table.newOverwrite().addFile(file(table, 1, 15)).commit()),
        read(
            "deleted files of which nobody says why",
            table -> table.newDelete().deleteFile(files(table, day(1)).get(0)).commit()),
        read(
            "a row delta that says not by what",
            table -> table.newRowDelta().addRows(file(table, 1, 15)).commit()),
        read(
            "a filter, and files beside it",
            table ->
                table
                    .newOverwrite()
                    .overwriteByRowFilter(day(3))
                    .deleteFile(files(table, day(1)).get(0))
                    .commit()),
        read("one that was never committed", Table::newRowDelta),
        read(
            "Iceberg's own transaction",
            table -> {
              var steps = table.newTransaction();
              steps.newDelete().deleteFromRowFilter(day(1)).commit();
              steps.commitTransaction();
            }),
        read(
            "an incremental scan",
            table ->
                table
                    .newIncrementalAppendScan()
                    .fromSnapshotInclusive(table.currentSnapshot().snapshotId())
                    .filter(day(1))
                    .planFiles()));
  }

  private static Arguments read(String name, Consumer<Table> read) {
    return Arguments.of(name, read);
  }

  @Tag("sampled")
  @ParameterizedTest(name = "{0}")
  @MethodSource("wider")
  void whoeverReadsMoreHasReadMore(String name, Consumer<Table> read) {
    Transaction txn = begin();
    read.accept(in(txn));
    writeElsewhere(txn);
    appendTo(auto(), 2, 99);
    conflict(txn::commit);
  }

  /** It renames columns, reads by the new names, and goes back: they are others' again. */
  @Test
  void namesMeanWhatTheyMeantWhenItRead() {
    Transaction txn = begin();
    txn.savepoint("before");
    Table table = in(txn);
    table.updateSchema().renameColumn("amount", "was").commit();
    table.updateSchema().renameColumn("id", "amount").commit();
    files(in(txn), Expressions.equal("amount", 10L));
    txn.rollbackTo("before");
    writeElsewhere(txn);
    appendTo(auto(), 3, 10);
    assertThatThrownBy(txn::commit).hasMessageContaining("a table that it read was written");
  }

  /** Somebody adds a file that the table has, into a manifest with all the others. */
  @Test
  void aFileThatComesAgainIsAChange() {
    auto().updateProperties().set("commit.manifest.min-count-to-merge", "1").commit();
    Transaction reader = begin();
    List<DataFile> here = files(in(reader), day(1));
    writeElsewhere(reader);
    Transaction writer = begin();
    rewrite(in(writer), 1);
    auto().newAppend().appendFile(here.get(0)).commit();
    conflict(reader::commit);
    conflict(writer::commit);
  }

  /** Delete files of others: of the day that was written, or another one. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void markedRowsAreChangedRows(boolean bound) {
    for (Table table = auto(); files(table, day(1)).size() < 2; table = auto()) {
      appendTo(table, 1, 12);
      appendTo(table, 2, 22);
    }
    for (long day : new long[] {2, 1}) {
      Transaction one = begin();
      Transaction two = begin();
      rewrite(in(one), 1);
      mark(in(two), 1);
      Table other = auto();
      List<DataFile> marked = files(other, day(day));
      List<DataFile> some = bound ? marked.subList(0, 1) : marked;
      other.newRowDelta().addDeletes(Days.marks(other, day, some)).commit();
      if (day == 1) {
        conflict(one::commit);
        conflict(two::commit);
      } else {
        one.commit();
      }
    }
  }

  /** Its keys may be in any file of the partition: those of before, and those that come. */
  @Test
  void equalityDeletesAreNotMadeAgain() {
    Transaction own = begin();
    Table table = in(own);
    table
        .newRowDelta()
        .addDeletes(Days.equality(table, 1, 10))
        .conflictDetectionFilter(day(1))
        .commit();
    appendTo(auto(), 2, 99);
    assertThatThrownBy(own::commit).hasMessageContaining("wrote over");
    Transaction reader = begin();
    assertThat(files(in(reader), day(1))).isNotEmpty();
    writeElsewhere(reader);
    auto().newRowDelta().addDeletes(Days.equality(auto(), 1, 77)).commit();
    conflict(reader::commit);
  }

  /** It has the same rows, but other files; who wrote another day, or has read, is not touched. */
  @Test
  void aCompactionWinsOverWhoRewritesItsFiles() {
    appendTo(auto(), 1, 12);
    Transaction rewrites = begin();
    Transaction marks = begin();
    Transaction elsewhere = begin();
    Transaction reads = begin();
    rewrite(in(rewrites), 1);
    mark(in(marks), 1);
    rewrite(in(elsewhere), 2);
    Write.READ_AND_APPEND.run(in(reads), 1);
    Table table = auto();
    table
        .newRewrite()
        .rewriteFiles(Set.copyOf(files(table, day(1))), Set.of(file(table, 1, 10, 11, 12)))
        .commit();
    elsewhere.commit();
    assertThatThrownBy(rewrites::commit).hasMessageContaining("files that it replaced");
    assertThatThrownBy(marks::commit).hasMessageContaining("files that it replaced");
    reads.commit();
  }

  static Stream<Arguments> shapes() {
    return Stream.of(
        read("schema", t -> t.updateSchema().addColumn("more", Types.LongType.get()).commit()),
        read("partitioning", t -> t.updateSpec().addField("amount").commit()),
        read("format", t -> t.updateProperties().set("format-version", "3").commit()),
        read("a property", t -> t.updateProperties().set("k", "v").commit()));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("shapes")
  void anotherShapeIsAConflict(String name, Consumer<Table> alter) {
    Transaction txn = begin();
    rewrite(in(txn), 1);
    alter.accept(auto());
    conflict(txn::commit);
  }

  static Stream<Arguments> more() {
    return Stream.of(
        read("a property", t -> t.updateProperties().set("of", "mine").commit()),
        read(
            "a branch",
            t -> t.manageSnapshots().createBranch("b", t.currentSnapshot().snapshotId()).commit()),
        read(
            "a rollback",
            t -> {
              long parent = t.currentSnapshot().parentId();
              t.manageSnapshots().setCurrentSnapshot(parent).commit();
            }));
  }

  /** Nobody knows how to make that again. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("more")
  void moreThanFilesIsAConflict(String name, Consumer<Table> alter) {
    Transaction txn = begin();
    rewrite(in(txn), 1);
    alter.accept(in(txn));
    rewriteOther();
    assertThatThrownBy(txn::commit).hasMessageContaining("wrote over");
  }

  private void rewriteOther() {
    Transaction other = begin();
    rewrite(in(other), 2);
    other.commit();
  }

  /** Its empty snapshot hides a table; what others wrote meanwhile is not in it. */
  @Test
  void aDropIsAConflict() {
    Transaction txn = begin();
    rewrite(in(txn), 1);
    handle.catalog(() -> txn).dropTable(id(DAYS), false);
    appendTo(auto(), 3, 30);
    conflict(txn::commit);
  }

  /** What happened since is not there any more: it may have been anything. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void expiredSnapshotsAreAGap(boolean withTheirFiles) {
    Transaction txn = begin();
    rewrite(in(txn), 1);
    for (long each = 50; each < 53; each++) {
      appendTo(auto(), 2, each);
    }
    handle.tidy();
    Table plain = lake.catalog().loadTable(id(DAYS));
    long main = plain.currentSnapshot().snapshotId();
    ExpireSnapshots expiry = plain.expireSnapshots().cleanExpiredFiles(withTheirFiles);
    for (Snapshot each : plain.snapshots()) {
      if (each.snapshotId() != main) {
        expiry.expireSnapshotId(each.snapshotId());
      }
    }
    expiry.commit();
    conflict(txn::commit);
  }

  /** Lists and manifests of the first make, and files that came and went within it. */
  @Test
  void nothingIsLeftOfWhatWasMadeAgain() throws Exception {
    Transaction txn = begin();
    Lake.written(txn, () -> Write.SEVERAL.run(in(txn), 1));
    rewriteOther();
    txn.commit();
    Set<String> named = new TreeSet<>();
    Table table = lake.catalog().loadTable(id(DAYS));
    for (Snapshot each : table.snapshots()) {
      named.add(name(each.manifestListLocation()));
      for (ManifestFile manifest : each.allManifests(table.io())) {
        named.add(name(manifest.path()));
      }
      each.addedDataFiles(table.io()).forEach(file -> named.add(name(file.location())));
      each.addedDeleteFiles(table.io()).forEach(file -> named.add(name(file.location())));
    }
    assertThat(lake.filesBelow("").stream().map(Path::toString))
        .filteredOn(path -> path.contains("/days/") && !path.endsWith(".metadata.json"))
        .filteredOn(path -> !path.endsWith(".crc"))
        .extracting(ByFileTest::name)
        .isSubsetOf(named);
  }

  private static String name(String path) {
    return path.substring(path.lastIndexOf('/') + 1);
  }

  /** What is made again on one head is made again on the next, from what was staged. */
  @Test
  void oneAttemptOfMany() {
    Transaction txn = begin();
    Write.SEVERAL.run(in(txn), 1);
    for (long day = 5; day < 9; day++) {
      appendTo(auto(), day, 10 * day);
      Transaction other = begin();
      Write.OVERWRITE.run(in(other), day);
      other.commit();
    }
    txn.commit();
    assertThat(lake.plainIds(DAYS)).containsExactlyInAnyOrder(16L, 20L, 21L, 55L, 65L, 75L, 85L);
  }

  /** The caller's words stay, what a snapshot counts is counted again. */
  @Test
  void summariesAreMadeAgain() {
    auto().updateProperties().set("write.summary.partition-limit", "9").commit();
    Transaction txn = begin();
    in(txn).newDelete().deleteFromRowFilter(day(1)).set("job", "nightly").commit();
    appendTo(in(txn), 3, 30);
    rewriteOther();
    txn.commit();
    Map<String, String> told = lake.catalog().loadTable(id(DAYS)).currentSnapshot().summary();
    assertThat(told).containsEntry("job", "nightly").containsKey("partitions.day=3");
    assertThat(told.keySet()).noneMatch(key -> key.equals("partitions.day=2"));
    assertThat(lake.plainIds(DAYS)).containsExactly(21L, 30L);
  }

  /** A table of format 3 numbers rows: one operation can be made again, several cannot. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void formatThree(boolean several) {
    Table plain = lake.catalog().loadTable(id(DAYS));
    plain.updateProperties().set("format-version", "3").commit();
    TxnHandle fresh = lake.open();
    Transaction txn = fresh.begin(BeginOptions.defaults());
    Table table = fresh.catalog(() -> txn).loadTable(id(DAYS));
    rewrite(table, 1);
    if (several) {
      appendTo(table, 1, 15);
    }
    Table other = fresh.catalog(() -> null).loadTable(id(DAYS));
    appendTo(other, 2, 60, 61, 62);
    if (several) {
      conflict(txn::commit);
    } else {
      txn.commit();
      assertThat(lake.plainIds(DAYS)).containsExactly(11L, 20L, 21L, 60L, 61L, 62L);
    }
  }

  /** Nothing that it read is met, and somebody removes the file that it wants to remove. */
  @Test
  void aFileIsTakenAwayOnce() {
    BiConsumer<Table, Long> delete =
        (table, amount) ->
            table
                .newOverwrite()
                .conflictDetectionFilter(Expressions.equal("amount", amount))
                .deleteFile(files(table, Expressions.equal("id", 10L)).get(0))
                .commit();
    Transaction one = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    Transaction two = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    delete.accept(in(one), 1L);
    delete.accept(in(two), 2L);
    one.commit();
    conflict(two::commit);
  }

  /** Outside a transaction Iceberg decides, as before. */
  @Test
  void aStatementAloneIsIcebergs() {
    Table stale = auto();
    long snapshot = stale.currentSnapshot().snapshotId();
    appendTo(auto(), 1, 77);
    assertThatThrownBy(
            () ->
                stale
                    .newOverwrite()
                    .overwriteByRowFilter(day(1))
                    .validateFromSnapshot(snapshot)
                    .validateNoConflictingData()
                    .addFile(file(stale, 1, 5))
                    .commit())
        .isInstanceOf(ValidationException.class);
  }
}
