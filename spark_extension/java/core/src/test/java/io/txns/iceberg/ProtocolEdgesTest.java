package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.table.TableMark;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Corners of the protocol that a reading of the specification against the code has found. */
class ProtocolEdgesTest extends TwoTables {
  Table on(TxnHandle h, Transaction t, String n) {
    return h.catalog(() -> t).loadTable(id(n));
  }

  /** Entry outstanding, stranger overwrites, reject must end it. */
  @Test
  void rejectEndsAQuarantineWithAnOutstandingEntry() {
    overwrite(lazy.catalog(() -> null).loadTable(id("shop.a")), 5);
    overwrite(outside.loadTable(id("shop.a")), 9);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(5L);
    append(ours.loadTable(id("shop.a")), 6);
  }

  /** The stranger's state does not have the row of the entry: adopting it would lose it. */
  @Test
  void adoptIsRefusedWithAnOutstandingEntry() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 5);
    overwrite(outside.loadTable(id("shop.a")), 9);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).hasMessageContaining("reject");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 5L);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 5L);
  }

  /** The second mark has an entry of its own, not the first one's. */
  @Test
  void eachRegistrationIsLogged() {
    handle.forget(id("shop.b"));
    handle.register(id("shop.b"));
    List<Entry> logged = handle.services().log().load().state().entries();
    Entry newest = logged.get(logged.size() - 1);
    assertThat(newest.kind()).isEqualTo(EntryKind.REGISTER);
    assertThat(newest.changes().get(0).toSnapshotId())
        .isEqualTo(outside.loadTable(id("shop.b")).currentSnapshot().snapshotId());
  }

  /** A table may come under a name without being created: its registration says so. */
  @Test
  void absentThenRenamedTo() {
    Transaction t = handle.begin(BeginOptions.defaults());
    assertThat(handle.catalog(() -> t).tableExists(id("shop.new"))).isFalse();
    append(on(handle, t, "shop.b"), 1);
    ours.renameTable(id("shop.a"), id("shop.new"));
    assertThatThrownBy(t::commit).hasMessageContaining("absent");
  }

  /** A mark that names this commit table with another uuid: one of the two was restored. */
  @Test
  void nothingIsAppliedToATableOfAnotherCommitTable() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 5);
    outside
        .loadTable(id("shop.a"))
        .updateProperties()
        .set(TableMark.LOG_ID, "11111111-2222-4333-8444-555555555555")
        .commit();
    Head head = handle.services().log().load();
    Applier applier =
        new Applier(
            lake.catalog(),
            handle.services().log(),
            handle.services().tables(),
            handle.services().places(),
            Lake.CLOCK);
    assertThatThrownBy(() -> applier.applyRun(head, id("shop.a")))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** Forget logged, not applied; a later write must not be lost. */
  @Test
  void aWriteAfterAForgetThatIsNotAppliedIsNotLost() {
    lazy.forget(id("shop.a"));
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void aTransactionAfterAForgetThatIsNotAppliedLosesNothing() {
    lazy.forget(id("shop.a"));
    Transaction t = handle.begin(BeginOptions.defaults());
    assertThatThrownBy(() -> append(on(handle, t, "shop.a"), 2)).hasMessageContaining("register");
    append(on(handle, t, "shop.b"), 2);
    t.commit();
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  /** Registering again writes nothing. */
  @Test
  void registerIsIdempotent() {
    int before = handle.transactions().size();
    handle.register(id("shop.a"));
    handle.register(id("shop.a"));
    append(ours.loadTable(id("shop.a")), 2);
    handle.register(id("shop.a"));
    assertThat(handle.transactions().size() - before - 1).isZero();
  }

  @Test
  void registerOfACreatedTable() {
    ours.createTable(id("shop.c"), Lake.SCHEMA);
    int before = handle.transactions().size();
    handle.register(id("shop.c"));
    assertThat(handle.transactions().size()).isEqualTo(before);
  }

  /** Stranger's append between swap and apply can be adopted. */
  @Test
  void adoptFromTheBranch() {
    overwrite(lazy.catalog(() -> null).loadTable(id("shop.a")), 5);
    append(outside.loadTable(id("shop.a")), 2);
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(2L, 5L);
  }

  /** The same rollback twice. */
  @Test
  void twoRollbacksToOneSnapshot() {
    append(ours.loadTable(id("shop.a")), 2);
    for (int i = 0; i < 2; i++) {
      Table table = outside.loadTable(id("shop.a"));
      Snapshot at = table.currentSnapshot();
      while (ids2(table, at) != 1) at = table.snapshot(at.parentId());
      table.manageSnapshots().setCurrentSnapshot(at.snapshotId()).commit();
      handle.repairReject(id("shop.a"));
      assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    }
  }

  int ids2(Table t, Snapshot s) {
    return Integer.parseInt(s.summary().get("total-records"));
  }

  /** A name found absent, created, applied and tidied before commit. */
  @Test
  void absentThenCreatedAndTidied() {
    Transaction t = handle.begin(BeginOptions.defaults());
    assertThat(handle.catalog(() -> t).tableExists(id("shop.n"))).isFalse();
    append(on(handle, t, "shop.b"), 1);
    ours.createTable(id("shop.n"), Lake.SCHEMA);
    append(ours.loadTable(id("shop.n")), 1);
    handle.tidy();
    assertThatThrownBy(t::commit).hasMessageContaining("absent");
  }

  /** A stranger removes the mark while an entry is outstanding. */
  @Test
  void markRemovedByAStranger() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    outside.loadTable(id("shop.a")).updateProperties().remove("txns.commit-table").commit();
    assertThat(handle.services().log().load().state().entries()).isNotEmpty();
    assertThat(handle.apply()).isEqualTo(1);
  }

  /** A copy under the name counts as applied for the tidier. */
  @Test
  void anotherTableUnderTheNameWithTheProperties() {
    Map<String, String> p = new HashMap<>(outside.loadTable(id("shop.a")).properties());
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    p.put("txns.applied", Long.toString(handle.upper()));
    outside.dropTable(id("shop.a"), false);
    outside.buildTable(id("shop.a"), Lake.SCHEMA).withProperties(p).create();
    handle.tidy();
    assertThat(handle.services().log().load().state().entries()).isNotEmpty();
  }

  /** Retention of a created table. */
  @Test
  void retentionOfACreatedTable() {
    ours.createTable(id("shop.c"), Lake.SCHEMA);
    SnapshotRef main = outside.loadTable(id("shop.c")).refs().get("main");
    assertThat(main.minSnapshotsToKeep()).isEqualTo(10);
    assertThat(main.maxSnapshotAgeMs()).isGreaterThanOrEqualTo(86400000L);
  }

  @Test
  void retentionSurvivesAWrite() {
    SnapshotRef main = outside.loadTable(id("shop.a")).refs().get("main");
    assertThat(main.minSnapshotsToKeep()).isEqualTo(10);
  }

  /** A stranger drops a created table whose entry is applied and stands in the head. */
  @Test
  void droppedByAStrangerAfterApply() {
    ours.createTable(id("shop.c"), Lake.SCHEMA);
    append(ours.loadTable(id("shop.c")), 1);
    outside.dropTable(id("shop.c"), true);
    assertThat(outside.tableExists(id("shop.c"))).isFalse();
  }

  /** SERIALIZABLE, read below tidied-upto. */
  @Test
  void tableReadThenWrittenAndTidied() {
    Transaction t = handle.begin(BeginOptions.defaults());
    ids(on(handle, t, "shop.a"));
    append(on(handle, t, "shop.b"), 1);
    append(ours.loadTable(id("shop.a")), 2);
    handle.tidy();
    assertThatThrownBy(t::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  /** Namespace listed, created and tidied. */
  @Test
  void listedThenCreatedAndTidied() {
    Transaction t = handle.begin(BeginOptions.defaults());
    handle.catalog(() -> t).listTables(id("shop.a").namespace());
    append(on(handle, t, "shop.b"), 1);
    ours.createTable(id("shop.n"), Lake.SCHEMA);
    handle.tidy();
    assertThatThrownBy(t::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  /** Namespace listed, and a table renamed in it. */
  @Test
  void listedThenRenamed() {
    Transaction t = handle.begin(BeginOptions.defaults());
    handle.catalog(() -> t).listTables(id("shop.a").namespace());
    append(on(handle, t, "shop.b"), 1);
    ours.renameTable(id("shop.a"), id("shop.z"));
    assertThatThrownBy(t::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  /** Drop, applied and tidied, then the table is absent for readers and can be created again. */
  @Test
  void dropTidyCreate() {
    ours.dropTable(id("shop.a"), false);
    handle.tidy();
    assertThat(ours.tableExists(id("shop.a"))).isFalse();
    long before = handle.upper();
    ours.createTable(id("shop.a"), Lake.SCHEMA);
    assertThat(lake.txnIds("shop.a")).isEmpty();
    append(ours.loadTable(id("shop.a")), 4);
    assertThat(lake.plainIds("shop.a")).containsExactly(4L);
    assertThat(outside.loadTable(id("shop.a")).properties().get("txns.created")).isNotNull();
    List<String> ops =
        handle.transactions().stream().map(r -> r.table() + ":" + r.operation()).toList();
    assertThatThrownBy(() -> ids(ours.loadTableAt(id("shop.a"), before)))
        .isInstanceOf(RuntimeException.class);
  }

  /** Replace keeps history. */
  @Test
  void replaceKeepsTheHistory() {
    ours.buildTable(id("shop.a"), Lake.SCHEMA).replaceTransaction().commitTransaction();
    assertThat(lake.txnIds("shop.a")).isEmpty();
    assertThat(lake.plainIds("shop.a")).isEmpty();
    Table t = outside.loadTable(id("shop.a"));
    assertThat(t.currentSnapshot().parentId()).isNotNull();
    assertThat(handle.transactions().get(handle.transactions().size() - 1).operation())
        .isEqualTo("overwrite");
  }

  /** The mark's txn-id is the derived id. */
  @Test
  void theMarksIdIsDerived() {
    Table b = outside.loadTable(id("shop.b"));
    assertThat(b.currentSnapshot().summary().get("txns.txn-id"))
        .isEqualTo(
            Entry.derivedId(
                "register", b.uuid().toString(), Long.toString(b.currentSnapshot().snapshotId())));
  }

  /** Two appends of one explicit transaction to a table that moved. */
  @Test
  void snapshotsCarryTheCommitTs() {
    Table a = outside.loadTable(id("shop.a"));
    Snapshot s = a.currentSnapshot();
    assertThat(Long.toString(s.timestampMillis())).isEqualTo(s.summary().get("txns.commit-ts"));
    assertThat(a.properties().get("txns.applied")).isEqualTo(s.summary().get("txns.commit-ts"));
  }

  /** Adopt after a rejected rollback. */
  @Test
  void adoptAfterARejectedRollback() {
    append(ours.loadTable(id("shop.a")), 2);
    Table table = outside.loadTable(id("shop.a"));
    table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit();
    handle.repairReject(id("shop.a"));
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a"))).isInstanceOf(TxnException.class);
  }

  /** A branch, outside a transaction. */
  @Test
  void createBranchOutsideATransaction() {
    ours.loadTable(id("shop.a")).manageSnapshots().createBranch("audit").commit();
    assertThat(outside.loadTable(id("shop.a")).refs()).containsKey("audit");
  }

  /** Retention survives CREATE OR REPLACE. */
  @Test
  void retentionSurvivesReplace() {
    ours.buildTable(id("shop.a"), Lake.SCHEMA).replaceTransaction().commitTransaction();
    assertThat(outside.loadTable(id("shop.a")).refs().get("main").minSnapshotsToKeep())
        .isEqualTo(10);
  }

  /** A create's payload says which schema, spec and order are current. */
  @Test
  void createIsComplete() {
    ours.createTable(id("shop.c"), Lake.SCHEMA);
    Entry e =
        handle.services().log().load().state().entries().stream()
            .filter(x -> x.applies() && x.changes().get(0).operation() == Operation.CREATE)
            .findFirst()
            .get();
    assertThat(e.payload().inline())
        .contains("set-current-schema")
        .contains("set-default-spec")
        .contains("set-default-sort-order");
  }

  /** The catalog is down after a lost answer: the outcome is unknown, and nothing is deleted. */
  @Test
  void lostAnswerThenNoCatalog() {
    boolean[] down = {false}, arm = {false};
    Catalog real = lake.catalog();
    Catalog flaky = new Flaky(real, down, arm);
    TxnHandle h = TxnHandle.open("lake", flaky, Lake.INLINE, Lake.CLOCK);
    Transaction t = h.begin(BeginOptions.defaults());
    append(on(h, t, "shop.a"), 2);
    append(on(h, t, "shop.b"), 2);
    arm[0] = true;
    for (Executable end : List.<Executable>of(t::commit, t::rollback)) {
      TxnException e = Assertions.assertThrows(TxnException.class, end);
      assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN);
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  static class Flaky implements Catalog {
    final Catalog real;
    final boolean[] down, arm;

    Flaky(Catalog real, boolean[] down, boolean[] arm) {
      this.real = real;
      this.down = down;
      this.arm = arm;
    }

    void check() {
      if (down[0])
        throw new org.apache.iceberg.jdbc.UncheckedSQLException(
            new java.sql.SQLException("down"), "down");
    }

    public String name() {
      return real.name();
    }

    public List<org.apache.iceberg.catalog.TableIdentifier> listTables(
        org.apache.iceberg.catalog.Namespace n) {
      return real.listTables(n);
    }

    public boolean dropTable(org.apache.iceberg.catalog.TableIdentifier i, boolean p) {
      return real.dropTable(i, p);
    }

    public void renameTable(
        org.apache.iceberg.catalog.TableIdentifier a,
        org.apache.iceberg.catalog.TableIdentifier b) {
      real.renameTable(a, b);
    }

    public Table loadTable(org.apache.iceberg.catalog.TableIdentifier i) {
      check();
      BaseTable t = (BaseTable) real.loadTable(i);
      TableOperations ops = t.operations();
      TableOperations wrapped =
          (TableOperations)
              Proxy.newProxyInstance(
                  getClass().getClassLoader(),
                  new Class<?>[] {TableOperations.class},
                  (p, m, a) -> {
                    try {
                      if (m.getName().equals("refresh")) check();
                      Object r = m.invoke(ops, a);
                      if (m.getName().equals("commit") && arm[0] && i.name().equals("commits")) {
                        arm[0] = false;
                        down[0] = true;
                        new Thread(
                                () -> {
                                  try {
                                    Thread.sleep(1500);
                                  } catch (InterruptedException e) {
                                  }
                                  down[0] = false;
                                })
                            .start();
                        throw new org.apache.iceberg.jdbc.UncheckedSQLException(
                            new java.sql.SQLException("lost"), "lost");
                      }
                      return r;
                    } catch (InvocationTargetException e) {
                      throw e.getCause();
                    }
                  });
      return new BaseTable(wrapped, t.name());
    }
  }

  /**
   * 1. a is forgotten; its entries stand in the head. 2. It is dropped, and another table made
   * under its name, both past the protocol. 3. What stands there is the catalog's word.
   */
  @Test
  void anotherTableTakesTheNameOfAForgottenOne() {
    TxnHandle handle = lake.open();
    handle.catalog(() -> null).createTable(id("shop.gone"), Lake.SCHEMA);
    handle.forget(id("shop.gone"));
    lake.catalog().dropTable(id("shop.gone"), false);
    append(lake.catalog().createTable(id("shop.gone"), Lake.SCHEMA), 2);
    assertThat(handle.apply()).isZero();
    handle.register(id("shop.gone"));
    assertThat(lake.txnIds("shop.gone")).containsExactly(2L);
    handle.tidy();
    assertThat(handle.transactions()).allMatch(TransactionRow::applied);
  }
}
