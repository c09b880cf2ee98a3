package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.apache.iceberg.expressions.Expressions.alwaysTrue;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.catalog.Transaction;
import java.util.Locale;
import java.util.Map;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Test;

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

  private TxnHandle folding(Map<String, String> options) {
    JdbcCatalog folding =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            return super.loadTable(id(name.toString().toLowerCase(Locale.ROOT)));
          }
        };
    folding.initialize("lake", lake.options());
    return TxnHandle.open("lake", folding, TxnConfig.from(options), new MovedClock(0));
  }
}
