package io.txns.iceberg.log;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.exceptions.NotFoundException;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Logs that lack what their tables show: restored from a backup, or lost (docs/spec.md 9.6). */
class LogSetBackTest extends TwoTables {
  private String before;

  /** 2 was appended to a, and the log is as it was before that; b knows nothing of it. */
  @BeforeEach
  void setBack() {
    before = logLocation();
    append(ours.loadTable(id("shop.a")), 2);
    registerLog(before);
  }

  private String logLocation() {
    return ((BaseTable) outside.loadTable(id("txns.commits")))
        .operations()
        .current()
        .metadataFileLocation();
  }

  private void registerLog(String location) {
    outside.dropTable(id("txns.commits"), false);
    outside.registerTable(id("txns.commits"), location);
  }

  private static void assertTold(ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG))
        .hasMessageContaining("txns recover");
  }

  @Test
  void anEntryThatTheLogLacksIsToldAtTheFirstStatement() {
    Catalog again = lake.open().catalog(() -> null);
    assertTold(() -> again.loadTable(id("shop.a")));
    append(again.loadTable(id("shop.b")), 8);
    assertThat(lake.plainIds("shop.b")).containsExactly(8L);
  }

  /** A greater upper hides what is missing: a was read as if nothing was. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void itStaysToldWhenTheLogHasGonePastIt(boolean tidied) {
    TxnHandle handle = lake.open();
    append(handle.catalog(() -> null).loadTable(id("shop.b")), 8);
    if (tidied) {
      assertThat(handle.tidy()).isPositive();
      handle = lake.open();
    }
    Catalog again = handle.catalog(() -> null);
    assertTold(() -> again.loadTable(id("shop.a")));
  }

  /**
   * What was written since stands for nothing that was lost before.
   *
   * <ol>
   *   <li>The log has gone on; somebody loads the head, and a.
   *   <li>a is restored as well, and written; that leaves the head.
   *   <li>The archive is read.
   * </ol>
   */
  @Test
  void itIsToldWhateverALaterArchiveHas() {
    TxnHandle writer = lake.open();
    append(writer.catalog(() -> null).loadTable(id("shop.b")), 8);
    assertThat(writer.tidy()).isPositive();
    TxnHandle reader = lake.open();
    Head head = reader.services().log().load();
    BaseTable table = (BaseTable) lake.catalog().loadTable(id("shop.a"));
    List<TableMetadata.MetadataLogEntry> files = table.operations().current().previousFiles();
    outside.dropTable(id("shop.a"), false);
    outside.registerTable(id("shop.a"), files.get(files.size() - 1).file());
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(writer.tidy()).isPositive();
    assertTold(() -> reader.services().tables().live(id("shop.a"), table, head));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
  }

  /** One record that nobody can read stops everybody, and its error names what ends that. */
  @Test
  void aRecordThatCannotBeReadIsNamed() {
    Table log = outside.loadTable(id("txns.commits"));
    log.newFastAppend().set("txns.format-version", "1").set("txns.kind", "merge").commit();
    log.refresh();
    assertThatThrownBy(() -> lake.open().catalog(() -> null).loadTable(id("shop.b")))
        .hasMessageContaining("txns recover --void " + log.currentSnapshot().snapshotId());
  }

  @Test
  void aFileOfTheLogThatIsGoneIsToldWithItsCure() {
    TableOperations log = ((BaseTable) outside.loadTable(id("txns.commits"))).operations();
    log.io().deleteFile(log.current().metadataFileLocation());
    assertThatThrownBy(() -> lake.open().catalog(() -> null).loadTable(id("shop.b")))
        .isInstanceOf(NotFoundException.class)
        .hasMessageContaining("`txns recover`")
        .hasMessageContaining(log.current().metadataFileLocation());
  }

  /** Tables that pyiceberg does not write are brought into the epoch one by one. */
  @Test
  void aTableIsBroughtIntoTheEpochOfARecoveredLog() {
    Table log = outside.loadTable(id("txns.commits"));
    String logId = log.uuid() + "-5f2c9a01";
    log.updateProperties().set("txns.log-id", logId).commit();
    TxnHandle again = lake.open();
    assertTold(() -> again.catalog(() -> null).loadTable(id("shop.b")));
    again.recover(id("shop.b"));
    Snapshot marking = outside.loadTable(id("shop.b")).currentSnapshot();
    assertThat(marking.summary()).doesNotContainKey("txns.commit-ts"); // it is no registration's
    long footing = marking.snapshotId();
    again.recover(id("shop.b"));
    Table marked = outside.loadTable(id("shop.b"));
    assertThat(marked.currentSnapshot().snapshotId()).isEqualTo(footing);
    assertThat(marked.properties()).containsEntry("txns.log-id", logId);
    append(again.catalog(() -> null).loadTable(id("shop.b")), 8);
    assertThat(lake.plainIds("shop.b")).containsExactly(8L);
    // What the log lacks is not hidden by a mark.
    assertTold(() -> again.recover(id("shop.a")));
  }

  /** What was logged before a recovery, and is applied after it, belongs to the log as it is. */
  @Test
  void aTableThatIsMadeAfterARecoveryIsOfItsEpoch() {
    lake.open(Map.of("txns.apply", "next"))
        .catalog(() -> null)
        .createTable(id("shop.late"), Lake.SCHEMA);
    assertThat(outside.tableExists(id("shop.late"))).isFalse();
    Table log = outside.loadTable(id("txns.commits"));
    String logId = log.uuid() + "-5f2c9a01";
    log.updateProperties().set("txns.log-id", logId).commit();
    Catalog again = lake.open().catalog(() -> null);
    append(again.loadTable(id("shop.late")), 8);
    assertThat(outside.loadTable(id("shop.late")).properties()).containsEntry("txns.log-id", logId);
    assertThat(lake.plainIds("shop.late")).containsExactly(8L);
  }

  /** Who registers a table that another log has marked is told: it printed success before. */
  @Test
  void aLogThatWasLostIsTold() {
    outside.dropTable(id("txns.commits"), false);
    TxnHandle handle = lake.open();
    assertTold(() -> handle.register(id("shop.a")));
    assertTold(() -> handle.catalog(() -> null).loadTable(id("shop.a")));
  }
}
