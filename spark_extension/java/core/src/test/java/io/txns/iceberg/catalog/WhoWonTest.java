package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.iceberg.Table;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** A lost race names who came first: not whoever else has written the table meanwhile. */
@Timeout(60)
class WhoWonTest extends DaysTestBase {
  private Transaction by(String comment, Consumer<Table> deed) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    txn.comment(comment);
    deed.accept(in(txn));
    txn.commit();
    return txn;
  }

  private static void appendTo(Table table, long day) {
    table.newAppend().appendFile(file(table, day, 99)).commit();
  }

  private static void compact(Table table) {
    table
        .newRewrite()
        .rewriteFiles(Set.copyOf(files(table, day(1))), Set.of(file(table, 1, 10, 11)))
        .commit();
  }

  private static TxnException lost(Transaction txn) {
    TxnException lost = catchThrowableOfType(TxnException.class, txn::commit);
    assertThat(lost).isNotNull();
    assertThat(lost.sqlState()).isEqualTo("40001");
    return lost;
  }

  enum Write {
    OVERWRITES {
      @Override
      void run(Table table) {
        table.newOverwrite().overwriteByRowFilter(day(1)).addFile(file(table, 1, 15)).commit();
      }
    },
    READS_AND_APPENDS {
      @Override
      void run(Table table) {
        assertThat(files(table, day(1))).isNotEmpty();
        appendTo(table, 1);
      }
    },
    APPENDS {
      @Override
      void run(Table table) {
        appendTo(table, 1);
      }
    };

    abstract void run(Table table);
  }

  static Stream<Arguments> writesAtLevels() {
    return Stream.of(Isolation.SNAPSHOT, Isolation.STRICT_SERIALIZABLE)
        .flatMap(level -> Stream.of(Write.values()).map(write -> Arguments.of(write, level)));
  }

  /** Not who had appended before, nor who has after. */
  @ParameterizedTest
  @MethodSource("writesAtLevels")
  void whoAlteredTheTable(Write write, Isolation level) {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(level));
    write.run(in(txn));
    by("innocent", table -> appendTo(table, 2));
    Transaction alters =
        by(
            "adds a column",
            table -> table.updateSchema().addColumn("price", Types.LongType.get()).commit());
    by("innocent", table -> appendTo(table, 2));
    assertThat(lost(txn).parameters())
        .containsEntry("otherTxnId", alters.id())
        .containsEntry("otherComment", "adds a column");
  }

  /** An adoption is the one to blame for a stranger's rows. */
  @ParameterizedTest
  @EnumSource(value = Write.class, names = "APPENDS", mode = EnumSource.Mode.EXCLUDE)
  void whoseRowsWereAdopted(Write write) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    write.run(in(txn));
    Transaction before = by("innocent", table -> appendTo(table, 2));
    appendTo(lake.catalog().loadTable(id(DAYS)), 1);
    Transaction after = by("innocent", table -> appendTo(table, 2));
    assertThat(lost(txn).parameters().get("otherTxnId"))
        .isNotEmpty()
        .isNotIn(before.id(), after.id());
  }

  /** Through the log it is an entry, which is named. */
  @Test
  void aCompactionIsToldAsOne() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Write.OVERWRITES.run(in(txn));
    by("compacts", WhoWonTest::compact);
    by("innocent", table -> appendTo(table, 2));
    TxnException lost = lost(txn);
    assertThat(lost).hasMessageContaining("were compacted by others");
    assertThat(lost.parameters()).containsEntry("otherComment", "compacts");
  }

  /** No transaction has done it: who has written another day meanwhile has not, either. */
  @Test
  void aStrangersCompactionIsNobodys() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Write.OVERWRITES.run(in(txn));
    compact(lake.catalog().loadTable(id(DAYS)));
    by("innocent", table -> appendTo(table, 2));
    TxnException lost = lost(txn);
    assertThat(lost).hasMessageContaining("were compacted by others");
    assertThat(lost.parameters()).containsEntry("otherTxnId", "");
  }
}
