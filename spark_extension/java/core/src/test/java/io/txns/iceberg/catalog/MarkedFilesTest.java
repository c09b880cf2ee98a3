package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.LongStream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileMetadata;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What marks rows of one data file counts for that, not for its partition (docs/isolation.md). */
@Timeout(60)
class MarkedFilesTest {
  private static final String DAYS = "shop.days";

  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  /** Day 1 has rows 10 and 11 in one file, 12 and 13 in another, and so on up to 19. */
  private void begin(String format) {
    lake = new Lake(newFolder(format));
    handle = lake.open();
    Days.create(lake, DAYS, Map.of("format-version", format));
    handle.register(id(DAYS));
    lake.create(handle, "shop.elsewhere");
    for (long each = 12; each < 20; each += 2) {
      auto().newAppend().appendFile(file(auto(), 1, each, each + 1)).commit();
    }
  }

  private Path newFolder(String name) {
    try {
      return Files.createDirectory(folder.resolve(name));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private Table auto() {
    return handle.catalog(() -> null).loadTable(id(DAYS));
  }

  private Table in(Transaction txn) {
    return handle.catalog(() -> txn).loadTable(id(DAYS));
  }

  private Transaction reader(long row) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    assertThat(files(in(txn), of(row))).hasSize(1);
    Lake.append(handle.catalog(() -> txn).loadTable(id("shop.elsewhere")), row);
    return txn;
  }

  private static Expression of(long row) {
    return Expressions.and(Days.day(row / 10), Expressions.equal("id", row));
  }

  private static List<DeleteFile> marks(Table table, List<DataFile> files) {
    return TableUtil.formatVersion(table) > 2
        ? Days.vectors(table, files)
        : List.of(Days.marks(table, 1, files));
  }

  private static List<DataFile> filesOf(Table table, long... rows) {
    return LongStream.of(rows).boxed().flatMap(row -> files(table, of(row)).stream()).toList();
  }

  private static RowDelta deltaOn(Table table) {
    return table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId());
  }

  /** Mark the first rows of the files that have some rows, as merge-on-read does. */
  private static void mark(Table table, long... rows) {
    RowDelta delta = deltaOn(table);
    Expression filter = Expressions.alwaysFalse();
    for (long row : rows) {
      filter = Expressions.or(filter, of(row));
    }
    delta.conflictDetectionFilter(filter);
    marks(table, filesOf(table, rows)).forEach(delta::addDeletes);
    delta.commit();
  }

  /** Write the file of a row again without its first row, as copy-on-write does. */
  private static void rewrite(Table table, long row) {
    OverwriteFiles overwrite = table.newOverwrite().conflictDetectionFilter(of(row));
    filesOf(table, row).forEach(overwrite::deleteFile);
    overwrite.addFile(file(table, 1, row + 1)).commit();
  }

