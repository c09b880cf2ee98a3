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
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.meta.History;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A stranger's compaction that who has committed since leaves off main (docs/spec.md 9.2). */
@Timeout(60)
class LeftOffTest {
  private static final String DAYS = "shop.days";

  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  /** Days 1 to 3 have two files of two rows each: 10 to 13, 20 to 23, 30 to 33. */
  private Table create(String name, String format) {
    Table table = Days.create(lake, name, Map.of("format-version", format));
    for (long each : new long[] {12, 22, 30, 32}) {
      table.newAppend().appendFile(file(table, each / 10, each, each + 1)).commit();
    }
    return table;
  }

  @BeforeEach
  void open() {
    lake = new Lake(folder);
  }

  private void begin(String format) {
    create(DAYS, format);
    register();
  }

  private void register() {
    handle = lake.open();
    handle.register(id(DAYS));
    lake.create(handle, "shop.elsewhere");
  }

  private Table plain() {
    return lake.catalog().loadTable(id(DAYS));
  }

  private Table in(Transaction txn) {
    return handle.catalog(() -> txn).loadTable(id(DAYS));
  }

  /** Others compact the third day, past the protocol. */
  private void compact() {
    Table plain = plain();
    plain
        .newRewrite()
        .rewriteFiles(Set.copyOf(files(plain, day(3))), Set.of(file(plain, 3, 30, 31, 32, 33)))
        .commit();
  }

  private Transaction first(Write write, long day) {
    Transaction first = handle.begin(BeginOptions.defaults());
    first.comment("first");
    write.run(in(first), day);
    return first;
  }

  private Transaction onCompaction() {
    Transaction txn =
        handle.begin(BeginOptions.defaults().withIsolation(Isolation.STRICT_SERIALIZABLE));
    assertThat(in(txn).currentSnapshot().operation()).isEqualTo(DataOperations.REPLACE);
    return txn;
  }

  private void assertLeftOff() {
    TableMetadata metadata = ((HasTableOperations) plain()).operations().current();
    Set<Long> onMain = History.ancestors(metadata, metadata.currentSnapshot());
    assertThat(metadata.snapshots())
        .filteredOn(each -> each.operation().equals(DataOperations.REPLACE))
        .isNotEmpty()
        .extracting(Snapshot::snapshotId)
        .doesNotContainAnyElementsOf(onMain);
  }

  private static List<DeleteFile> marks(Table table, long day, List<DataFile> files) {
    return formatOf(table) > 2
        ? Days.vectors(table, files)
        : List.of(Days.marks(table, day, files));
  }

  private static int formatOf(Table table) {
    return TableUtil.formatVersion(table);
  }

