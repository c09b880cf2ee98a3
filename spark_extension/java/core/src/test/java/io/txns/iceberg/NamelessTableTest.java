package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.catalog.Transaction;
import org.apache.iceberg.BaseTable;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A table without a namespace, which JDBC and Hadoop catalogs make, and pyiceberg cannot load. */
class NamelessTableTest extends TwoTables {
  @BeforeEach
  void needsACatalogThatHasSuch() {
    assumeFalse(Lake.isRest(), "a REST catalog refuses the name itself");
  }

  private static void assertRefused(ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("42602"))
        .hasMessageContaining("a table needs a namespace: name it lake.default.");
  }

  /** Nothing is logged, and nothing is in the catalog. */
  @Test
  void isMadeInNoWay() {
    long before = handle.services().log().load().upper();
    Transaction txn = handle.begin(BeginOptions.defaults());
    TxnCatalog within = handle.catalog(() -> txn);
    String file =
        ((BaseTable) outside.loadTable(id("shop.a"))).operations().current().metadataFileLocation();
    assertRefused(() -> ours.createTable(id("orders"), Lake.SCHEMA));
    assertRefused(() -> ours.buildTable(id("orders"), Lake.SCHEMA).createTransaction());
    assertRefused(() -> ours.buildTable(id("orders"), Lake.SCHEMA).createOrReplaceTransaction());
    assertRefused(() -> within.createTable(id("orders"), Lake.SCHEMA));
    assertRefused(() -> ours.registerTable(id("orders"), file));
    assertRefused(() -> ours.renameTable(id("shop.a"), id("orders")));
    assertThat(outside.tableExists(id("orders"))).isFalse();
    assertThat(handle.services().log().load().upper()).isEqualTo(before);
  }

  /** It stays plain: written past the protocol, and renamed, it comes under care. */
  @Test
  void thatSomebodyHasMadeIsRenamedAndRegistered() {
    append(outside.createTable(id("orders"), Lake.SCHEMA), 1);
    assertRefused(() -> handle.register(id("orders")));
    append(ours.loadTable(id("orders")), 2);
    ours.renameTable(id("orders"), id("shop.orders"));
    handle.register(id("shop.orders"));
    assertThat(lake.txnIds("shop.orders")).containsExactly(1L, 2L);
  }
}
