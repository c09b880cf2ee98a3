package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestWriter;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RewriteManifests;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
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
   * What was written by what the table holds, and does not say by which rows, is of all of them.
   */
  @Test
  void whoWritesBesideItByAllRowsLoses() {
    List<DataFile> read = files(auto(handle), day(1));
    Transaction txn = begin(handle);
    Table table = in(handle, txn);
    ((TxnTable) table).noteConditionalWrite(txn);
    RewriteFiles rewrite = table.newRewrite().addFile(file(table, 1, 10, 11, 12));
    read.forEach(rewrite::deleteFile);
    rewrite.commit();
    appendTo(auto(handle), 3, 13);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
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

  /**
   * Rows that were written with deletes of older ones stay, where Iceberg repeats an operation: it
   * keeps the manifests of both from its first try.
   *
   * <p>1. An upsert of two files is not applied. 2. A stranger takes its number. 3. An operation
   * writes its manifest anew, with that number. 4. It applies the upsert, which gets a greater one,
   * and loses to somebody's append.
   */
  @ParameterizedTest
  @ValueSource(strings = {"delete", "overwrite", "compaction"})
  void whatIcebergKeepsBetweenTriesLosesNoRows(String what) {
    Table upserted = auto(lazy);
    DataFile taken = file(upserted, 1, 10);
    upserted
        .newRowDelta()
        .addDeletes(Days.equality(upserted, 1, 10, 11))
        .addRows(taken)
        .addRows(file(upserted, 1, 11))
        .commit();
    stranger();
    AtomicBoolean first = new AtomicBoolean(true);
    Runnable other =
        () -> {
          if (first.getAndSet(false)) {
            appendTo(auto(handle), 2, 22);
          }
        };
    Catalog raced = new BeforeCommit(lake.catalog(), id("txns.commits"), other);
    Table table = auto(TxnHandle.open("lake", raced, Lake.INLINE, Lake.CLOCK));
    without(table, taken, what).commit();
    List<Long> rows = new ArrayList<>(List.of(11L, 12L, 20L, 21L, 22L));
    if (!what.equals("delete")) {
      rows.add(0, 10L);
    }
    assertThat(rows()).isEqualTo(rows);
  }

  /**
   * Nor are any lost by manifests that are made of what was read.
   *
   * <p>1. An upsert is not applied. 2. Somebody reads the manifests of the table's rows, and writes
   * them anew. 3. A stranger takes the upsert's number, which gets a greater one. 4. The manifests
   * are committed, in which its rows have the first.
   */
  @Test
  void manifestsThatWereMadeOfOtherNumbersLoseNoRows() throws IOException {
    Table upserted = auto(lazy);
    upserted
        .newRowDelta()
        .addDeletes(Days.equality(upserted, 1, 10))
        .addRows(file(upserted, 1, 10))
        .commit();
    Table table = auto(handle);
    RewriteManifests rewrite = manifests(table);
    stranger();
    handle.apply();
    Throwable refused = catchThrowable(rewrite::commit);
    assertThat(rows()).containsExactly(10L, 11L, 12L, 20L, 21L);
    assertThat(refused)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT))
        .hasMessageContaining("other sequence numbers");
    table.refresh();
    manifests(table).commit();
    assertThat(rows()).containsExactly(10L, 11L, 12L, 20L, 21L);
  }

  /** Those of the rows as one, as Spark's action makes it. */
  private static RewriteManifests manifests(Table table) throws IOException {
    String path = table.location() + "/metadata/" + UUID.randomUUID() + ".avro";
    RewriteManifests rewrite = table.rewriteManifests();
    ManifestWriter<DataFile> writer =
        ManifestFiles.write(2, table.spec(), table.io().newOutputFile(path), null);
    try (writer) {
      for (ManifestFile old : table.currentSnapshot().dataManifests(table.io())) {
        try (var read = ManifestFiles.read(old, table.io(), table.specs())) {
          for (DataFile file : read) {
            writer.existing(
                file, old.snapshotId(), file.dataSequenceNumber(), file.fileSequenceNumber());
          }
        }
        rewrite.deleteManifest(old);
      }
    }
    return rewrite.addManifest(writer.toManifestFile());
  }

  private static SnapshotUpdate<?> without(Table table, DataFile taken, String what) {
    return switch (what) {
      case "delete" -> table.newDelete().deleteFile(taken);
      case "overwrite" -> table.newOverwrite().deleteFile(taken).addFile(file(table, 1, 10));
      default ->
          table
              .newRewrite()
              .validateFromSnapshot(table.currentSnapshot().snapshotId())
              .deleteFile(taken)
              .addFile(file(table, 1, 10));
    };
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

  /** Iceberg asks for no such call, and would look through all that has ever been deleted. */
  @Test
  void whoDoesNotSayWhatHeHasReadIsValidatedFromThere() {
    Table table = auto(handle);
    table.newRowDelta().addDeletes(Days.equality(table, 1, 12)).commit();
    table.refresh();
    table
        .newRewrite()
        .rewriteFiles(
            Set.copyOf(files(table, day(1))),
            Set.of(file(table, 1, 10, 11)),
            table.currentSnapshot().sequenceNumber())
        .commit();
    assertThat(rows()).containsExactly(10L, 11L, 20L, 21L);
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
