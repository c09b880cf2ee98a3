package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The protocol for JVM programs without Spark: Iceberg's own {@code catalog-impl}. */
class CatalogImplTest {
  @TempDir Path folder;

  private Map<String, String> options(Lake lake) {
    Map<String, String> options = new HashMap<>();
    options.put(CatalogProperties.CATALOG_IMPL, TxnCatalog.class.getName());
    options.put("txns.delegate.type", "jdbc");
    lake.options().forEach((key, value) -> options.put("txns.delegate." + key, value));
    return options;
  }

  @Test
  void icebergBuildsItAndEveryCommitIsATransaction() {
    Lake lake = new Lake(folder);
    Catalog catalog = CatalogUtil.buildIcebergCatalog("lake", options(lake), null);
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    append(catalog.loadTable(id("shop.a")), 1, 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    TxnHandle handle = ((TxnCatalog) catalog).handle();
    assertThat(handle.transactions())
        .extracting(TransactionRow::operation)
        .containsExactly("create", "append");
  }

  @Test
  void aTransactionIsACatalog() {
    Lake lake = new Lake(folder);
    TxnCatalog catalog = (TxnCatalog) CatalogUtil.buildIcebergCatalog("lake", options(lake), null);
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    Transaction txn = catalog.handle().begin(BeginOptions.defaults());
    Table table = catalog.within(txn).loadTable(id("shop.a"));
    append(table, 1);
    assertThat(lake.txnIds("shop.a")).isEmpty();
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  @Test
  void aMissingDelegateIsNamed() {
    Map<String, String> options =
        Map.of(CatalogProperties.CATALOG_IMPL, TxnCatalog.class.getName());
    assertThatThrownBy(() -> CatalogUtil.buildIcebergCatalog("lake", options, null))
        .hasStackTraceContaining("txns.delegate.");
  }
}
