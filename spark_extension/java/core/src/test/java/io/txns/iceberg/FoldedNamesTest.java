package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
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
    JdbcCatalog folding =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            return super.loadTable(id(name.toString().toLowerCase(Locale.ROOT)));
          }
        };
    folding.initialize("lake", lake.options());
    TxnHandle reader = TxnHandle.open("lake", folding, TxnConfig.from(Map.of()), new MovedClock(0));
    Transaction txn = reader.begin(BeginOptions.defaults());
    TxnCatalog catalog = reader.catalog(() -> txn);
    append(catalog.loadTableForWrite(id("shop.A")), 2);
    assertThat(catalog.listTables(Namespace.of("shop"))).containsOnlyOnce(id("shop.a"));
    assertThat(catalog.dropTable(id("shop.A"))).isTrue();
    assertThat(catalog.listTables(Namespace.of("shop"))).containsExactly(id("shop.b"));
    txn.rollback();
  }
}
