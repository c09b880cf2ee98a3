package io.txns.iceberg.admin;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Archive;
import io.txns.iceberg.log.EntryKind;
import java.io.IOException;
import java.util.UUID;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptionKeyMetadata;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.DataWriter;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** One table of format 3 brought into the epoch of a log that was recovered (docs/spec.md 9.6). */
class TableRecoveryTest extends TwoTables {
  private Snapshot shown;

  /** c has 1, and 6, which the log lacks that was set back to before it. */
  @BeforeEach
  void makeTable() {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "3").create();
    handle.register(id("shop.c"));
    append(ours.loadTable(id("shop.c")), 1);
  }

  /** Append 6 to c, and set the log back to before that; then a transaction of before commits. */
  private long gonePast(Transaction late) {
    BaseTable log = (BaseTable) outside.loadTable(id("txns.commits"));
    String before = log.operations().current().metadataFileLocation();
    append(ours.loadTable(id("shop.c")), 6);
    shown = outside.loadTable(id("shop.c")).currentSnapshot();
    outside.dropTable(id("txns.commits"), false);
    outside.registerTable(id("txns.commits"), before);
    return late.commit().commitTs();
  }

  private Transaction late() {
    TxnHandle other = lake.open();
    Transaction late = other.begin(BeginOptions.defaults());
    Lake.overwrite(other.catalog(() -> late).loadTable(id("shop.c")), 5);
    append(other.catalog(() -> late).loadTable(id("shop.b")), 5);
    return late;
  }

  /** What `txns recover` does to the log: it archives what c shows, and begins an epoch. */
  private void recoverLog(long commitTs, long upper) throws IOException {
    recoverLog("shop.c", commitTs, upper);
  }

  private void recoverLog(String table, long commitTs, long upper) throws IOException {
    archive(table, commitTs, upper);
    Table log = outside.loadTable(id("txns.commits"));
    log.updateProperties().set("txns.log-id", log.uuid() + "-5f2c9a01").commit();
  }

  /** Archive what a table shows, at a time of the log's. */
  private void archive(String table, long commitTs, long upper) throws IOException {
    Table log = outside.loadTable(id("txns.commits"));
    Table told = outside.loadTable(id(table));
    TransactionRow row =
        new TransactionRow(
            commitTs,
            commitTs,
            shown.summary().get("txns.txn-id"),
            "commit",
            table,
            told.uuid().toString(),
            "append",
            shown.parentId(),
            shown.snapshotId(),
            1L,
            0L,
            commitTs - 1,
            "snapshot",
            "",
            "",
            true);
    log.newFastAppend()
        .appendFile(file(log, row))
        .set("txns.format-version", "1")
        .set("txns.kind", "tidy")
        .set("txns.txn-id", "recovery")
        .set("txns.upper", Long.toString(upper))
        .set("txns.tidied-upto", Long.toString(upper))
        .commit();
  }

  private static DataFile file(Table log, TransactionRow row) throws IOException {
    String name = log.locationProvider().newDataLocation(UUID.randomUUID() + ".parquet");
    var to =
        EncryptedFiles.encryptedOutput(log.io().newOutputFile(name), EncryptionKeyMetadata.EMPTY);
    DataWriter<Record> writer =
        FormatModelRegistry.<Record, Schema>dataWriteBuilder(FileFormat.PARQUET, Record.class, to)
            .schema(log.schema())
            .spec(PartitionSpec.unpartitioned())
            .build();
    try (writer) {
      writer.write(Archive.record(row));
    }
    return writer.toDataFile();
  }

  /** Leave nothing of what c was before, as an expiry does in time. */
  private void expireAllBelow(Snapshot kept) {
    Table table = outside.loadTable(id("shop.c"));
    ExpireSnapshots expiry = table.expireSnapshots().cleanExpiredFiles(false);
    for (Snapshot each : table.snapshots()) {
      if (each.snapshotId() != kept.snapshotId()) {
        expiry.expireSnapshotId(each.snapshotId());
      }
    }
    expiry.commit();
  }

  private static long commitTs(Snapshot snapshot) {
    return Long.parseLong(snapshot.summary().get("txns.commit-ts"));
  }

  /**
   * A log that went past a table gives up there what it has, whatever died in between.
   *
   * <p>1. Who recovers the table has logged that, and dies before the table's swap. 2. The next one
   * finds the entry, and carries it out. 3. The table goes on.
   */
  @Test
  void aTableGivesUpWhatItIsPassedOverBy() throws IOException {
    long lateTs = gonePast(late());
    recoverLog(commitTs(shown), Math.max(lateTs, commitTs(shown)));
    TxnHandle dying =
        HookedOperations.open(
            lake,
            id("shop.c"),
            (real, base, next) -> {
              throw new IllegalStateException("died");
            },
            Lake.CLOCK);
    assertThatThrownBy(() -> dying.recover(id("shop.c"))).hasMessage("died");
    assertThatThrownBy(() -> lake.txnIds("shop.c")).hasMessageContaining("txns recover");

    long upper = lake.open().recover(id("shop.c"));
    assertThat(lake.open().recover(id("shop.c"))).isEqualTo(upper).isGreaterThan(lateTs);
    assertThat(Lake.standing(lake.open()))
        .filteredOn(entry -> entry.kind() == EntryKind.REPAIR)
        .singleElement()
        .matches(entry -> entry.commitTs() == upper);
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 6L);
    lake.open().recover(id("shop.b"));
    assertThat(lake.txnIds("shop.b")).containsExactly(5L);
    TxnHandle again = lake.open();
    assertThatCIsTooOldAt(lateTs, again);
    assertThatCGoesOn(again);
  }

  private static void assertThatCIsTooOldAt(long ts, TxnHandle again) {
    Transaction old = again.begin(BeginOptions.defaults().withAsOf(ts));
    assertThatThrownBy(() -> again.catalog(() -> old).loadTable(id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("too old");
  }

  private void assertThatCGoesOn(TxnHandle again) {
    append(again.catalog(() -> null).loadTable(id("shop.c")), 7);
    assertThat(again.tidy()).isPositive();
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 6L, 7L);
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 6L, 7L);
  }

  /** What a recovery has moved, since the log had another entry at its time, is there then. */
  @Test
  void aTableShowsWhatHasMovedAtItsNewPlace() throws IOException {
    Transaction late = late();
    long lateTs = gonePast(late);
    long movedTs = Math.max(lateTs, commitTs(shown)) + 10;
    recoverLog(movedTs, movedTs);
    assertThat(lake.open().recover(id("shop.c"))).isEqualTo(movedTs);
    Catalog again = lake.open().catalog(() -> null);
    assertThat(ids(again.loadTable(id("shop.c")))).containsExactly(1L, 6L);
    assertThat(outside.loadTable(id("shop.c")).properties())
        .containsEntry("txns.applied", Long.toString(movedTs));
    append(again.loadTable(id("shop.c")), 7);
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 6L, 7L);
  }

  /**
   * An attempt of before lands on a log that was set back, and the table shows the one after it:
   * the log's stands, and the table shows it from its recovery on.
   */
  @ParameterizedTest(name = "what was before is expired: {0}")
  @ValueSource(booleans = {false, true})
  void aTableThatShowsALaterAttemptThanTheLog(boolean expired) throws IOException {
    BaseTable log = (BaseTable) outside.loadTable(id("txns.commits"));
    long before = handle.upper();
    String version = log.operations().current().metadataFileLocation();
    append(ours.loadTable(id("shop.c")), 6);
    shown = outside.loadTable(id("shop.c")).currentSnapshot();
    outside.dropTable(id("txns.commits"), false);
    outside.registerTable(id("txns.commits"), version);
    long firstTs = commitTs(shown) - 1;
    assertThat(firstTs).isGreaterThan(before);
    recoverLog(firstTs, commitTs(shown));
    if (expired) {
      expireAllBelow(shown);
    }

    long upper = lake.open().recover(id("shop.c"));
    assertThat(lake.open().recover(id("shop.c"))).isEqualTo(upper).isGreaterThan(commitTs(shown));
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 6L);
    TxnHandle again = lake.open();
    for (long ts = firstTs; ts <= commitTs(shown); ts++) {
      assertThatCIsTooOldAt(ts, again);
    }
    assertThatCGoesOn(again);
  }

  /** It would become the log's with that. */
  @Test
  void whatAStrangerWroteSinceIsSetAsideFirst() throws IOException {
    long lateTs = gonePast(late());
    recoverLog(commitTs(shown), Math.max(lateTs, commitTs(shown)));
    Table table = outside.loadTable(id("shop.c"));
    append(table, 66);
    assertThatThrownBy(() -> lake.open().recover(id("shop.c")))
        .hasMessageContaining("last=`" + shown.snapshotId() + "`");
    table.manageSnapshots().rollbackTo(shown.snapshotId()).commit();
    lake.open().recover(id("shop.c"));
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 6L);
  }

  /** A clock at the end of time wrote it; the log's time was taken back (docs/spec.md 9.6). */
  @Test
  void aTableOfTheLastYearFollowsTheLog() throws IOException {
    long upper = handle.upper();
    BaseTable log = (BaseTable) outside.loadTable(id("txns.commits"));
    String before = log.operations().current().metadataFileLocation();
    TxnHandle ahead = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, new LastYear());
    append(ahead.catalog(() -> null).loadTable(id("shop.c")), 6);
    shown = outside.loadTable(id("shop.c")).currentSnapshot();
    outside.dropTable(id("txns.commits"), false);
    outside.registerTable(id("txns.commits"), before);
    recoverLog(upper + 1, upper + 1);
    assertThat(lake.open().recover(id("shop.c"))).isEqualTo(upper + 1);
    assertThat(outside.loadTable(id("shop.c")).properties())
        .containsEntry("txns.applied", Long.toString(upper + 1));
    Catalog again = lake.open().catalog(() -> null);
    assertThat(ids(again.loadTable(id("shop.c")))).containsExactly(1L, 6L);
    append(again.loadTable(id("shop.c")), 7);
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 6L, 7L);
  }

  /**
   * Between several late changes no snapshot is of its new time: what lies there is gone, as where
   * pyiceberg writes the table.
   */
  @Test
  void severalLateChangesOfATableLeaveNothingBetweenThem() throws IOException {
    long upper = handle.upper();
    BaseTable log = (BaseTable) outside.loadTable(id("txns.commits"));
    String before = log.operations().current().metadataFileLocation();
    Catalog ahead = inTheLastYear().catalog(() -> null);
    append(ahead.loadTable(id("shop.c")), 6);
    Snapshot first = outside.loadTable(id("shop.c")).currentSnapshot();
    append(ahead.loadTable(id("shop.c")), 7);
    Snapshot second = outside.loadTable(id("shop.c")).currentSnapshot();
    setBack(before);
    shown = first;
    archive("shop.c", upper + 1, upper + 1);
    shown = second;
    recoverLog(upper + 2, upper + 2);
    lake.open().recover(id("shop.c"));
    Table found = outside.loadTable(id("shop.c"));
    assertThat(found.properties()).containsEntry("txns.applied", Long.toString(upper + 2));
    assertThat(found.currentSnapshot().summary())
        .containsEntry("txns.lost-above", Long.toString(upper))
        .containsEntry("txns.commit-ts", Long.toString(upper + 2));
    Catalog again = lake.open().catalog(() -> null);
    assertThat(ids(again.loadTable(id("shop.c")))).containsExactly(1L, 6L, 7L);
    append(again.loadTable(id("shop.c")), 8);
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 6L, 7L, 8L);
  }

  /** A table that such a clock has created was created when the log says so since. */
  @Test
  void aTableThatWasCreatedInTheLastYearFollowsTheLog() throws IOException {
    long upper = handle.upper();
    BaseTable log = (BaseTable) outside.loadTable(id("txns.commits"));
    String before = log.operations().current().metadataFileLocation();
    inTheLastYear()
        .catalog(() -> null)
        .buildTable(id("shop.d"), Lake.SCHEMA)
        .withProperty("format-version", "3")
        .create();
    shown = outside.loadTable(id("shop.d")).currentSnapshot();
    assertThat(outside.loadTable(id("shop.d")).properties())
        .containsEntry("txns.created", shown.summary().get("txns.commit-ts"));
    setBack(before);
    recoverLog("shop.d", upper + 1, upper + 1);
    lake.open().recover(id("shop.d"));
    assertThat(outside.loadTable(id("shop.d")).properties())
        .containsEntry("txns.applied", Long.toString(upper + 1))
        .containsEntry("txns.created", Long.toString(upper + 1));
    append(lake.open().catalog(() -> null).loadTable(id("shop.d")), 7);
    assertThat(lake.plainIds("shop.d")).containsExactly(7L);
  }

  private TxnHandle inTheLastYear() {
    return TxnHandle.open("lake", lake.catalog(), Lake.INLINE, new LastYear());
  }

  private void setBack(String location) {
    outside.dropTable(id("txns.commits"), false);
    outside.registerTable(id("txns.commits"), location);
  }

  /** Registered by such a clock, it shows nothing that the log lacks; its time is the log's. */
  @Test
  void aTableThatWasRegisteredInTheLastYearFollowsTheLog() throws IOException {
    long upper = handle.upper();
    BaseTable log = (BaseTable) outside.loadTable(id("txns.commits"));
    String before = log.operations().current().metadataFileLocation();
    shown = outside.loadTable(id("shop.c")).currentSnapshot();
    TxnHandle ahead = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, new LastYear());
    append(ahead.catalog(() -> null).loadTable(id("shop.b")), 1);
    outside.buildTable(id("shop.d"), Lake.SCHEMA).withProperty("format-version", "3").create();
    append(outside.loadTable(id("shop.d")), 1);
    ahead.register(id("shop.d"));
    outside.dropTable(id("txns.commits"), false);
    outside.registerTable(id("txns.commits"), before);
    recoverLog(upper + 1, upper + 1);
    lake.open().recover(id("shop.d"));
    assertThat(outside.loadTable(id("shop.d")).properties())
        .containsEntry("txns.applied", Long.toString(upper + 1));
    append(lake.open().catalog(() -> null).loadTable(id("shop.d")), 7);
    assertThat(lake.plainIds("shop.d")).containsExactly(1L, 7L);
  }

  /** A clock at the end of time. */
  private static final class LastYear implements TxnClock {
    @Override
    public long nowMs() {
      return 253_402_300_000_000L;
    }

    @Override
    public String newTxnId() {
      return TxnClock.system().newTxnId();
    }

    @Override
    public void backOff(long maxMs) {
      Lake.CLOCK.backOff(maxMs);
    }
  }
}
