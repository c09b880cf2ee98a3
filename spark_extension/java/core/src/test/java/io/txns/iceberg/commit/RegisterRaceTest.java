package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayDeque;
import java.util.Deque;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.relocated.com.google.common.collect.Iterables;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Who registers a table while others write or register it. */
class RegisterRaceTest extends TwoTables {
  private final Deque<Runnable> before = new ArrayDeque<>();
  private final Deque<Runnable> after = new ArrayDeque<>();
  private TxnHandle late;

  /** A catalog that does something else just before the first swaps of a table, or after. */
  @BeforeEach
  void openLate() {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    late =
        HookedOperations.open(
            lake,
            id("shop.c"),
            (real, base, next) -> {
              if (!before.isEmpty()) {
                before.poll().run();
              }
              real.commit(base, next);
              if (!after.isEmpty()) {
                after.poll().run();
              }
            },
            Lake.CLOCK);
  }

  @Test
  void whoComesSecondFindsTheMark() {
    before.add(() -> lake.open().register(id("shop.c")));
    late.register(id("shop.c"));
    assertThat(late.services().log().load().state().entries())
        .filteredOn(entry -> entry.kind() == EntryKind.REGISTER)
        .filteredOn(entry -> entry.changes().get(0).table().equals(id("shop.c")))
        .hasSize(1);
  }

