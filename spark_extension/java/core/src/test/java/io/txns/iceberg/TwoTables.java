package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;

import java.nio.file.Path;
import java.util.Map;
import org.apache.iceberg.catalog.Catalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A lake with `shop.a`, which has one row, and `shop.b`; who writes with us and past us. */
public abstract class TwoTables {
  @TempDir protected Path folder;
  protected Lake lake;
  protected TxnHandle handle;
  protected TxnHandle lazy;
  protected TxnCatalog ours;
  protected Catalog outside;

  @BeforeEach
  public void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lazy = lake.open(Map.of("txns.apply", "next"));
    ours = handle.catalog(() -> null);
    outside = lake.catalog();
    lake.create(handle, "shop.a", "shop.b");
    append(ours.loadTable(id("shop.a")), 1);
  }
}
