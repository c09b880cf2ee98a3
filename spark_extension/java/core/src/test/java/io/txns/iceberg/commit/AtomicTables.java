package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/** Two tables, of which a swap moves what it names. */
abstract class AtomicTables extends TwoTables {
  static final TableIdentifier A = id("shop.a");
  static final TableIdentifier B = id("shop.b");

  static Transaction appending(TxnHandle handle, long row, TableIdentifier... tables) {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    for (TableIdentifier table : tables) {
      append(handle.catalog(() -> txn).loadTable(table), row);
    }
    return txn;
  }

  /** Which tables of each entry that stands moved with it. */
  List<List<Boolean>> born() {
    return Lake.standing(handle).stream()
        .map(entry -> entry.changes().stream().map(Change::bornApplied).toList())
        .toList();
  }

  List<Boolean> bornLast() {
    List<List<Boolean>> born = born();
    return born.get(born.size() - 1);
  }

  TableMetadata stored(TableIdentifier table) {
    return ((BaseTable) outside.loadTable(table)).operations().refresh();
  }

  Set<Path> metadataFiles() {
    return lake.filesBelow("").stream()
        .filter(path -> path.toString().endsWith(".metadata.json"))
        .filter(path -> !path.toString().contains("/txns/"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** The metadata files that the rows of tables lead to. */
  Set<Path> named(TableIdentifier... tables) {
    Set<Path> named = new TreeSet<>();
    for (TableIdentifier table : tables) {
      TableMetadata metadata = stored(table);
      named.add(path(metadata.metadataFileLocation()));
      metadata.previousFiles().forEach(file -> named.add(path(file.file())));
    }
    return named;
  }

  private static Path path(String location) {
    return Path.of(location.replaceFirst("^file:", ""));
  }
}
