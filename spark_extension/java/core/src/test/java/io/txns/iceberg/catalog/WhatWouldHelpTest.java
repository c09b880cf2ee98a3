package io.txns.iceberg.catalog;

import static io.txns.iceberg.Days.day;
import static io.txns.iceberg.Days.file;
import static io.txns.iceberg.Days.files;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The error of a lost race says what would help, where something does. */
@Timeout(60)
class WhatWouldHelpTest extends DaysTestBase {
  private static final String COMPARE =
      "filters that compare `day`, by which the table is partitioned, with literals";
  private static final String BY_FILE =
      "a transaction in which files decide (`txns.conflicts=file`)";
  private static final String SNAPSHOT =
      "level SNAPSHOT, where what is only read may change meanwhile";
  private static final String ALONE = "to alter the table while no transaction is at work on it";

  private Transaction begin(Isolation level) {
    return handle.begin(BeginOptions.defaults().withIsolation(level));
  }

  private static void appendTo(Table table, long day) {
    table.newAppend().appendFile(file(table, day, 99)).commit();
  }

  private void readAndAppend(Transaction txn, Expression filter) {
    Table table = in(txn);
    assertThat(files(table, filter)).isNotNull();
    appendTo(table, 1);
  }

  private static void overwrite(Table table) {
    table.newOverwrite().overwriteByRowFilter(day(1)).addFile(file(table, 1, 15)).commit();
  }

  /** What the error of a commit says, which has to lose. */
  private static String helps(Transaction txn) {
    TxnException lost = catchThrowableOfType(TxnException.class, txn::commit);
    assertThat(lost).isNotNull();
    String[] parts = lost.getMessage().split("; what would help: ");
    assertThat(parts.length).isLessThanOrEqualTo(2);
    return parts.length == 1 ? "" : parts[1].split("; table=`")[0];
  }

  @ParameterizedTest
  @EnumSource(Isolation.class)
  void aFilterOnWhatTheTableIsPartitionedBy(Isolation level) {
    Map.of(
            Expressions.alwaysTrue(), COMPARE,
            Expressions.notNull("day"), COMPARE,
            Expressions.lessThan("id", 500), COMPARE,
            Expressions.lessThan("day", 5),
                "narrower filters, or a finer partitioning of the table")
        .forEach(
            (filter, told) -> {
              Transaction txn = begin(level);
              readAndAppend(txn, filter);
              appendTo(auto(), 2);
              assertThat(helps(txn)).isEqualTo(told);
            });
  }

  /** Another filter had nothing to do with it. */
  @Test
  void theFilterThatHasMet() {
    Transaction txn = begin(Isolation.SNAPSHOT);
    assertThat(files(in(txn), Expressions.equal("id", 1000))).isEmpty();
    readAndAppend(txn, day(2));
    appendTo(auto(), 2);
    assertThat(helps(txn)).startsWith("narrower filters");
  }

  /** At SNAPSHOT the same commits. */
  @ParameterizedTest
  @EnumSource(Isolation.class)
  void snapshotWhereItHasOnlyRead(Isolation level) {
    Transaction txn = begin(level);
    assertThat(files(in(txn), Expressions.alwaysTrue())).isNotEmpty();
    Lake.append(handle.catalog(() -> txn).loadTable(id("shop.elsewhere")), 1);
    appendTo(auto(), 2);
    if (level == Isolation.SNAPSHOT) {
      txn.commit();
    } else {
      assertThat(helps(txn)).isEqualTo(COMPARE + "; or " + SNAPSHOT);
    }
  }

  @Test
  void aNamespaceThatWasListed() {
    Transaction txn = begin(Isolation.SERIALIZABLE);
    assertThat(handle.catalog(() -> txn).listTables(Namespace.of("shop"))).isNotEmpty();
    appendTo(in(txn), 1);
    handle.catalog(() -> null).createTable(id("shop.new"), Lake.SCHEMA);
    assertThat(helps(txn)).isEqualTo(SNAPSHOT);
  }

  /** What it looked at is of no file, and clashes by file with ALTER alone. */
  @Test
  void conflictsByTable() {
    handle = lake.open(Map.of("txns.conflicts", "table"));
    Transaction writes = begin(Isolation.SNAPSHOT);
    overwrite(in(writes));
    Transaction looks = begin(Isolation.SERIALIZABLE);
    ((TxnTable) in(looks)).noteMetadataRead(looks);
    Lake.append(handle.catalog(() -> looks).loadTable(id("shop.elsewhere")), 1);
    appendTo(auto(), 2);
    assertThat(helps(writes)).isEqualTo(BY_FILE);
    assertThat(helps(looks)).isEqualTo(BY_FILE + "; or " + SNAPSHOT);
  }

  @Test
  void anAlter() {
    Transaction reads = begin(Isolation.SNAPSHOT);
    readAndAppend(reads, day(1));
    Transaction writes = begin(Isolation.SNAPSHOT);
    overwrite(in(writes));
    Transaction appends = begin(Isolation.SNAPSHOT);
    appendTo(in(appends), 1);
    auto().updateSchema().addColumn("price", Types.LongType.get()).commit();
    assertThat(helps(reads)).isEqualTo(ALONE);
    assertThat(helps(writes)).isEqualTo(ALONE);
    assertThat(helps(appends)).isEqualTo(ALONE);
  }

  @Test
  void whoAlters() {
    Transaction txn = begin(Isolation.SNAPSHOT);
    in(txn).updateSchema().addColumn("price", Types.LongType.get()).commit();
    appendTo(auto(), 2);
    assertThat(helps(txn)).startsWith("to alter, drop or replace the table while nobody else");
  }

  @Test
  void aCompaction() {
    Transaction txn = begin(Isolation.SNAPSHOT);
    overwrite(in(txn));
    Table table = auto();
    table
        .newRewrite()
        .rewriteFiles(Set.copyOf(files(table, day(1))), Set.of(file(table, 1, 10, 11)))
        .commit();
    assertThat(helps(txn)).startsWith("to run it again, since the rows are the same");
  }

  @Test
  void twoWhoCreateOneTable() {
    Transaction txn = begin(Isolation.SNAPSHOT);
    handle.catalog(() -> txn).createTable(id("shop.new"), Lake.SCHEMA);
    handle.catalog(() -> null).createTable(id("shop.new"), Lake.SCHEMA);
    assertThat(helps(txn)).isEqualTo("to create the table once, before both");
  }
}