  enum Write {
    /** The first file of a day is written again without its first row. */
    REWRITE {
      @Override
      void run(Table table, long day) {
        Expression first = first(day);
        OverwriteFiles overwrite = table.newOverwrite().conflictDetectionFilter(first);
        files(table, first).forEach(overwrite::deleteFile);
        overwrite.addFile(file(table, day, 10 * day + 1)).commit();
      }
    },
    MARK {
      @Override
      void run(Table table, long day) {
        Expression first = first(day);
        RowDelta delta =
            table
                .newRowDelta()
                .validateFromSnapshot(table.currentSnapshot().snapshotId())
                .conflictDetectionFilter(first);
        marks(table, day, files(table, first)).forEach(delta::addDeletes);
        delta.addRows(file(table, day, 10 * day + 6)).commit();
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
    READ_AND_APPEND {
      @Override
      void run(Table table, long day) {
        assertThat(files(table, day(day))).isNotEmpty();
        table.newAppend().appendFile(file(table, day, 10 * day + 8)).commit();
      }
    };

    static Expression first(long day) {
      return Expressions.and(day(day), Expressions.equal("id", 10 * day));
    }

    abstract void run(Table table, long day);
  }

  /** It changes another day than what is committed before it, and than what was compacted. */
  @ParameterizedTest
  @EnumSource(Write.class)
  void whoBeganOnItCommits(Write write) {
    begin("2");
    Transaction first = first(Write.REWRITE, 1);
    compact();
    Transaction second = onCompaction();
    write.run(in(second), 2);
    Transaction reader = onCompaction();
    assertThat(files(in(reader), day(3))).hasSize(1);
    Lake.append(handle.catalog(() -> reader).loadTable(id("shop.elsewhere")), 1);
    first.commit();
    assertLeftOff();
    second.commit();
    reader.commit();
    Table alone = create("shop.alone", "2");
    Write.REWRITE.run(alone, 1);
    write.run(alone, 2);
    assertThat(lake.plainIds(DAYS)).isEqualTo(Lake.ids(lake.catalog().loadTable(id("shop.alone"))));
  }

  /** Be it of rows that the compaction has in another file than who has changed them. */
  @ParameterizedTest
  @CsvSource({"REWRITE, 2", "MARK, 3", "OVERWRITE, 3", "READ_AND_APPEND, 2"})
  void whatItReadIsHeldAgainstWhatCame(Write write, String format) {
    begin(format);
    Transaction first = first(Write.MARK, 3);
    compact();
    Transaction second = onCompaction();
    write.run(in(second), 3);
    first.commit();
    assertLeftOff();
    List<Long> before = lake.plainIds(DAYS);
    assertThatThrownBy(second::commit)
        .hasMessageContaining("filter ")
        .hasMessageContaining("first");
    assertThat(lake.plainIds(DAYS)).isEqualTo(before);
  }

  /** They are not in the table any more; those that they were made of have its rows. */
  @ParameterizedTest
  @EnumSource(value = Write.class, names = "READ_AND_APPEND", mode = EnumSource.Mode.EXCLUDE)
  void whoRewritesItsFilesLoses(Write write) {
    begin("2");
    Transaction first = first(Write.REWRITE, 1);
    compact();
    Transaction second = onCompaction();
    write.run(in(second), 3);
    first.commit();
    List<Long> before = lake.plainIds(DAYS);
    assertThatThrownBy(second::commit).hasMessageContaining("were compacted by others");
    assertThat(lake.plainIds(DAYS)).isEqualTo(before);
  }

  /** They stood in another file, which is gone: what is left of theirs would go with them. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void whoRewritesAFileOfWhichItHasMarkedRowsLoses(boolean ofSeveral) {
    Table plain = create(DAYS, "2");
    List<DataFile> marked = files(plain, day(3));
    DeleteFile marks = Days.marks(plain, 3, marked);
    plain.newRowDelta().addDeletes(marks).commit();
    register();
    Transaction first = first(Write.REWRITE, 1);
    plain = plain();
    List<String> here = locations(files(plain, day(2)));
    List<DataFile> others = files(plain, ofSeveral ? day(2) : Write.first(2));
    plain
        .newRewrite()
        .validateFromSnapshot(plain.currentSnapshot().snapshotId())
        .deleteFile(marked.get(0))
        .deleteFile(marked.get(1))
        .deleteFile(marks)
        .addFile(file(plain, 3, 31, 33))
        .addFile(file(plain, 2, ofSeveral ? new long[] {20, 22} : new long[] {20}))
        .addFile(Days.marks(plain, 2, others))
        .commit();
    assertThat(Lake.ids(plain())).hasSize(10);
    Transaction second = onCompaction();
    Table table = in(second);
    Expression other = Expressions.and(day(2), Expressions.equal("id", 21L));
    OverwriteFiles overwrite = table.newOverwrite().conflictDetectionFilter(other);
    files(table, other).stream()
        .filter(each -> here.contains(each.location()))
        .forEach(overwrite::deleteFile);
    overwrite.commit();
    first.commit();
    assertLeftOff();
    assertThatThrownBy(second::commit).hasMessageContaining("were compacted by others");
    assertThat(lake.plainIds(DAYS)).contains(20L, 21L, 22L, 23L);
  }

  private static List<String> locations(List<DataFile> files) {
    return files.stream().map(DataFile::location).toList();
  }

  /** Of format 3; with rows that had no ids, it would write those that they have there no more. */
  @ParameterizedTest
  @CsvSource({"false, REWRITE", "true, REWRITE", "false, MARK", "true, MARK"})
  void whoWritesRowsWithTheirIds(boolean hadIds, Write write) {
    begin(hadIds ? "3" : "2");
    if (!hadIds) {
      plain().updateProperties().set("format-version", "3").commit();
      handle = lake.open();
    }
    Transaction first = first(Write.REWRITE, 1);
    compact();
    Transaction second = onCompaction();
    write.run(in(second), 2);
    first.commit();
    assertLeftOff();
    if (hadIds) {
      second.commit();
      assertThat(lake.plainIds(DAYS))
          .hasSize(write == Write.REWRITE ? 10 : 11)
          .doesNotContain(10L, 20L);
    } else {
      assertThatThrownBy(second::commit).hasMessageContaining("wrote over");
    }
  }
}
