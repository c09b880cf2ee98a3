package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import java.util.List;
import java.util.function.Consumer;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A table object stands for one table, whatever has its name since. */
class ObjectIdentityTest extends TwoTables {
  /** What takes the name of `shop.a`, with one row that is 7. */
  enum Successor {
    RENAMED {
      @Override
      void take(ObjectIdentityTest test) {
        test.ours.renameTable(id("shop.a"), id("shop.away"));
        test.ours.renameTable(id("shop.b"), id("shop.a"));
        append(test.ours.loadTable(id("shop.a")), 7);
      }
    },
    PLAIN {
      @Override
      void take(ObjectIdentityTest test) {
        test.ours.renameTable(id("shop.a"), id("shop.away"));
        append(test.outside.createTable(id("shop.a"), Lake.SCHEMA), 7);
      }
    },
    CREATED_AGAIN {
      @Override
      void take(ObjectIdentityTest test) {
        test.ours.dropTable(id("shop.a"), false);
        append(test.ours.createTable(id("shop.a"), Lake.SCHEMA), 7);
      }
    },
    CREATED_AGAIN_LATE {
      @Override
      void take(ObjectIdentityTest test) {
        TxnCatalog late = test.lazy.catalog(() -> null);
        late.dropTable(id("shop.a"), false);
        late.createTable(id("shop.a"), Lake.SCHEMA);
        append(late.loadTable(id("shop.a")), 7);
      }
    };

    abstract void take(ObjectIdentityTest test);
  }

  private static final List<Consumer<Table>> WRITES =
      List.of(
          table -> append(table, 5),
          table -> table.newFastAppend().appendFile(Lake.file(table, 5)).commit(),
          table -> table.newReplacePartitions().addFile(Lake.file(table, 5)).commit(),
          table -> table.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit(),
          table -> table.updateProperties().set("color", "red").commit(),
          table -> {
            var steps = table.newTransaction();
            steps.newAppend().appendFile(Lake.file(table, 5)).commit();
            steps.commitTransaction();
          },
          Table::refresh);

