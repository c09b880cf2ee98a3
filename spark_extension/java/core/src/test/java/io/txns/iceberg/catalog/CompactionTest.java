package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expressions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Compactions by Iceberg's own API, inside of transactions and outside. */
@Timeout(60)
class CompactionTest {
  private static final String DAYS = "shop.days";

  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;
  private TxnHandle lazy;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lazy = lake.open(Map.of("txns.apply", "next"));
    Days.create(lake, DAYS, Map.of("format-version", "2"));
    handle.register(id(DAYS));
    appendTo(auto(handle), 1, 12);
  }

  private static Transaction begin(TxnHandle ours) {
    return ours.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
  }

  private static Table in(TxnHandle ours, Transaction txn) {
    return ours.catalog(() -> txn).loadTable(id(DAYS));
  }

  private static Table auto(TxnHandle ours) {
    return in(ours, null);
  }

  private static void appendTo(Table table, long day, long... ids) {
    table.newAppend().appendFile(file(table, day, ids)).commit();
  }

  /** The files of the first day as one, which has these rows. */
  private static RewriteFiles compaction(Table table, long... ids) {
    RewriteFiles rewrite = table.newRewrite();
    rewrite.validateFromSnapshot(table.currentSnapshot().snapshotId());
    files(table, day(1)).forEach(rewrite::deleteFile);
    return rewrite.addFile(file(table, 1, ids));
  }

  private List<Long> rows() {
    handle.apply();
    return lake.plainIds(DAYS);
  }

  private TransactionRow last() {
    List<TransactionRow> all = handle.transactions();
    return all.stream().max((one, two) -> Long.compare(one.commitTs(), two.commitTs())).get();
  }

  /** It clashes over its files, and over what it has scanned for them, and is one again. */
  @Test
  void whatOthersDoToOtherFilesIsNoConflict() {
    Transaction txn = begin(handle);
    compaction(in(handle, txn), 10, 11, 12).commit();
    appendTo(auto(handle), 3, 13);
    auto(handle).newDelete().deleteFromRowFilter(day(2)).commit();
    txn.commit();
    assertThat(rows()).containsExactly(10L, 11L, 12L, 13L);
    assertThat(last().operation()).isEqualTo("replace");
    assertThat(lake.catalog().loadTable(id(DAYS)).currentSnapshot().operation())
        .isEqualTo("replace");
    assertThat(files(auto(handle), day(1))).hasSize(1);
  }

  @Test
  void whatOthersDoToItsFilesIs() {
    Transaction txn = begin(handle);
    compaction(in(handle, txn), 10, 11, 12).commit();
    Table table = auto(handle);
    List<DataFile> read = files(table, day(1));
    table.newOverwrite().deleteFile(read.get(0)).addFile(file(table, 1, 19)).commit();
    List<Long> before = rows();
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining("wrote over was written");
    assertThat(rows()).isEqualTo(before);
  }

  /** Who has read what it rewrites, or changes other files, goes on over it. */
  @Test
  void othersGoOnOverIt() {
    Transaction reads = handle.begin(BeginOptions.defaults());
    assertThat(files(in(handle, reads), Expressions.alwaysTrue())).hasSize(3);
    appendTo(in(handle, reads), 2, 29);
    Transaction elsewhere = begin(handle);
    in(handle, elsewhere).newDelete().deleteFromRowFilter(day(2)).commit();
    Transaction txn = begin(handle);
    compaction(in(handle, txn), 10, 11, 12).commit();
    txn.commit();
    elsewhere.commit();
    assertThat(rows()).containsExactly(10L, 11L, 12L);
  }

  /**
   * Rows that were written with the delete of older ones stay, whatever numbers they get.
   *
   * <p>1. An upsert, by an equality delete, is not applied. 2. A compaction stands on it, whose
   * files are to count as old as that. 3. A stranger compacts other files, so that the upsert gets
   * greater numbers as it is applied. 4. Somebody writes the table, so that the compaction is made
   * again.
   */
  @ParameterizedTest
  @ValueSource(strings = {"inside", "in steps", "outside"})
  void whatCountsAsOldLosesNoRows(String where) {
    Table upserted = auto(lazy);
    upserted
        .newRowDelta()
        .addDeletes(Days.equality(upserted, 1, 10))
        .addRows(file(upserted, 1, 10))
        .commit();
    Transaction txn = where.equals("outside") ? null : begin(lazy);
    Table table = in(lazy, txn);
    var steps = where.equals("in steps") ? table.newTransaction() : null;
    RewriteFiles rewrite = steps == null ? table.newRewrite() : steps.newRewrite();
    files(table, day(1)).forEach(rewrite::deleteFile);
    rewrite
        .validateFromSnapshot(table.currentSnapshot().snapshotId())
        .dataSequenceNumber(table.currentSnapshot().sequenceNumber())
        .addFile(file(table, 1, 10, 11, 12));
    if (txn != null) {
      commit(rewrite, steps);
    }
    stranger();
    handle.apply();
    appendTo(auto(handle), 2, 22);
    if (txn != null) {
      txn.commit();
    } else {
      commit(rewrite, steps);
    }
    assertThat(rows()).containsExactly(10L, 11L, 12L, 20L, 21L, 22L);
  }

  /** The same, where the upsert is the transaction's own. */
  @Test
  void whatCountsAsOldAsItsOwnUpsertLosesNoRows() {
    Transaction txn = begin(lazy);
    Table table = in(lazy, txn);
    table
        .newRowDelta()
        .addDeletes(Days.equality(table, 1, 10))
        .addRows(file(table, 1, 10))
        .commit();
    compaction(table, 10, 11, 12)
        .dataSequenceNumber(table.currentSnapshot().sequenceNumber())
        .commit();
    txn.commit();
    stranger();
    assertThat(rows()).containsExactly(10L, 11L, 12L, 20L, 21L);
  }

  /** Deletes of a newer number than a file's would take rows from it that it has not lost yet. */
  @Test
  void filesThatCountAsOlderThanWhatTheyAreMadeOfAreRefused() {
    Transaction txn = begin(handle);
    Table table = in(handle, txn);
    RewriteFiles rewrite = compaction(table, 10, 11, 12).dataSequenceNumber(1);
    assertThatThrownBy(rewrite::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("dataSequenceNumber");
  }

  private void stranger() {
    Table plain = lake.catalog().loadTable(id(DAYS));
    RewriteFiles rewrite = plain.newRewrite();
    files(plain, day(2)).forEach(rewrite::deleteFile);
    rewrite.addFile(file(plain, 2, 20, 21)).commit();
  }

  private static void commit(RewriteFiles rewrite, org.apache.iceberg.Transaction steps) {
    rewrite.commit();
    if (steps != null) {
      steps.commitTransaction();
    }
  }
}
