package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Entry;
import java.util.List;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Test;

/** A rename that lands when its table is under care again: entries before it name the old one. */
class LateRenameTest extends TwoTables {
  private Runnable landing;
  private final TableIdentifier moved = id("shop.moved");

  /** `shop.a` is to be `shop.moved`, is called failed, and is under care again as `shop.a`. */
  private void renameLate() {
    JdbcCatalog late =
        new JdbcCatalog() {
          @Override
          public void renameTable(TableIdentifier from, TableIdentifier to) {
            landing = () -> super.renameTable(from, to);
            throw new IllegalStateException("gateway timeout");
          }
        };
    late.initialize("lake", lake.options());
    TxnHandle renaming = TxnHandle.open("lake", late, Lake.INLINE, Lake.CLOCK);
    assertThatThrownBy(() -> renaming.catalog(() -> null).renameTable(id("shop.a"), moved))
        .hasMessage("gateway timeout");
  }

  private void write(TableIdentifier table, long row) {
    append(lazy.catalog(() -> null).loadTable(table), row);
  }

  private List<Entry> entries() {
    return Lake.standing(lazy);
  }

  /**
   * 1. An entry is written under the old name, and nobody applies it. 2. The rename lands, and the
   * table is written under its new name.
   */
  @Test
  void whatWasWrittenUnderTheOldNameIsAppliedAndTidied() {
    renameLate();
    write(id("shop.a"), 2);
    landing.run();
    assertThat(ids(lazy.catalog(() -> null).loadTable(moved))).containsExactly(1L, 2L);
    write(moved, 3);
    assertThat(lazy.apply()).isZero();
    assertThat(lake.plainIds("shop.moved")).containsExactly(1L, 2L, 3L);
    assertThat(lazy.transactions()).allMatch(TransactionRow::applied);
    lazy.tidy();
    assertThat(entries()).isEmpty();
  }

  /**
   * 1. An entry is written to `shop.a` and `shop.b`. 2. The rename lands, and the table is written
   * twice under its new name. 3. All is applied but to `shop.b`, and tidied.
   */
  @Test
  void aNewNameStaysKnownWhileAnOlderEntryNeedsIt() {
    renameLate();
    Transaction both = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> both).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> both).loadTable(id("shop.b")), 2);
    long needing = both.commit().commitTs();
    landing.run();
    write(moved, 3);
    long naming = lazy.upper();
    write(moved, 4);
    assertThat(lazy.apply(moved)).isZero();
    lazy.tidy();
    assertThat(entries().stream().map(Entry::commitTs)).endsWith(needing, naming);
    assertThat(lazy.apply()).isZero();
    lazy.tidy();
    assertThat(entries()).isEmpty();
  }

  /** Entries that name it are another table's, whose new name is known. */
  @Test
  void aTableThatTakesTheOldNameIsNotQuarantined() {
    renameLate();
    write(id("shop.a"), 2);
    landing.run();
    write(moved, 3);
    lake.create(handle, "shop.a");
    write(id("shop.a"), 9);
    assertThat(lazy.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(9L);
    assertThat(lake.plainIds("shop.moved")).containsExactly(1L, 2L, 3L);
  }

  /** 1. A loads the head. 2. Somebody applies it, and renames the table. 3. A finds no table. */
  @Test
  void anApplierThatHasAnOlderHeadCreatesNoTableAgain() {
    lazy.catalog(() -> null).createTable(id("shop.n"), Lake.SCHEMA);
    JdbcCatalog late =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            if (name.equals(id("shop.n")) && !outside.tableExists(moved)) {
              lazy.catalog(() -> null).renameTable(name, moved);
            }
            return super.loadTable(name);
          }
        };
    late.initialize("lake", lake.options());
    TxnHandle.open("lake", late, Lake.INLINE, Lake.CLOCK).apply();
    assertThat(outside.tableExists(id("shop.n"))).isFalse();
    assertThat(outside.tableExists(moved)).isTrue();
  }

  /** A creation makes no table under the newest name either, where its table was once. */
  @Test
  void aCreatedTableThatComesBackToItsNameIsNotCreatedAgain() {
    lazy.catalog(() -> null).createTable(id("shop.n"), Lake.SCHEMA);
    assertThat(lazy.apply()).isZero();
    outside.renameTable(id("shop.n"), moved);
    write(moved, 1);
    outside.renameTable(moved, id("shop.n"));
    assertThat(lazy.apply()).isEqualTo(1);
    assertThat(outside.tableExists(moved)).isFalse();
    write(id("shop.n"), 2);
    assertThat(lazy.apply()).isZero();
    assertThat(lake.plainIds("shop.n")).containsExactly(1L, 2L);
    lazy.tidy();
    assertThat(entries()).isEmpty();
  }

  /** A creation in the head makes no second table of the name that its table had. */
  @Test
  void aTableThatWasCreatedUnderAnotherNameIsNotCreatedAgain() {
    lazy.catalog(() -> null).createTable(id("shop.n"), Lake.SCHEMA);
    assertThat(lazy.apply()).isZero();
    outside.renameTable(id("shop.n"), moved);
    write(moved, 1);
    assertThatThrownBy(() -> lazy.catalog(() -> null).loadTable(id("shop.n")))
        .isInstanceOf(NoSuchTableException.class);
    assertThat(lazy.apply(id("shop.n"))).isZero();
    assertThat(lazy.apply()).isZero();
    assertThat(outside.listTables(Namespace.of("shop"))).doesNotContain(id("shop.n"));
    assertThat(lazy.catalog(() -> null).listTables(Namespace.of("shop")))
        .containsExactlyInAnyOrder(id("shop.a"), id("shop.b"), moved);
  }
}
