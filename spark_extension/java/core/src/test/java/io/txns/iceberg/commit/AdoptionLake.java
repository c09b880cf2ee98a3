package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.util.Map;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.CloseableIterable;

/** A table, {@code shop.a}, to which strangers append beside handles of each way to apply. */
abstract class AdoptionLake extends TwoTables {
  static final TableIdentifier A = id("shop.a");
  static final long BESIDE = 100;

  final TxnHandle opened(String apply) {
    return "atomic".equals(apply) ? lake.atomic() : lake.open(Map.of("txns.apply", apply));
  }

  static Transaction begun(TxnHandle ours) {
    return ours.begin(BeginOptions.defaults());
  }

  static Table in(TxnHandle ours, Transaction txn) {
    return ours.catalog(() -> txn).loadTable(A);
  }

  /** A stranger appends a row. */
  final void appendBeside(long row) {
    append(outside.loadTable(A), row);
  }

  /** Puts a table's rows into one file. */
  static void compact(Table table) throws IOException {
    var rewrite = table.newRewrite();
    long[] rows = ids(table).stream().mapToLong(Long::longValue).toArray();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      tasks.forEach(task -> rewrite.deleteFile(task.file()));
    }
    rewrite.addFile(Lake.file(table, rows)).commit();
  }
}
