package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Swap;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.StagedTable;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Entries that were born applied to tables which their swap moved (docs/spec.md 11.3). */
class BornAppliedTest extends TwoTables {
  private static final TableIdentifier A = id("shop.a");
  private static final TableIdentifier B = id("shop.b");
  private static final TableIdentifier C = id("shop.c");

  @Test
  void aTableThatMovedWithTheEntryHasNothingToApply() {
    assertThat(handle.tidy()).isPositive();
    Entry entry = log(staged(2, A, B), Set.of(A, B));
    assertThat(entry.applies()).isFalse();
    handle.services().log().load();
    assertThat(handle.seen().oldestMaybeUnappliedTs()).isEmpty();
    String before = location(A);
    assertThat(handle.apply()).isZero();
    assertThat(location(A)).isEqualTo(before);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.txnIds("shop.b")).containsExactly(2L);
    append(lake.open().catalog(() -> null).loadTable(A), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(handle.tidy()).isPositive();
    assertThat(Lake.standing(handle)).isEmpty();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** Whoever reads sees both tables at one timestamp, before and after the other one is applied. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anEntryMovesOneTableAndIsCarriedOverToAnother(boolean first) {
    TableIdentifier born = first ? A : B;
    TableIdentifier carried = first ? B : A;
    long before = handle.upper();
    Entry entry = log(staged(2, A, B), Set.of(born));
    assertThat(entry.carried()).extracting(Change::table).containsExactly(carried);
    assertThat(outstanding(carried)).contains(entry.commitTs());
    assertThat(outstanding(born)).doesNotContain(entry.commitTs());
    assertThat(lake.plainIds(born.toString())).contains(2L);
    assertThat(lake.plainIds(carried.toString())).doesNotContain(2L);
    assertBothRead(before, entry);
    assertThat(applied(entry)).containsOnly(false);
    assertThat(lake.open().tidy()).isPositive(); // what was there before
    assertThat(Lake.standing(handle)).containsExactly(entry);
    String moved = location(born);
    assertThat(lake.open().apply()).isZero();
    assertThat(location(born)).isEqualTo(moved);
    assertThat(lake.plainIds(carried.toString())).contains(2L);
    assertBothRead(before, entry);
    assertThat(applied(entry)).containsOnly(true);
    assertThat(lake.open().tidy()).isPositive();
    assertThat(Lake.standing(handle)).isEmpty();
    assertBothRead(before, entry);
    assertThat(applied(entry)).containsOnly(true);
  }

  private void assertBothRead(long before, Entry entry) {
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.txnIds("shop.b")).containsExactly(2L);
    assertThat(idsAt(A, before)).containsExactly(1L);
    assertThat(idsAt(B, before)).isEmpty();
    assertThat(idsAt(A, entry.commitTs())).containsExactly(1L, 2L);
    assertThat(idsAt(B, entry.commitTs())).containsExactly(2L);
  }

  /** Entries of both sorts stand on each other; appliers skip what is there. */
  @Test
  void entriesOfBothSortsFollowEachOther() {
    log(staged(2, A, B), Set.of(B));
    assertThat(lake.open().apply()).isZero();
    log(staged(3, A, B), Set.of(A, B));
    append(lazy.catalog(() -> null).loadTable(A), 4);
    Entry newest = log(staged(5, A, B), Set.of(B));
    assertThat(newest.carried()).hasSize(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 4L, 5L);
    assertThat(lake.txnIds("shop.b")).containsExactly(2L, 3L, 5L);
    assertThat(lake.open().apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 4L, 5L);
    assertThat(lake.open().tidy()).isPositive();
    assertThat(Lake.standing(handle)).isEmpty();
  }

  /** What it clashes with is told by its tables alone. */
  @Test
  void aTransactionLosesAgainstAnEntryThatWasBornApplied() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Lake.overwrite(handle.catalog(() -> txn).loadTableForWrite(A), 9);
    log(staged(2, A), Set.of(A));
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  /** It was not archived, so the entry stays until somebody brings the table back. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTableThatWasSetBackBelowItIsQuarantinedAndKeepsIt(boolean bothBorn) {
    String older = location(A);
    Entry entry = log(staged(2, A, B), bothBorn ? Set.of(A, B) : Set.of(A));
    String newest = location(A);
    registerAs(older);
    assertIsSetBack();
    assertThat(lake.open().apply()).isZero();
    assertThat(lake.open().tidy()).isPositive(); // what is older
    assertThat(Lake.standing(handle)).containsExactly(entry);
    assertThat(applied(entry)).containsOnly(false);
    append(lake.open().catalog(() -> null).loadTable(B), 3);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L, 3L);
    assertThat(lake.txnIds("shop.b")).containsExactly(2L, 3L);
    assertThat(lake.open().tidy()).isPositive();
    assertThat(Lake.standing(handle)).containsExactly(entry);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    registerAs(newest);
    append(lake.open().catalog(() -> null).loadTable(A), 4);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 4L);
    assertThat(lake.open().tidy()).isPositive();
    assertThat(Lake.standing(handle)).isEmpty();
  }

  /** Older timestamps see what they always saw. */
  @Test
  void aTableThatWasSetBackIsReadAsOfWhatItHas() {
    String older = location(A);
    Entry entry = log(staged(2, A), Set.of(A));
    registerAs(older);
    assertThat(idsAt(A, TableMark.applied(metadata(A)))).containsExactly(1L);
    assertThatThrownBy(() -> idsAt(A, entry.commitTs())).hasMessageContaining("set back");
  }