  /**
   * 1. R loads the head. 2. F forgets the table, which shows it. 3. R loads the table, marks it.
   */
  @Test
  void aTableIsForgottenMeanwhile() {
    before.add(() -> lake.open().forget(id("shop.a")));
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            if (name.equals(id("shop.a")) && !before.isEmpty()) {
              before.poll().run();
            }
            return super.loadTable(name);
          }
        };
    catalog.initialize("lake", lake.options());
    TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK).register(id("shop.a"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Its entry would stand above the forget that takes its mark: nobody could use the table. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTableIsForgottenBetweenItsMarkAndItsEntry(boolean archived) {
    after.add(
        () -> {
          lake.open().forget(id("shop.c"));
          if (archived) {
            assertThat(lake.open().tidy()).isPositive();
          }
        });
    assertThatThrownBy(() -> late.register(id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("from care since");
    late.register(id("shop.c"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.c")), 2);
    assertThat(lake.txnIds("shop.c")).containsExactly(2L);
  }

  /** 1. A table is marked. 2. A replica has it as it was. 3. The registration is logged. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aReplicaThatLagsBehindAMarkHidesNoRegistration(boolean again) {
    if (again) {
      handle.register(id("shop.c"));
      handle.forget(id("shop.c"));
    }
    TableMetadata older = ((BaseTable) outside.loadTable(id("shop.c"))).operations().current();
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier name) {
            TableOperations real = super.newTableOps(name);
            return name.equals(id("shop.c")) ? lagging(real, older) : real;
          }
        };
    catalog.initialize("lake", lake.options());
    long registered =
        TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK).register(id("shop.c"));
    Entry newest = Iterables.getLast(handle.services().log().load().state().entries());
    assertThat(newest.kind()).isEqualTo(EntryKind.REGISTER);
    assertThat(newest.commitTs()).isEqualTo(registered);
  }

  /** The swap's answer is the catalog's own; whoever asks again gets what a replica has. */
  private static TableOperations lagging(TableOperations real, TableMetadata older) {
    return new HookedOperations(real) {
      @Override
      public TableMetadata refresh() {
        return older;
      }
    };
  }

  @Test
  void aStrangerWritesMeanwhile() {
    before.add(() -> append(outside.loadTable(id("shop.c")), 2));
    late.register(id("shop.c"));
    assertThat(lake.txnIds("shop.c")).containsExactly(2L);
  }

  @Test
  void neverWins() {
    Runnable refuse =
        () -> {
          throw new CommitFailedException("not now");
        };
    before.add(refuse);
    before.add(refuse);
    assertThatThrownBy(() -> late.register(id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("while it is registered");
    late.register(id("shop.c"));
    assertThat(lake.txnIds("shop.c")).isEmpty();
  }

  /** A transaction stages an append; then a stranger takes the table's mark. */
  private Transaction openWithoutMark() {
    lake.open().register(id("shop.c"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.c")), 1);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id("shop.c")), 2);
    outside.loadTable(id("shop.c")).updateProperties().remove(TableMark.COMMIT_TABLE).commit();
    return txn;
  }

  /** What strangers appended below the mark is kept on a branch, like all that apply meets. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTransactionCommitsBetweenAMarkAndItsEntry(boolean above) {
    Transaction txn = openWithoutMark();
    append(outside.loadTable(id("shop.c")), 50);
    after.add(txn::commit);
    late.register(id("shop.c"));
    if (above) {
      append(outside.loadTable(id("shop.c")), 60);
    }
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 2L);
    handle.apply();
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L);
    handle.repairAdopt(id("shop.c"));
    if (above) {
      handle.repairAdopt(id("shop.c")); // each on a branch of its own, which ends at the mark
    }
    assertThat(lake.plainIds("shop.c"))
        .containsExactly(above ? new Long[] {1L, 2L, 50L, 60L} : new Long[] {1L, 2L, 50L});
    assertThat(outside.loadTable(id("shop.c")).refs()).containsOnlyKeys("main");
  }

  /** It is quarantine, too: what the run stands on is not in what the mark stands on. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTransactionCommitsAfterARollbackBelowAMark(boolean appended) {
    Transaction txn = openWithoutMark();
    Table table = outside.loadTable(id("shop.c"));
    table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit();
    if (appended) {
      append(outside.loadTable(id("shop.c")), 50);
    }
    after.add(txn::commit);
    late.register(id("shop.c"));
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 2L);
    assertThat(handle.apply()).isEqualTo(1);
    handle.repairReject(id("shop.c"));
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L);
    if (appended) {
      handle.repairAdopt(id("shop.c"));
      assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L, 50L);
    }
  }

  /** So it is where a stranger replaced the table: what it was registered with has no parent. */
  @Test
  void aTransactionCommitsAfterAReplacementBelowAMark() {
    handle.register(id("shop.c"));
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id("shop.c")), 2);
    outside.loadTable(id("shop.c")).updateProperties().remove("txns.commit-table").commit();
    outside.buildTable(id("shop.c"), Lake.SCHEMA).replaceTransaction().commitTransaction();
    append(outside.loadTable(id("shop.c")), 50);
    after.add(txn::commit);
    late.register(id("shop.c"));
    assertThat(handle.apply()).isEqualTo(1);
    handle.repairReject(id("shop.c"));
    assertThat(lake.plainIds("shop.c")).containsExactly(2L);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.c")))
        .hasMessageContaining("stands on nothing that is known");
  }

  /** A mark says that all before it is applied: what is not would be lost. */
  @Test
  void aTransactionCommitsBeforeATableIsMarkedAgain() {
    Transaction txn = openWithoutMark();
    before.add(txn::commit);
    TxnHandle registrar = loadingLate();
    assertThatThrownBy(() -> registrar.register(id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("not applied");
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, 2L);
    handle.repairReject(id("shop.c"));
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L);
  }

  /**
   * What the log has of a table is looked for in one that is loaded after the log. What it lacks
   * then is still to be applied by those who registered it.
   */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anotherOneHasRegisteredAndWrittenIt(boolean applied) {
    TxnHandle other = applied ? lake.open() : lazy;
    before.add(() -> {}); // who applies loads it first
    before.add(
        () -> {
          other.register(id("shop.c"));
          append(other.catalog(() -> null).loadTable(id("shop.c")), 2);
        });
    loadingLate().register(id("shop.c"));
    assertThat(lake.txnIds("shop.c")).containsExactly(2L);
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.c")).containsExactly(2L);
  }

  /** Something else happens just after the first loads of the table. */
  private TxnHandle loadingLate() {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            Table table = super.loadTable(name);
            if (name.equals(id("shop.c")) && !before.isEmpty()) {
              before.poll().run();
            }
            return table;
          }
        };
    catalog.initialize("lake", lake.options());
    return TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK);
  }
}
