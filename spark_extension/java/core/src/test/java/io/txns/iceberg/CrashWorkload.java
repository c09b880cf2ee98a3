package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;

import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.iceberg.CatalogProperties;

/**
 * The process that dies: transaction k appends k to shop.a, makes shop.b hold 1 to k, and creates
 * shop.ck with k in it; then the next; the log is tidied on the way.
 *
 * <p>Arguments: folder, call at which to die. It prints k when transaction k was acknowledged, and
 * the number of calls when it lives to the end.
 */
final class CrashWorkload {
  static final int TRANSACTIONS = 4;

  private CrashWorkload() {}

  public static void main(String[] arguments) {
    Lake lake = new Lake(Path.of(arguments[0]));
    Halt.HaltingCatalog catalog = new Halt.HaltingCatalog();
    Map<String, String> options = lake.options();
    options.put(CatalogProperties.FILE_IO_IMPL, Halt.HaltingFileIO.class.getName());
    catalog.initialize("lake", options);
    TxnHandle handle =
        TxnHandle.open(
            "lake", catalog, TxnConfig.from(Map.of("txns.tidy-after", "2")), TxnClock.system());
    Halt.at(Integer.parseInt(arguments[1]));
    for (long k = 1; k <= TRANSACTIONS; k++) {
      run(handle, k);
      System.out.println("committed " + k);
      System.out.flush();
    }
    System.out.println("calls " + Halt.calls());
  }

  static void run(TxnHandle handle, long k) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    TxnCatalog tables = handle.catalog(() -> txn);
    append(tables.loadTable(id("shop.a")), k);
    overwrite(tables.loadTable(id("shop.b")), LongStream.rangeClosed(1, k).toArray());
    tables.createTable(id("shop.c" + k), Lake.SCHEMA);
    append(tables.loadTable(id("shop.c" + k)), k);
    txn.commit();
  }
}
