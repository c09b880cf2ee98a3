package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Writes of a table that leave its files as they were go by what they have looked through. */
@Timeout(60)
class NothingLeftTest extends DaysTestBase {
  /** Somebody else writes rows of a day. */
  private void append(long day, long... ids) {
    Table table = auto();
    table.newAppend().appendFile(file(table, day, ids)).commit();
  }

  /** What is done to a day that has no rows. */
  enum Write {
    DELETE {
      @Override
      void run(Table table) {
        table.newDelete().deleteFromRowFilter(day(5)).commit();
      }
    },
    MERGE {
      @Override
      void run(Table table) {
        assertThat(files(table, day(5))).isEmpty();
        table.newOverwrite().conflictDetectionFilter(day(5)).commit();
      }
    },
    MERGE_ON_READ {
      @Override
      void run(Table table) {
        assertThat(files(table, day(5))).isEmpty();
        table.newRowDelta().conflictDetectionFilter(day(5)).commit();
      }
    },
    OVERWRITE {
      @Override
      void run(Table table) {
        table.newOverwrite().overwriteByRowFilter(day(5)).commit();
      }
    },
    DELETE_AND_INSERT_OF_NOTHING {
      @Override
      void run(Table table) {
        DELETE.run(table);
        table.newAppend().commit();
      }
    },
    INSERT_AND_DELETE {
      @Override
      void run(Table table) {
        table.newAppend().appendFile(file(table, 5, 50, 51)).commit();
        DELETE.run(table);
      }
    };

    abstract void run(Table table);
  }

  static Stream<Arguments> writes() {
    return Stream.of("inline", "next", "atomic")
        .flatMap(apply -> Stream.of(Write.values()).map(write -> Arguments.of(write, apply)));
  }

  private TxnHandle opened(String apply) {
    if (apply.equals("atomic")) {
      return lake.atomic();
    }
    TxnHandle opened = lake.open(Map.of("txns.apply", apply));
    if (apply.equals("next")) {
      Lake.leaveApplies(opened);
    }
    return opened;
  }

  /** Both commit: others have written rows of another day, twice, and a job's words stay. */
  @Tag("sampled")
  @ParameterizedTest
  @MethodSource("writes")
  void anotherDayDoesNotClash(Write write, String apply) {
    TxnHandle own = opened(apply);
    Transaction txn = own.begin(BeginOptions.defaults());
    Table table = own.catalog(() -> txn).loadTable(id(DAYS));
    write.run(table);
    table.newDelete().deleteFromRowFilter(day(5)).set("job", "nightly").commit();
    Lake.append(own.catalog(() -> txn).loadTable(id("shop.elsewhere")), 1);
    append(2, 22);
    append(6, 60);
    Committed committed = txn.commit();
    assertThat(committed.tables()).containsExactlyInAnyOrder(DAYS, "shop.elsewhere");
    assertThat(lake.txnIds(DAYS)).containsExactly(10L, 11L, 20L, 21L, 22L, 60L);
    assertThat(lake.txnIds("shop.elsewhere")).containsExactly(1L);
    append(6, 61);
    assertThat(lake.plainIds(DAYS)).containsExactly(10L, 11L, 20L, 21L, 22L, 60L, 61L);
    Snapshot left = snapshotOf(committed);
    assertThat(left.summary())
        .containsEntry("job", "nightly")
        .containsEntry("total-records", "6")
        .doesNotContainKeys("added-records", "deleted-records");
    assertThat(row(committed))
        .satisfies(row -> assertThat(row.addedRecords()).isZero())
        .satisfies(row -> assertThat(row.deletedRecords()).isZero());
  }

  private Snapshot snapshotOf(Committed committed) {
    Table table = auto();
    return StreamSupport.stream(table.snapshots().spliterator(), false)
        .filter(each -> committed.txnId().equals(each.summary().get("txns.txn-id")))
        .findFirst()
        .orElseThrow();
  }

  private TransactionRow row(Committed committed) {
    return handle.transactions().stream()
        .filter(row -> row.txnId().equals(committed.txnId()) && row.table().equals(DAYS))
        .findFirst()
        .orElseThrow();
  }

  /** It may have found what others have written since. */
  @ParameterizedTest
  @EnumSource(Write.class)
  void theSameDayClashes(Write write) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    write.run(in(txn));
    append(5, 55);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
        .hasMessageContaining("filter day = 5");
    assertThat(lake.plainIds(DAYS)).containsExactly(10L, 11L, 20L, 21L, 55L);
  }

  /** What it goes back to leaves nothing; what it does after that is made again. */
  @Test
  void backToASavepoint() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Write.DELETE.run(in(txn));
    txn.savepoint("before");
    Table table = in(txn);
    table.newAppend().appendFile(file(table, 5, 50)).commit();
    txn.rollbackTo("before");
    append(2, 22);
    Committed committed = txn.commit();
    assertThat(committed.tables()).containsExactly(DAYS);
    assertThat(lake.plainIds(DAYS)).containsExactly(10L, 11L, 20L, 21L, 22L);
  }

  /** Its rows are new ones then, by their sequence number, which older deletes do not take. */
  @ParameterizedTest
  @CsvSource({"false, ''", "true, ''", "true, added", "true, 'added and taken away'"})
  void aFileThatIsTakenAwayAndBroughtBackIsAConflict(boolean besideOthers, String also) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table table = in(txn);
    DataFile here = files(table, day(1)).get(0);
    table.newDelete().deleteFromRowFilter(day(1)).commit();
    table.newAppend().appendFile(here).commit();
    if (also.startsWith("added")) {
      table.newAppend().appendFile(file(table, 5, 50)).commit();
    }
    if (also.endsWith("away")) {
      table.newDelete().deleteFromRowFilter(day(5)).commit();
    }
    if (besideOthers) {
      append(2, 22);
      assertThatThrownBy(txn::commit).hasMessageContaining("wrote over");
    } else {
      txn.commit();
      assertThat(lake.plainIds(DAYS)).containsExactly(10L, 11L, 20L, 21L);
    }
  }
}
