package io.txns.iceberg.admin;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Our catalog while transactions are off, and who writes while they are turned off and on. */
class SwitchedOffTest extends TwoTables {
  private static final String MARK = "txns.commit-table";

  @BeforeEach
  void fillTheOtherTable() {
    append(ours.loadTable(id("shop.b")), 1);
  }

  private static ErrorKind refusal(ThrowingCallable call) {
    return ((TxnException) catchThrowable(call)).kind();
  }

  private TxnHandle openOn(Catalog catalog) {
    return TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK);
  }

  /** What any statement does: its reads are pinned, its one operation commits at once. */
  private TxnCatalog statement() {
    return ours.within(handle.beginStatement());
  }

  @Test
  void statementsReadAndWriteAsOnPlainTables() {
    handle.off();
    int entries = handle.transactions().size();
    append(outside.loadTable(id("shop.a")), 2);
    append(statement().loadTableForWrite(id("shop.a")), 3);
    overwrite(statement().loadTableForWrite(id("shop.b")), 4, 5);
    ours.loadTable(id("shop.b")).updateSchema().addColumn("x", Types.IntegerType.get()).commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(lake.txnIds("shop.b")).containsExactly(4L, 5L);
    assertThat(handle.transactions()).hasSize(entries);

    assertThat(handle.on()).isEmpty();
    append(ours.loadTable(id("shop.a")), 6);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 6L);
    assertThat(lake.txnIds("shop.b")).containsExactly(4L, 5L);
    assertThat(ours.loadTable(id("shop.b")).schema().findField("x")).isNotNull();
    assertThat(lake.plainIds("shop.b")).containsExactly(4L, 5L);
  }

  @Test
  void transactionsAreRefusedAndOldOnesAnswered() {
    BeginOptions known = BeginOptions.defaults().withId("job-1");
    Transaction first = handle.begin(known);
    append(handle.catalog(() -> first).loadTable(id("shop.a")), 2);
    first.commit();
    handle.off();
    assertThat(refusal(() -> handle.begin(BeginOptions.defaults())))
        .isEqualTo(ErrorKind.UNSUPPORTED);
    assertThat(handle.begin(known).state()).isEqualTo(Transaction.State.COMMITTED);
    handle.on();
    assertThat(handle.begin(BeginOptions.defaults()).state()).isEqualTo(Transaction.State.ACTIVE);
  }

  /** By name, nothing of the log must be created, dropped or moved that it knows of. */
  @Test
  void tablesAreCreatedAndReplacedAndThoseUnderCareNotDropped() {
    ours.dropTable(id("shop.b"));
    handle.off();
    append(ours.buildTable(id("shop.new"), Lake.SCHEMA).create(), 7);
    var replace = ours.buildTable(id("shop.a"), Lake.SCHEMA).replaceTransaction();
    replace.newAppend().appendFile(Lake.file(replace.table(), 8)).commit();
    replace.commitTransaction();
    assertThat(lake.plainIds("shop.new")).containsExactly(7L);
    assertThat(lake.plainIds("shop.a")).containsExactly(8L);
    for (ThrowingCallable refused :
        List.<ThrowingCallable>of(
            () -> ours.dropTable(id("shop.a")),
            () -> ours.dropTable(id("shop.a"), true),
            () -> ours.renameTable(id("shop.a"), id("shop.c")),
            () -> ours.buildTable(id("shop.b"), Lake.SCHEMA).create(),
            () -> handle.register(id("shop.new")),
            () -> handle.forget(id("shop.a")))) {
      assertThat(refusal(refused)).isEqualTo(ErrorKind.UNSUPPORTED);
    }
    assertThat(ours.tableExists(id("shop.b"))).isFalse();
    assertThat(outside.loadTable(id("shop.new")).properties()).doesNotContainKey(MARK);
    assertThat(handle.on()).isEmpty();
    assertThat(lake.txnIds("shop.a")).containsExactly(8L);
    append(ours.loadTable(id("shop.a")), 9);
    assertThat(lake.txnIds("shop.a")).containsExactly(8L, 9L);
  }

  /** Iceberg takes {@code main} away, and with it what the log knows the table by. */
  @Test
  void aTableThatIsReplacedByAnEmptyOneIsAdopted() {
    handle.off();
    ours.buildTable(id("shop.a"), Lake.SCHEMA).replaceTransaction().commitTransaction();
    assertThat(lake.txnIds("shop.a")).isEmpty();
    assertThat(handle.on()).isEmpty();
    assertThat(lake.txnIds("shop.a")).isEmpty();
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
    assertThat(lake.plainIds("shop.a")).containsExactly(2L);
  }

  /** {@code register=all} leaves new tables alone, too. */
  @Test
  void whatAWriteWouldRegisterStaysPlain() {
    outside.createTable(id("shop.new"), Lake.SCHEMA);
    handle.off();
    TxnCatalog all = lake.open(Map.of("txns.register", "all")).catalog(() -> null);
    append(all.loadTableForWrite(id("shop.new")), 7);
    append(all.loadTableForWrite(id("shop.a")), 2);
    assertThat(outside.loadTable(id("shop.new")).properties()).doesNotContainKey(MARK);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Its entry would be lost under what is written: it is read as logged, and not written. */
  @Test
  void aTableWithEntriesLeftIsReadAsLogged() {
    TxnHandle limited = openOn(BeforeCommit.forbidding(lake.catalog(), id("shop.a")));
    append(limited.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(limited.off()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(refusal(() -> append(ours.loadTable(id("shop.a")), 3)))
        .isEqualTo(ErrorKind.UNSUPPORTED);
    append(ours.loadTable(id("shop.b")), 2);
    assertThat(handle.apply()).isZero();
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** The swap refuses it; the same statement, run again, is a plain one. */
  @Test
  void whoHasStagedWhenTheyAreTurnedOffIsRefused() {
    Transaction transaction = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> transaction).loadTable(id("shop.a")), 2);
    Table loaded = ours.loadTable(id("shop.a"));
    handle.off();
    assertThat(refusal(transaction::commit)).isEqualTo(ErrorKind.UNSUPPORTED);
    assertThat(refusal(() -> append(loaded, 3))).isEqualTo(ErrorKind.UNSUPPORTED);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
  }

  @Test
  void whoLoadedBeforeTheyAreTurnedOnIsRefused() {
    handle.off();
    Table loaded = ours.loadTable(id("shop.a"));
    var replace = ours.buildTable(id("shop.b"), Lake.SCHEMA).createOrReplaceTransaction();
    handle.on();
    assertThat(refusal(() -> append(loaded, 2))).isEqualTo(ErrorKind.CONFLICT);
    assertThat(refusal(replace::commitTransaction)).isEqualTo(ErrorKind.CONFLICT);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(1L);
  }

  @Test
  void whoLoadedBeforeItWasCreatedAgainIsRefused() {
    handle.off();
    Table table = ours.loadTable(id("shop.a"));
    handle.on();
    ours.dropTable(id("shop.a"), false);
    append(ours.createTable(id("shop.a"), Lake.SCHEMA), 7);
    handle.off();
    assertThat(refusal(() -> append(table, 5))).isEqualTo(ErrorKind.CONFLICT);
    assertThat(lake.plainIds("shop.a")).containsExactly(7L);
  }

  /** Between its last look and its swap nobody can stop it: it is a stranger, and adopted. */
  @Test
  void whoCommitsJustAfterTheyAreTurnedOnIsAStranger() {
    handle.off();
    Runnable turnedOn = () -> assertThat(handle.on()).isEmpty();
    TxnHandle slow = openOn(new BeforeCommit(lake.catalog(), id("shop.a"), turnedOn));
    append(slow.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(ids(ours.loadTable(id("shop.a")))).containsExactly(1L, 2L, 3L);
  }

  /** What was adopted under it moves the table: its swap is lost, and then it is refused. */
  @Test
  void whoCommitsAfterAnAdoptionIsRefused() {
    handle.off();
    append(outside.loadTable(id("shop.a")), 2);
    Runnable turnedOn = () -> assertThat(handle.on()).isEmpty();
    TxnHandle slow = openOn(new BeforeCommit(lake.catalog(), id("shop.a"), turnedOn));
    Table loaded = slow.catalog(() -> null).loadTable(id("shop.a"));
    assertThat(refusal(() -> append(loaded, 3))).isEqualTo(ErrorKind.CONFLICT);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }
}