  private static void isRefused(ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> {
              assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT);
              assertThat(e.parameters()).containsEntry(TxnException.TABLE, "shop.a");
            })
        .hasMessageContaining("load it again");
  }

  private void isAsItsOwnersLeftIt() {
    Table table = lake.open().catalog(() -> null).loadTable(id("shop.a"));
    assertThat(ids(table)).containsExactly(7L);
    assertThat(table.properties()).doesNotContainKey("color");
    assertThat(table.schema().columns()).hasSize(2);
  }

  @ParameterizedTest
  @EnumSource(Successor.class)
  void whatItWritesDoesNotLandInAnother(Successor successor) {
    List<Table> loaded = WRITES.stream().map(write -> ours.loadTable(id("shop.a"))).toList();
    successor.take(this);
    for (int i = 0; i < loaded.size(); i++) {
      Table table = loaded.get(i);
      Consumer<Table> write = WRITES.get(i);
      isRefused(() -> write.accept(table));
    }
    isAsItsOwnersLeftIt();
  }

  /** What does not ask first is refused as stale, and then as another's. */
  @ParameterizedTest
  @EnumSource(value = Successor.class, names = "PLAIN", mode = EnumSource.Mode.EXCLUDE)
  void itsSchemaIsNotAltered(Successor successor) {
    Table table = ours.loadTable(id("shop.a"));
    successor.take(this);
    ThrowingCallable alter =
        () -> table.updateSchema().addColumn("more", Types.LongType.get()).commit();
    assertThatThrownBy(alter).isInstanceOf(RuntimeException.class);
    isRefused(table::refresh);
    isAsItsOwnersLeftIt();
  }

  /** An operation that began before is its table's, too: Iceberg tries it again. */
  @ParameterizedTest
  @EnumSource(Successor.class)
  void whatBeganBefore(Successor successor) {
    Table table = ours.loadTable(id("shop.a"));
    var appending = table.newAppend().appendFile(Lake.file(table, 5));
    var altering = table.updateSchema().addColumn("more", Types.LongType.get());
    successor.take(this);
    isRefused(appending::commit);
    assertThatThrownBy(altering::commit).isInstanceOf(RuntimeException.class);
    isAsItsOwnersLeftIt();
  }

  @ParameterizedTest
  @EnumSource(Successor.class)
  void inATransactionThatBeganSince(Successor successor) {
    Transaction[] running = new Transaction[1];
    TxnCatalog catalog = handle.catalog(() -> running[0]);
    Table table = catalog.loadTable(id("shop.a"));
    successor.take(this);
    handle.apply();
    running[0] = handle.begin(BeginOptions.defaults());
    if (successor == Successor.PLAIN) {
      assertThatThrownBy(() -> append(table, 5)).isInstanceOf(TxnException.class);
    } else {
      isRefused(() -> append(table, 5));
      isRefused(table::refresh);
    }
    running[0].commit();
    isAsItsOwnersLeftIt();
  }

  /** 1. A transaction creates a table, and is rolled back. 2. Somebody else takes the name. */
  @Test
  void aTableThatWasCreatedByATransactionThatIsOver() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table table = handle.catalog(() -> txn).createTable(id("shop.c"), Lake.SCHEMA);
    assertThat(ids(table)).isEmpty();
    txn.rollback();
    append(ours.createTable(id("shop.c"), Lake.SCHEMA), 7);
    assertThatThrownBy(() -> append(table, 5))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(lake.txnIds("shop.c")).containsExactly(7L);
  }

  /** Its own creator may go on with it, and so may who replaces it. */
  @Test
  void itsOwnCreationAndReplacement() {
    Table created = ours.createTable(id("shop.c"), Lake.SCHEMA);
    append(created, 1);
    var replacing = ours.buildTable(id("shop.c"), Lake.SCHEMA).createOrReplaceTransaction();
    replacing.commitTransaction();
    append(created, 2);
    ours.dropTable(id("shop.c"), false);
    var again =
        (BaseTransaction) ours.buildTable(id("shop.c"), Lake.SCHEMA).createOrReplaceTransaction();
    again.commitTransaction();
    TableOperations own = again.underlyingOps();
    append(ours.loadTable(id("shop.c")), 3);
    assertThat(own.refresh().currentSnapshot().summary()).containsEntry("total-records", "1");
    ours.dropTable(id("shop.c"), false);
    assertThatThrownBy(own::refresh).isInstanceOf(NoSuchTableException.class);
    append(ours.createTable(id("shop.c"), Lake.SCHEMA), 4);
    assertThatThrownBy(own::refresh).hasMessageContaining("load it again");
  }

  /** What a transaction has created again is the same once it has committed. */
  @Test
  void itsOwnCreationInATransaction() {
    Transaction[] running = {handle.begin(BeginOptions.defaults())};
    TxnCatalog catalog = handle.catalog(() -> running[0]);
    catalog.dropTable(id("shop.a"), false);
    Table again = catalog.createTable(id("shop.a"), Lake.SCHEMA);
    Table first = catalog.createTable(id("shop.c"), Lake.SCHEMA);
    append(again, 2);
    append(first, 2);
    running[0].commit();
    running[0] = null;
    append(again, 3);
    append(first, 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(2L, 3L);
    assertThat(lake.txnIds("shop.c")).containsExactly(2L, 3L);
  }

  /** Under care or not, it is the same table. */
  @Test
  void itComesUnderCareAndLeavesIt() {
    outside.createTable(id("shop.c"), Lake.SCHEMA);
    Table before = ours.loadTable(id("shop.c"));
    handle.register(id("shop.c"));
    Table under = ours.loadTable(id("shop.c"));
    handle.forget(id("shop.c"));
    under.refresh();
    assertThatThrownBy(() -> append(under, 5))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("system.register('shop.c')");
    append(before, 6);
    handle.register(id("shop.c"));
    append(under, 7);
    assertThat(lake.plainIds("shop.c")).containsExactly(6L, 7L);
  }
}