  private static void conflict(ThrowingCallable commit) {
    assertThatThrownBy(commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"));
  }

  private List<Transaction> begun(Isolation level) {
    BeginOptions options = BeginOptions.defaults().withIsolation(level);
    return List.of(handle.begin(options), handle.begin(options), handle.begin(options));
  }

  @ParameterizedTest
  @EnumSource(
      value = Isolation.class,
      names = {"SNAPSHOT", "STRICT_SERIALIZABLE"})
  void twoFilesOfOneDayDoNotClash(Isolation level) {
    for (String format : List.of("2", "3")) {
      begin(format);
      List<Transaction> three = begun(level);
      mark(in(three.get(0)), 10);
      mark(in(three.get(1)), 12);
      rewrite(in(three.get(2)), 14);
      Transaction reader = reader(16);
      mark(auto(), 18);
      three.forEach(Transaction::commit);
      reader.commit();
      assertThat(lake.plainIds(DAYS)).containsExactly(11L, 13L, 15L, 16L, 17L, 19L, 20L, 21L);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Isolation.class,
      names = {"SNAPSHOT", "STRICT_SERIALIZABLE"})
  void oneFileClashes(Isolation level) {
    for (String format : List.of("2", "3")) {
      begin(format);
      List<Transaction> three = begun(level);
      mark(in(three.get(0)), 10);
      mark(in(three.get(1)), 12, 10);
      rewrite(in(three.get(2)), 10);
      Transaction reader = reader(10);
      mark(auto(), 10, 18);
      three.forEach(txn -> conflict(txn::commit));
      conflict(reader::commit);
    }
  }

  /** What it wrote over is its own matter, also where its filter has met nothing. */
  @ParameterizedTest
  @ValueSource(strings = {"2", "3"})
  void whatItRewroteMustStandAsItWas(String format) {
    begin(format);
    DeleteFile marks = marks(auto(), filesOf(auto(), 10)).get(0);
    auto().newRowDelta().addDeletes(marks).commit();
    Expression nothing = Expressions.equal("id", 77L);
    List<Transaction> three = begun(Isolation.SNAPSHOT);
    Table rewrites = in(three.get(0));
    rewrites
        .newOverwrite()
        .conflictDetectionFilter(nothing)
        .deleteFile(filesOf(auto(), 10).get(0))
        .addFile(file(rewrites, 1, 11))
        .commit();
    Table other = in(three.get(1));
    other
        .newOverwrite()
        .conflictDetectionFilter(nothing)
        .deleteFile(filesOf(auto(), 12).get(0))
        .commit();
    auto().newRowDelta().removeDeletes(marks).commit();
    conflict(three.get(0)::commit);
    three.get(1).commit();
    assertThat(lake.plainIds(DAYS)).contains(10L, 11L).doesNotContain(12L, 13L);
  }

  /** Vectors of one file, of which each transaction replaces another one. */
  @ParameterizedTest
  @ValueSource(longs = {10, 12})
  void vectorsShareAFile(long row) {
    begin("3");
    mark(auto(), 10, 12);
    List<Transaction> two = begun(Isolation.STRICT_SERIALIZABLE);
    replaceVector(in(two.get(0)), 10);
    replaceVector(in(two.get(1)), row);
    two.get(0).commit();
    if (row == 10) {
      conflict(two.get(1)::commit);
    } else {
      two.get(1).commit();
      assertThat(lake.plainIds(DAYS)).doesNotContain(10L, 11L, 12L, 13L).contains(14L);
    }
  }

  private static void replaceVector(Table table, long row) {
    RowDelta delta = deltaOn(table).conflictDetectionFilter(of(row));
    try (CloseableIterable<FileScanTask> tasks = table.newScan().filter(of(row)).planFiles()) {
      for (FileScanTask task : tasks) {
        task.deletes().forEach(delta::removeDeletes);
        delta.addDeletes(Days.vector(table, task.file(), 0, 1));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    delta.commit();
  }

  /** What says not of which file it is, or of several, or of one that nobody knows. */
  @ParameterizedTest
  @ValueSource(strings = {"of several", "of nobody's", "named alone"})
  void otherwiseThePartitionCounts(String kind) {
    begin("2");
    Transaction sameDay = reader(10);
    Transaction otherDay = reader(20);
    Table table = auto();
    List<DataFile> two = filesOf(table, 12, 14);
    DeleteFile marks =
        switch (kind) {
          case "of several" -> Days.marks(table, 1, two);
          case "of nobody's" -> named(table, two.get(0), "file:///lake/nobody-knows.parquet");
          default -> named(table, two.get(0), two.get(0).location());
        };
    table.newRowDelta().addDeletes(marks).commit();
    otherDay.commit();
    if (kind.equals("named alone")) {
      sameDay.commit();
    } else {
      conflict(sameDay::commit);
    }
  }

  /** A delete file that says in its manifest alone of which file it is. */
  private static DeleteFile named(Table table, DataFile of, String path) {
    return FileMetadata.deleteFileBuilder(table.spec())
        .copy(Days.marks(table, 1, List.of(of)).copyWithoutStats())
        .withReferencedDataFile(path)
        .build();
  }

  /** Its rows are in base or head, wherever its manifests say so; others are not opened. */
  @ParameterizedTest
  @ValueSource(longs = {10, 13})
  void aMarkedFileThatIsGoneIsLookedUpWhereItWas(long row) {
    begin("2");
    Transaction reader = reader(row);
    Table table = auto();
    mark(table, 12);
    List<DataFile> gone = new ArrayList<>(files(auto(), Days.day(1)));
    auto()
        .newRewrite()
        .validateFromSnapshot(auto().currentSnapshot().snapshotId())
        .rewriteFiles(Set.copyOf(gone), Set.of(file(table, 1, 10, 11, 13, 14, 15, 16, 17, 18, 19)))
        .commit();
    if (row == 10) {
      reader.commit();
    } else {
      conflict(reader::commit);
    }
  }
}
