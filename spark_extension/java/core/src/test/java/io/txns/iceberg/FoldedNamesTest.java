package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.apache.iceberg.expressions.Expressions.alwaysTrue;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.catalog.Transaction;
import java.util.Locale;
import java.util.Map;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tables on a catalog that does not tell letters apart, written under names of other letters. */
class FoldedNamesTest extends TwoTables {
  /** Catalogs list their own letters; a transaction drops a table under whatever letters. */
  @Test
  void aTransactionDoesNotListWhatItDropped() {
    TxnHandle reader = folding(Map.of());
    Transaction txn = reader.begin(BeginOptions.defaults());
    TxnCatalog catalog = reader.catalog(() -> txn);
    append(catalog.loadTableForWrite(id("shop.A")), 2);
    assertThat(catalog.listTables(Namespace.of("shop"))).containsOnlyOnce(id("shop.a"));
    assertThat(catalog.dropTable(id("shop.A"))).isTrue();
    assertThat(catalog.listTables(Namespace.of("shop"))).containsExactly(id("shop.b"));
    txn.rollback();
  }

  /** Whoever registers a table takes nothing from who found it as it is, whatever the letters. */
  @Test
  void whatComesUnderCareMeanwhileIsWritten() {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    append(outside.loadTable(id("shop.c")), 1);
    TxnHandle writer = folding(Map.of("txns.register", "all", "txns.apply", "inline"));
    Transaction txn = writer.begin(BeginOptions.defaults());
    lake.open().register(id("shop.c"));
    TxnCatalog catalog = writer.catalog(() -> txn);
    assertThat(catalog.listTables(Namespace.of("shop"))).contains(id("shop.c"));
    catalog.loadTableForWrite(id("shop.C")).newDelete().deleteFromRowFilter(alwaysTrue()).commit();
    txn.commit();
    assertThat(outside.loadTable(id("shop.c")).currentSnapshot().operation()).isEqualTo("delete");
  }

  /** It reads what it has written under other letters, and commits one change. */
  @Test
  void aTransactionKnowsATableByEachOfItsNames() {
    TxnHandle writer = folding(Map.of("txns.apply", "inline"));
    Transaction txn = writer.begin(BeginOptions.defaults());
    TxnCatalog catalog = writer.catalog(() -> txn);
    append(catalog.loadTableForWrite(id("shop.a")), 2);
    assertThat(Lake.ids(catalog.loadTable(id("shop.A")))).contains(2L);
    append(catalog.loadTableForWrite(id("shop.A")), 3);
    assertThat(Lake.ids(catalog.loadTable(id("shop.a")))).contains(2L, 3L);
    txn.commit();
    assertThat(Lake.ids(outside.loadTable(id("shop.a")))).contains(2L, 3L);
    assertThat(txn.tables()).containsExactly("shop.a");
  }

  /** It may be made again under the other name; a savepoint brings the first one back. */
  @Test
  void aTableThatATransactionDropsIsGoneUnderEachOfItsNames() {
    TxnHandle writer = folding(Map.of("txns.apply", "inline"));
    Transaction txn = writer.begin(BeginOptions.defaults());
    TxnCatalog catalog = writer.catalog(() -> txn);
    txn.savepoint("before");
    assertThat(catalog.dropTable(id("shop.A"))).isTrue();
    assertThat(catalog.tableExists(id("shop.a"))).isFalse();
    txn.rollbackTo("before");
    assertThat(catalog.tableExists(id("shop.a"))).isTrue();
    assertThat(catalog.dropTable(id("shop.a"))).isTrue();
    append(catalog.createTable(id("shop.A"), Lake.SCHEMA), 7);
    assertThat(Lake.ids(catalog.loadTable(id("shop.a")))).containsExactly(7L);
    txn.commit();
    assertThat(Lake.ids(outside.loadTable(id("shop.a")))).containsExactly(7L);
  }

  /** Only the catalog knows whether they are one; the second one would never be carried out. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTransactionCreatesNoTwoTablesWhoseNamesDifferInLettersAlone(boolean dropped) {
    TxnHandle writer = folding(Map.of("txns.apply", "inline"));
    if (dropped) { // and is created again on the physical table
      assertThat(ours.dropTable(id("shop.a"))).isTrue();
    }
    Transaction txn = writer.begin(BeginOptions.defaults());
    TxnCatalog catalog = writer.catalog(() -> txn);
    String name = dropped ? "a" : "c";
    append(catalog.createTable(id("shop." + name), Lake.SCHEMA), 7);
    append(catalog.createTable(id("shop." + name.toUpperCase(Locale.ROOT)), Lake.SCHEMA), 8);
    assertThatThrownBy(txn::commit).hasMessageContaining("differ in letters alone");
    assertThat(ours.tableExists(id("shop." + name))).isFalse();
  }

  /** Where the catalog folds letters there is that one then, and no second one. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aNewTableOfTheLogIsCreatedBeforeOneOfOtherLetters(boolean folds) {
    append(lazy.catalog(() -> null).createTable(id("shop.C"), Lake.SCHEMA), 1);
    TxnHandle writer = folds ? folding(Map.of("txns.apply", "inline")) : handle;
    Transaction txn = writer.begin(BeginOptions.defaults());
    append(writer.catalog(() -> txn).createTable(id("shop.c"), Lake.SCHEMA), 2);
    if (folds) {
      assertThatThrownBy(txn::commit).hasMessageContaining("was created");
    } else {
      txn.commit();
    }
    TxnCatalog reader = writer.catalog(() -> null);
    assertThat(Lake.ids(reader.loadTable(id("shop.C")))).containsExactly(1L);
    assertThat(Lake.ids(reader.loadTable(id("shop.c")))).containsExactly(folds ? 1L : 2L);
  }

  /** Only the catalog knows whether it is; where it has the other one, it tells. */
  @Test
  void whatIsNotLoggedTakesNoNameThatMayBeThatOfANewTable() {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    lazy.catalog(() -> null).createTable(id("shop.T"), Lake.SCHEMA);
    assertThatThrownBy(() -> ours.renameTable(id("shop.c"), id("shop.t")))
        .hasMessageContaining("differs in letters alone");
    assertThat(handle.apply()).isZero();
    ours.renameTable(id("shop.c"), id("shop.t"));
    assertThat(outside.tableExists(id("shop.t"))).isTrue();
  }

  private TxnHandle folding(Map<String, String> options) {
    JdbcCatalog folding =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier name) {
            return super.newTableOps(id(name.toString().toLowerCase(Locale.ROOT)));
          }
        };
    folding.initialize("lake", lake.options());
    return TxnHandle.open("lake", folding, TxnConfig.from(options), new MovedClock(0));
  }
}