  /** 1. It is carried over to a. 2. Another is born applied to it. 3. a is set back below both. */
  @Test
  void whatIsAppliedOnceMoreDoesNotEndIt() {
    String older = location(A);
    append(lazy.catalog(() -> null).loadTable(A), 2);
    lake.open().apply();
    log(staged(3, A), Set.of(A));
    registerAs(older);
    assertIsSetBack();
    lake.open().apply();
    assertIsSetBack();
    handle.repairAdopt(A);
    append(lake.open().catalog(() -> null).loadTable(A), 4);
    assertThat(lake.txnIds("shop.a")).startsWith(1L).endsWith(4L).doesNotContain(3L);
  }

  @Test
  void adoptTakesTheTableAsItStands() {
    String older = location(A);
    log(staged(2, A), Set.of(A));
    append(lazy.catalog(() -> null).loadTable(A), 3);
    registerAs(older);
    assertIsSetBack();
    handle.repairAdopt(A);
    append(lake.open().catalog(() -> null).loadTable(A), 4);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 4L);
    assertThat(lake.open().tidy()).isPositive();
    assertThat(Lake.standing(handle)).isEmpty();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 4L);
  }

  /** 1. A replica has a. 2. An entry is born applied to it. 3. A reader asks the replica. */
  @Test
  void aReplicaThatLagsIsAskedAgain() throws Exception {
    Deque<Table> answers = new ArrayDeque<>();
    try (JdbcCatalog replica = lagging(A, answers)) {
      Table old = replica.loadTable(A);
      log(staged(2, A), Set.of(A));
      answers.add(old);
      TxnHandle reader = TxnHandle.open("lake", replica, Lake.INLINE, new MovedClock(0));
      assertThat(ids(reader.catalog(() -> null).loadTable(A))).containsExactly(1L, 2L);
      assertThat(answers).isEmpty();
    }
  }

  /** 1. It is born applied to a. 2. a is forgotten. 3. It is set back to before its care. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aForgetThatIsNotAppliedYetMakesNoTableItsOwners(boolean tidied) {
    String plain = metadata(A).previousFiles().get(0).file();
    assertThat(TableMark.of(TableMetadataParser.read(outside.loadTable(A).io(), plain))).isEmpty();
    log(staged(2, A), Set.of(A));
    assertThat(!tidied || lake.open().tidy() > 0).isTrue();
    TxnConfig later = TxnConfig.from(Map.of("txns.apply", "next"));
    TxnHandle.open("lake", lake.catalog(), later, Lake.CLOCK).forget(A);
    registerAs(plain);
    assertThatThrownBy(() -> lake.txnIds("shop.a")).hasMessageContaining("set back");
    assertThat(lake.open().apply()).isEqualTo(1);
    assertThat(outside.loadTable(A).properties()).doesNotContainKey("txns.applied");
  }

  /** The log alone does not make it, and whoever found it absent would lose it. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTableThatWasBornWithItsEntryAndIsGoneIsNoNameThatIsFree(boolean again) {
    Entry entry = logCreation();
    assertThat(lake.plainIds("shop.c")).containsExactly(1L);
    assertThat(lake.txnIds("shop.c")).containsExactly(1L);
    String newest = location(C);
    outside.dropTable(C, false);
    if (again) {
      outside.buildTable(C, Lake.SCHEMA).create();
    }
    for (ThrowingCallable refused :
        List.<ThrowingCallable>of(
            () -> lake.txnIds("shop.c"),
            () -> lake.open().catalog(() -> null).buildTable(C, Lake.SCHEMA).create())) {
      assertThatThrownBy(refused)
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
          .hasMessageContaining("dropped the table");
    }
    assertThat(lake.open().apply()).isZero();
    assertThat(lake.open().tidy()).isPositive(); // what is older
    assertThat(Lake.standing(handle)).containsExactly(entry);
    if (again) {
      outside.dropTable(C, false);
    }
    outside.registerTable(C, newest);
    assertThat(lake.txnIds("shop.c")).containsExactly(1L);
    assertThat(lake.open().tidy()).isPositive();
    assertThat(Lake.standing(handle)).isEmpty();
  }

  /** 1. An entry is born applied to c, which it creates. 2. A reader asks a replica for it. */
  @Test
  void aReplicaThatLacksATableWhichWasBornWithItsEntryIsAskedAgain() throws Exception {
    logCreation();
    Deque<Table> answers = new ArrayDeque<>();
    try (JdbcCatalog replica = lagging(C, answers)) {
      answers.add(outside.loadTable(B)); // stands for none
      TxnHandle reader = TxnHandle.open("lake", replica, Lake.INLINE, new MovedClock(0));
      assertThat(ids(reader.catalog(() -> null).loadTable(C))).containsExactly(1L);
      assertThat(answers).isEmpty();
    }
  }

  /** 1. c is created, and applied. 2. An entry is born applied to it. 3. Somebody drops it. */
  @Test
  void aTableThatWasWrittenWithAnEntryIsNotMadeByItsCreation() {
    lazy.catalog(() -> null).buildTable(C, Lake.SCHEMA).create();
    assertThat(lake.open().apply()).isZero();
    log(staged(2, C), Set.of(C));
    assertThat(lake.txnIds("shop.c")).containsExactly(2L);
    outside.dropTable(C, false);
    assertThatThrownBy(() -> lake.txnIds("shop.c")).hasMessageContaining("dropped the table");
    assertThat(lake.open().apply()).isEqualTo(1);
    assertThat(outside.tableExists(C)).isFalse();
  }

  /** Create c with a row, in an entry that is born applied to it. */
  private Entry logCreation() {
    Transaction txn = lake.open().begin(BeginOptions.defaults());
    handle.catalog(() -> txn).buildTable(C, Lake.SCHEMA).create();
    append(handle.catalog(() -> txn).loadTableForWrite(C), 1);
    return log(txn, Set.of(C));
  }

  /** 1. Two try one id. 2. An entry of the one is born applied. 3. The other one commits. */
  @Test
  void whoTriesItsIdAgainIsToldThatItIsApplied() {
    BeginOptions options = BeginOptions.defaults().withId("nightly");
    List<Transaction> tries = List.of(lazy.begin(options), lazy.begin(options));
    tries.forEach(one -> append(lazy.catalog(() -> one).loadTableForWrite(A), 2));
    Entry entry = log("nightly", tries.get(0), Set.of(A));
    Committed committed = tries.get(1).commit();
    assertThat(committed.commitTs()).isEqualTo(entry.commitTs());
    assertThat(committed.applied()).isTrue();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Who tries its id again is told that it is applied, whatever became of its tables since. */
  @Test
  void whatHasLeftTheHeadIsApplied() {
    Entry entry = log(staged(2, A, B), Set.of(A));
    lake.open().apply();
    assertThat(lake.open().tidy()).isPositive();
    outside.dropTable(A, false);
    TxnHandle asking = lake.open();
    asking.services().log().load();
    assertThat(asking.services().committer().committed(entry).applied()).isTrue();
  }

  /** A table is missing only where the log, as it is now, says that it is there. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anOlderHeadCreatesATableThatIsGone(boolean tidied) {
    long commitTs = logCreation().commitTs();
    Head older = lake.open().services().log().load();
    if (tidied) {
      assertThat(lake.open().tidy()).isPositive();
      assertThat(lake.open().services().log().load().state().tidiedUpto()).isEqualTo(commitTs);
    }
    outside.dropTable(C, false);
    assertThatThrownBy(() -> handle.services().tables().load(C, older, older.upper()))
        .isInstanceOf(tidied ? NoSuchTableException.class : TxnException.class);
  }

  private void assertIsSetBack() {
    for (ThrowingCallable refused :
        List.<ThrowingCallable>of(
            () -> lake.txnIds("shop.a"),
            () -> append(lake.open().catalog(() -> null).loadTable(A), 9),
            () -> {
              Transaction txn = handle.begin(BeginOptions.defaults());
              append(lake.open().catalog(() -> txn).loadTableForWrite(A), 9);
            },
            () -> lake.open().forget(A),
            () -> lake.open().register(A))) {
      assertThatThrownBy(refused)
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
          .hasMessageContaining("set back")
          .hasMessageContaining("'adopt'");
    }
  }

  // ------------------------------------------------------------ entries of 11.3

  /** A transaction that has appended a row to tables, and is not committed. */
  private Transaction staged(long row, TableIdentifier... tables) {
    Transaction txn = lake.open().begin(BeginOptions.defaults());
    for (TableIdentifier table : tables) {
      append(handle.catalog(() -> txn).loadTableForWrite(table), row);
    }
    return txn;
  }

  /** Log what a transaction has staged, and move those tables that are to move with the entry. */
  private Entry log(Transaction txn, Set<TableIdentifier> born) {
    return log("born-" + handle.upper(), txn, born);
  }

  private Entry log(String txnId, Transaction txn, Set<TableIdentifier> born) {
    CommitLog log = handle.services().log();
    Head head = log.load();
    long commitTs = Math.max(Lake.CLOCK.nowMs(), head.upper() + 1);
    List<Change> changes = new ArrayList<>();
    List<UpdateTableRequest> carried = new ArrayList<>();
    Map<StagedTable, ChangeBuilder.Built> moved = new LinkedHashMap<>();
    for (StagedTable staged : txn.writeSet().staged().changed().values()) {
      ChangeBuilder.complete(staged);
      ChangeBuilder.Built built = ChangeBuilder.build(staged, txnId, commitTs, Map.of());
      if (born.contains(staged.identifier())) {
        changes.add(bornApplied(built.change()));
        moved.put(staged, built);
      } else {
        changes.add(built.change());
        carried.add(built.request());
      }
    }
    Entry entry = entry(head, commitTs, txnId, changes, carried);
    assertThat(log.append(head, List.of(entry)).outcome()).isEqualTo(Swap.Outcome.WON);
    moved.forEach((staged, built) -> move(staged, new LoggedChange(entry, built.change()), built));
    return entry;
  }

  private void move(StagedTable staged, LoggedChange logged, ChangeBuilder.Built built) {
    long nowMs = Lake.CLOCK.nowMs();
    if (staged.isCreate()) {
      TableMetadata made = Replay.create(logged, built.request(), nowMs);
      handle.services().tables().operationsToCreate(staged.identifier(), made).commit(null, made);
      return;
    }
    TableOperations real = ((BaseTable) outside.loadTable(staged.identifier())).operations();
    real.commit(real.current(), Replay.replay(real.current(), logged, built.request(), nowMs));
  }

  private static Change bornApplied(Change change) {
    return new Change(
        change.table(),
        change.uuid(),
        change.operation(),
        change.fromSnapshotId(),
        change.toSnapshotId(),
        change.addedRecords(),
        change.deletedRecords(),
        true);
  }

  private static Entry entry(
      Head head,
      long commitTs,
      String txnId,
      List<Change> changes,
      List<UpdateTableRequest> carried) {
    String json =
        carried.isEmpty()
            ? null
            : CommitTransactionRequestParser.toJson(new CommitTransactionRequest(carried));
    return new Entry(
        EntryKind.COMMIT,
        commitTs,
        head.upper(),
        commitTs,
        head.state().tidiedUpto(),
        head.upper(),
        txnId,
        Isolation.SNAPSHOT,
        "",
        "",
        changes,
        json == null ? Entry.Payload.NONE : new Entry.Payload(json, null, null));
  }

  // ------------------------------------------------------------ what is there

  /** The {@code commit_ts} of what the head holds for a table to apply, whatever that shows. */
  private List<Long> outstanding(TableIdentifier table) {
    Head head = handle.services().log().load();
    return head.state().changes(metadata(table).uuid(), 0, head.upper()).stream()
        .map(LoggedChange::commitTs)
        .toList();
  }

  private List<Boolean> applied(Entry entry) {
    return lake.open().transactions().stream()
        .filter(row -> row.txnId().equals(entry.txnId()))
        .map(TransactionRow::applied)
        .toList();
  }

  private List<Long> idsAt(TableIdentifier table, long readTs) {
    Transaction txn =
        handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT).withAsOf(readTs));
    return ids(lake.open().catalog(() -> txn).loadTable(table));
  }

  private TableMetadata metadata(TableIdentifier table) {
    return ((BaseTable) lake.catalog().loadTable(table)).operations().current();
  }

  private String location(TableIdentifier table) {
    return metadata(table).metadataFileLocation();
  }

  private void registerAs(String location) {
    outside.dropTable(A, false);
    outside.registerTable(A, location);
  }

  /** A catalog that answers with others' tables, or none, as long as there are any. */
  private JdbcCatalog lagging(TableIdentifier table, Deque<Table> answers) {
    JdbcCatalog replica =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            if (!name.equals(table) || answers.isEmpty()) {
              return super.loadTable(name);
            }
            Table answer = answers.pop();
            if (!answer.name().endsWith(name.toString())) {
              throw new NoSuchTableException("Table does not exist: %s", name);
            }
            return answer;
          }
        };
    replica.initialize("lake", lake.options());
    return replica;
  }
}
