package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.id;

import io.txns.iceberg.Days;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnHandle;
import java.nio.file.Path;
import java.util.Map;
import org.apache.iceberg.Table;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** A lake with a table of days, see {@link Days}, and one elsewhere; both under care. */
abstract class DaysTestBase {
  static final String DAYS = "shop.days";
  static final Map<String, String> FORMAT_2 = Map.of("format-version", "2");

  @TempDir Path folder;
  Lake lake;
  TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    Days.create(lake, DAYS, FORMAT_2);
    handle.register(id(DAYS));
    lake.create(handle, "shop.elsewhere");
  }

  /** The table of days in a transaction. */
  Table in(Transaction txn) {
    return handle.catalog(() -> txn).loadTable(id(DAYS));
  }

  /** The table of days as who is in no transaction has it. */
  Table auto() {
    return in(null);
  }
}
