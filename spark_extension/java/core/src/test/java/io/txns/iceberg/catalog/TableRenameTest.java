package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.EntryKind;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Test;

/** A rename takes a table from care and puts it back, whatever the catalog makes of it. */
class TableRenameTest extends TwoTables {
  private boolean renames = true;
  private boolean broken;

  /** Renames, whose answer is lost; or does not, and cannot be written any more. */
  private TxnHandle forgetful() {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public void renameTable(TableIdentifier from, TableIdentifier to) {
            broken = !renames;
            if (renames) {
              super.renameTable(from, to);
            }
            throw new IllegalStateException("connection reset by peer");
          }

          @Override
          protected TableOperations newTableOps(TableIdentifier table) {
            HookedOperations.Hook hook =
                (real, base, next) -> {
                  if (broken && !table.equals(id("txns.commits"))) {
                    throw new CommitFailedException("not now");
                  }
                  real.commit(base, next);
                };
            return new HookedOperations(super.newTableOps(table), hook);
          }
        };
    catalog.initialize("lake", lake.options());
    return TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK);
  }

  private boolean isRegistered(String name) {
    return lake.open().services().newest().load(id(name)).registered();
  }

  @Test
  void answerIsLost() {
    TxnCatalog tables = forgetful().catalog(() -> null);
    assertThatThrownBy(() -> tables.renameTable(id("shop.a"), id("shop.c")))
        .hasMessage("connection reset by peer");
    assertThat(isRegistered("shop.c")).isTrue();
    assertThat(lake.txnIds("shop.c")).containsExactly(1L);
  }

  /** The catalog still has it, and would move it away from what is logged of it. */
  @Test
  void aTableThatTheLogHasDropped() {
    ours.dropTable(id("shop.a"), false);
    assertThatThrownBy(() -> ours.renameTable(id("shop.a"), id("shop.c")))
        .isInstanceOf(NoSuchTableException.class);
    ours.createTable(id("shop.a"), Lake.SCHEMA);
    assertThat(isRegistered("shop.a")).isTrue();
    assertThat(outside.tableExists(id("shop.c"))).isFalse();
  }

  /** It is created before it is renamed. */
  @Test
  void catalogDoesNotHaveItYet() {
    TxnCatalog tables = lazy.catalog(() -> null);
    tables.createTable(id("shop.c"), Lake.SCHEMA);
    assertThat(outside.tableExists(id("shop.c"))).isFalse();
    tables.renameTable(id("shop.c"), id("shop.d"));
    assertThat(isRegistered("shop.d")).isTrue();
    assertThat(outside.tableExists(id("shop.c"))).isFalse();
  }

  @Test
  void catalogRefuses() {
    assertThatThrownBy(() -> handle.catalog(() -> null).renameTable(id("shop.a"), id("shop.b")))
        .hasMessageContaining("already exists");
    assertThat(isRegistered("shop.a")).isTrue();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  @Test
  void cannotBeTakenBack() {
    renames = false;
    TxnCatalog tables = forgetful().catalog(() -> null);
    assertThatThrownBy(() -> tables.renameTable(id("shop.a"), id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("reset by peer")
        .hasMessageContaining("others write the table while it is registered")
        .hasMessageContaining("CALL lake.system.register('shop.a')");
    assertThat(isRegistered("shop.a")).isFalse();
    lake.open().register(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  /** Lets others do something before a rename, or after it, whose answer is lost. */
  private TxnCatalog between(Runnable before, Runnable after) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public void renameTable(TableIdentifier from, TableIdentifier to) {
            before.run();
            super.renameTable(from, to);
            after.run();
            throw new IllegalStateException("connection reset by peer");
          }

          @Override
          public Table loadTable(TableIdentifier name) {
            if (broken) {
              throw new IllegalStateException("catalog is away");
            }
            return super.loadTable(name);
          }
        };
    catalog.initialize("lake", lake.options());
    return TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK).catalog(() -> null);
  }

  /** The table is under care where it stands, and nobody else's is. */
  @Test
  void somebodyTakesTheOldName() {
    TxnCatalog tables = between(() -> {}, () -> outside.createTable(id("shop.a"), Lake.SCHEMA));
    assertThatThrownBy(() -> tables.renameTable(id("shop.a"), id("shop.c")))
        .hasMessage("connection reset by peer");
    assertThat(isRegistered("shop.a")).isFalse();
    assertThat(isRegistered("shop.c")).isTrue();
  }

  /** Whose name it was to have keeps a table that nobody registered. */
  @Test
  void isGone() {
    Runnable taken =
        () -> {
          outside.createTable(id("shop.c"), Lake.SCHEMA);
          outside.dropTable(id("shop.a"), false);
        };
    TxnCatalog tables = between(taken, () -> {});
    assertThatThrownBy(() -> tables.renameTable(id("shop.a"), id("shop.c")))
        .isNotInstanceOf(TxnException.class);
    assertThat(isRegistered("shop.c")).isFalse();
  }

  /** The error says that the table is not under care, and what to do under either name. */
  @Test
  void nobodyCanLook() {
    TxnCatalog tables = between(() -> {}, () -> broken = true);
    assertThatThrownBy(() -> tables.renameTable(id("shop.a"), id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("reset by peer")
        .hasMessageContaining("catalog is away")
        .hasMessageContaining("CALL lake.system.register('shop.a')")
        .hasMessageContaining("'shop.c'");
  }

  /** Under its new name nobody would look for the forget: it would be set back for ever. */
  @Test
  void aCommitTableThatIsGoneIsNotOneThatHasNothingToApply() {
    JdbcCatalog hiding =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier table) {
            if (!broken && table.equals(id("shop.a")) && isForgotten()) {
              broken = true;
              outside.renameTable(id("txns.commits"), id("txns.aside"));
            }
            return super.newTableOps(table);
          }
        };
    hiding.initialize("lake", lake.options());
    TxnHandle handle = TxnHandle.open("lake", hiding, Lake.INLINE, Lake.CLOCK);
    assertThatThrownBy(() -> handle.catalog(() -> null).renameTable(id("shop.a"), id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("the commit table is missing");
    assertThat(outside.tableExists(id("shop.c"))).isFalse();
  }

  /** Under its new name nobody would look for the forget of a rename that died. */
  @Test
  void aForgetThatCannotBeAppliedYet() {
    JdbcCatalog refusing =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier table) {
            HookedOperations.Hook hook =
                (real, base, next) -> {
                  if (broken && table.equals(id("shop.a"))) {
                    throw new IllegalStateException("too many requests");
                  }
                  real.commit(base, next);
                };
            return new HookedOperations(super.newTableOps(table), hook);
          }
        };
    refusing.initialize("lake", lake.options());
    TxnHandle handle = TxnHandle.open("lake", refusing, Lake.INLINE, Lake.CLOCK);
    broken = true;
    handle.forget(id("shop.a"));
    TxnCatalog tables = handle.catalog(() -> null);
    assertThatThrownBy(() -> tables.renameTable(id("shop.a"), id("shop.c")))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("entries of the table are not applied");
    assertThat(outside.tableExists(id("shop.c"))).isFalse();
    broken = false;
    tables.renameTable(id("shop.a"), id("shop.c"));
    assertThat(lake.txnIds("shop.c")).containsExactly(1L);
  }

  private boolean isForgotten() {
    return new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK)
        .load().state().entries().stream().anyMatch(entry -> entry.kind() == EntryKind.FORGET);
  }
}
