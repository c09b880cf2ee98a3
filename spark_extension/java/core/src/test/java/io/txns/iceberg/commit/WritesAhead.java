package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import java.nio.file.Path;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** Two tables, one writer who writes ahead, and what is noted of it. */
abstract class WritesAhead extends TwoTables {
  static final TableIdentifier A = id("shop.a");
  static final TableIdentifier B = id("shop.b");

  final List<Path> ahead = Collections.synchronizedList(new ArrayList<>());
  final List<Path> locked = Collections.synchronizedList(new ArrayList<>());
  TxnHandle atomic;
  private volatile boolean isLocked;

  @BeforeEach
  void openAtomic() {
    atomic =
        HookedDriver.atomic(
            lake, Map.of(CatalogProperties.FILE_IO_IMPL, HookedFiles.class.getName()));
    appending(9, A, B).commit(); // a catalog looks once how it reaches files
    HookedFiles.hook = path -> note(path(path));
    HookedDriver.hookBegin(this::begun);
    HookedDriver.hookCommit(this::committed);
  }

  @AfterEach
  void forget() {
    HookedFiles.hook = path -> {};
  }

  int begun(HookedDriver.Update begin) throws SQLException {
    begin.run();
    isLocked = true;
    return 0;
  }

  int committed(HookedDriver.Update commit) throws SQLException {
    isLocked = false;
    return commit.run();
  }

  /** Metadata that is written before the rows of its table are locked; all that is afterwards. */
  void note(Path path) {
    if (isLocked) {
      locked.add(path);
    } else if (path.toString().endsWith(".metadata.json")) {
      ahead.add(path);
    }
  }

  /** Let something happen once between what is written ahead and the lock. */
  void meanwhile(Runnable deed) {
    HookedDriver.hookBegin(
        begin -> {
          HookedDriver.hookBegin(this::begun);
          deed.run();
          return begun(begin);
        });
  }

  Transaction appending(long row, TableIdentifier... tables) {
    return appending(atomic, row, tables);
  }

  static Transaction appending(TxnHandle handle, long row, TableIdentifier... tables) {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    for (TableIdentifier table : tables) {
      append(handle.catalog(() -> txn).loadTable(table), row);
    }
    return txn;
  }

  List<Boolean> bornLast() {
    List<Entry> standing = Lake.standing(handle);
    return standing.get(standing.size() - 1).changes().stream().map(Change::bornApplied).toList();
  }

  TableMetadata stored(TableIdentifier table) {
    return ((BaseTable) outside.loadTable(table)).operations().refresh();
  }

  Path at(TableIdentifier table) {
    return path(stored(table).metadataFileLocation());
  }

  static Path path(String location) {
    return Path.of(location.replaceFirst("^file:", ""));
  }

  static List<Path> ofTables(List<Path> paths) {
    return paths.stream().filter(path -> !path.toString().contains("/txns/")).toList();
  }

  Set<Path> metadataFiles() {
    List<Path> files = ofTables(lake.filesBelow(""));
    return files.stream()
        .filter(path -> path.toString().endsWith(".metadata.json"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** The metadata files that the rows of tables lead to. */
  Set<Path> named() {
    Set<Path> named = new TreeSet<>();
    for (TableIdentifier table : List.of(A, B)) {
      named.add(at(table));
      stored(table).previousFiles().forEach(file -> named.add(path(file.file())));
    }
    return named;
  }

  /** Let a transaction commit in a thread of its own, and hold the lock until a latch is opened. */
  CountDownLatch holding(Transaction txn, List<FutureTask<Committed>> done) {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch opened = new CountDownLatch(1);
    meanwhile(
        () -> {
          begun.countDown();
          await(opened);
        });
    start(txn, done);
    await(begun);
    return opened;
  }

  static Thread start(Transaction txn, List<FutureTask<Committed>> done) {
    FutureTask<Committed> task = new FutureTask<>(txn::commit);
    done.add(task);
    Thread thread = new Thread(task);
    thread.start();
    return thread;
  }

  static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(60, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
