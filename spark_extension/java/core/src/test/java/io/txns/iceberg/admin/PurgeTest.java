package io.txns.iceberg.admin;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.MovedFiles;
import io.txns.iceberg.Purged;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.table.TableMark;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Physical removal of dropped tables, and its races with those who create the name again. */
class PurgeTest {
  private static final long AGE_MS = 10_000;
  private static final long CLAIM_MS = 15_000;
  private static final TableIdentifier A = id("shop.a");

  @TempDir Path folder;
  private final MovedClock clock = new MovedClock();
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    MovedFiles.clock = clock;
    handle = open(lake.catalog());
    lake.create(handle, "shop.b");
    handle.changeSettings(AGE_MS, null, null);
  }

  @AfterEach
  void goBack() {
    MovedFiles.clock = new MovedClock();
  }

  private TxnHandle open(Catalog catalog) {
    return TxnHandle.open("lake", catalog, Lake.INLINE, clock);
  }

  /** A table of three snapshots, dropped, its drop older than any transaction may be. */
  private void droppedLongAgo(String formatVersion) {
    TxnCatalog catalog = handle.catalog(() -> null);
    catalog.buildTable(A, Lake.SCHEMA).withProperty("format-version", formatVersion).create();
    append(catalog.loadTable(A), 1, 2);
    overwrite(catalog.loadTable(A), 3);
    catalog.dropTable(A);
    clock.aheadMs += AGE_MS;
  }

  private List<Path> files() {
    return lake.filesBelow("shop/a").stream().filter(path -> !isChecksum(path)).toList();
  }

  private static boolean isChecksum(Path path) {
    return path.getFileName().toString().endsWith(".crc");
  }

  private void create(long... rows) {
    handle.catalog(() -> null).createTable(A, Lake.SCHEMA);
    append(handle.catalog(() -> null).loadTable(A), rows);
  }

  private static void assertRefused(ThrowingCallable call, ErrorKind kind, String words) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).as(e.getMessage()).isEqualTo(kind))
        .hasMessageContaining(words);
  }

  @ParameterizedTest
  @ValueSource(strings = {"2", "3"})
  void removesTheTableAndAllItsFiles(String formatVersion) {
    droppedLongAgo(formatVersion);
    int before = files().size();
    Purged purged = handle.purge(A, CLAIM_MS);
    assertThat(files()).isEmpty();
    assertThat(purged.deletedFiles()).isGreaterThan(before); // the claim has written some more
    assertThat(lake.catalog().tableExists(A)).isFalse();
    assertThatThrownBy(() -> handle.purge(A, CLAIM_MS)).isInstanceOf(NoSuchTableException.class);
    create(7);
    assertThat(lake.plainIds("shop.a")).containsExactly(7L);
  }

  /** A purge drops in the log what had been dropped: that is not what comes first of a name. */
  @Test
  void aListOfBeforeIt() {
    droppedLongAgo("2");
    long between = handle.upper();
    handle.purge(A, CLAIM_MS);
    create(7);
    assertThat(listedAt(between)).doesNotContain(A);
    assertThat(listedAt(between - 1)).contains(A); // it was there
    handle.apply();
    handle.tidy();
    assertThat(listedAt(between)).doesNotContain(A);
    assertThat(listedAt(handle.upper())).contains(A);
  }

  private List<TableIdentifier> listedAt(long ts) {
    Transaction txn = handle.begin(BeginOptions.defaults().withAsOf(ts));
    return handle.catalog(() -> txn).listTables(A.namespace());
  }

  @Test
  void aYoungDropSaysFromWhenOn() {
    droppedLongAgo("2");
    clock.aheadMs -= AGE_MS;
    int before = files().size();
    long droppedTs = handle.upper();
    assertRefused(
        () -> handle.purge(A, CLAIM_MS),
        ErrorKind.UNSUPPORTED,
        "possible from " + (droppedTs + AGE_MS) + " ");
    assertThat(files()).hasSize(before);
  }

  @Test
  void onlyDroppedTablesUnderCare() {
    assertThatThrownBy(() -> handle.purge(id("shop.b"))).hasMessageContaining("drop it first");
    lake.catalog().createTable(A, Lake.SCHEMA);
    assertThatThrownBy(() -> handle.purge(A, CLAIM_MS)).hasMessageContaining("not under care");
  }

  /** Iceberg's own purge of a table under care says what to do, and drops nothing. */
  @Test
  void dropWithPurgeSaysWhenItIsPossible() {
    create(1);
    TxnCatalog catalog = handle.catalog(() -> null);
    assertRefused(
        () -> catalog.dropTable(A, true),
        ErrorKind.UNSUPPORTED,
        "CALL lake.system.purge('shop.a') 10 s later, from ");
    assertThat(ids(catalog.loadTable(A))).containsExactly(1L);
    lake.catalog().createTable(id("shop.plain"), Lake.SCHEMA);
    assertThat(catalog.dropTable(id("shop.plain"), true)).isTrue();
  }

  @Test
  void whatAStrangerWroteBlocksPurgeAndCreation() {
    droppedLongAgo("2");
    append(lake.catalog().loadTable(A), 9);
    assertRefused(() -> handle.purge(A, CLAIM_MS), ErrorKind.FOREIGN_WRITE, "reject");
    assertRefused(() -> create(1), ErrorKind.FOREIGN_WRITE, "reject");
    handle.repairReject(A);
    assertRefused(() -> handle.purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, TableMark.FOREIGN_BRANCH);
    lake.catalog().loadTable(A).refs().keySet().stream()
        .filter(ref -> ref.startsWith(TableMark.FOREIGN_BRANCH))
        .forEach(ref -> lake.catalog().loadTable(A).manageSnapshots().removeBranch(ref).commit());
    handle.purge(A, CLAIM_MS);
    assertThat(files()).isEmpty();
  }

  /** Also when an expiry has taken the snapshot that brought its rows. */
  @Test
  void whatAStrangerCompactedOnABranchBlocksPurge() {
    droppedLongAgo("2");
    append(lake.catalog().loadTable(A), 9);
    handle.repairReject(A);
    Table table = lake.catalog().loadTable(A);
    String branch =
        table.refs().keySet().stream()
            .filter(ref -> ref.startsWith(TableMark.FOREIGN_BRANCH))
            .findFirst()
            .orElseThrow();
    Snapshot appended = table.snapshot(branch);
    DataFile file = appended.addedDataFiles(table.io()).iterator().next();
    DataFile again = Lake.file(table, 9);
    table.newRewrite().deleteFile(file).addFile(again).toBranch(branch).commit();
    table.expireSnapshots().expireSnapshotId(appended.snapshotId()).commit();
    assertRefused(() -> handle.purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, branch);
  }

  /** Iceberg takes snapshots that are up to a minute older than the table's last update. */
  @Test
  void whatALateClockPutOnABranchSinceTheDropBlocksPurge() {
    create(1);
    clock.aheadMs += AGE_MS;
    handle.catalog(() -> null).dropTable(A);
    lake.catalog().loadTable(A).manageSnapshots().createBranch("side").commit();
    Table table = lake.catalog().loadTable(A);
    table.newAppend().appendFile(Lake.file(table, 9)).toBranch("side").commit();
    clock.aheadMs += AGE_MS;
    assertRefused(() -> handle.purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, "side");
  }

  @Test
  void aHoldKeepsADroppedTable() {
    create(1);
    lake.catalog()
        .loadTable(A)
        .manageSnapshots()
        .createTag(
            TableMark.HOLD_TAG + "audit",
            lake.catalog().loadTable(A).currentSnapshot().snapshotId())
        .setMaxRefAgeMs(TableMark.HOLD_TAG + "audit", 2 * AGE_MS)
        .commit();
    handle.catalog(() -> null).dropTable(A);
    clock.aheadMs += AGE_MS;
    assertRefused(() -> handle.purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, "audit");
    clock.aheadMs += 2 * AGE_MS;
    handle.purge(A, CLAIM_MS);
    assertThat(files()).isEmpty();
  }

  @Test
  void dataFilesStayWhereGarbageCollectionIsOff() {
    create(1);
    handle.catalog(() -> null).loadTable(A).updateProperties().set("gc.enabled", "false").commit();
    handle.catalog(() -> null).dropTable(A);
    clock.aheadMs += AGE_MS;
    assertThat(handle.purge(A, CLAIM_MS).keptData()).isTrue();
    assertThat(files()).allMatch(path -> path.toString().endsWith(".parquet")).hasSize(1);
  }

  /** A manifest may name what it likes: a purger has the rights to delete more than its table. */
  @Test
  void filesThatLieElsewhereStay() {
    create(1);
    Table victim = lake.catalog().buildTable(id("shop.victim"), Lake.SCHEMA).create();
    append(victim, 66);
    takeFilesOf(victim);
    assertThat(handle.purge(A, CLAIM_MS).keptFiles()).isEqualTo(1);
    assertThat(lake.plainIds("shop.victim")).containsExactly(66L);
    assertThat(files()).isEmpty();
  }

  /** After a rename another table may have been made in the place of this one. */
  @Test
  void filesOfAnotherTableInTheSamePlaceStay() {
    create(1);
    String place = lake.catalog().loadTable(A).location();
    Table other =
        lake.catalog().buildTable(id("shop.other"), Lake.SCHEMA).withLocation(place).create();
    append(other, 2);
    takeFilesOf(other);
    assertThat(handle.purge(A, CLAIM_MS).keptFiles()).isEqualTo(1);
    assertThat(lake.plainIds("shop.other")).containsExactly(2L);
    assertThat(files()).filteredOn(path -> path.toString().endsWith(".parquet")).hasSize(1);
    append(lake.catalog().loadTable(id("shop.other")), 3);
  }

  /** It may use the same files, and be back in a moment; one whose metadata is gone keeps none. */
  @Test
  void nothingIsDeletedWhileAnotherTableCannotBeLoaded() {
    assumeFalse(Lake.isRest(), "the load is caught inside the JDBC catalog");
    create(1);
    String place = lake.catalog().loadTable(A).location();
    Table other =
        lake.catalog().buildTable(id("shop.other"), Lake.SCHEMA).withLocation(place).create();
    append(other, 2);
    takeFilesOf(other);
    JdbcCatalog slow =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier table) {
            if (table.equals(id("shop.other"))) {
              throw new UncheckedIOException(new IOException("slow down"));
            }
            return super.loadTable(table);
          }
        };
    slow.initialize("lake", lake.options());
    TxnHandle slowed = open(slow);
    assertRefused(() -> slowed.purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, "other=`shop.other`");
    assertThat(lake.plainIds("shop.other")).containsExactly(2L);
    clock.aheadMs += CLAIM_MS;
    assertThat(handle.purge(A, CLAIM_MS).keptFiles()).isEqualTo(1);
    assertThat(lake.plainIds("shop.other")).containsExactly(2L);
  }

  /** Give A what another table has, and drop it long ago. */
  private void takeFilesOf(Table other) {
    AppendFiles taken = handle.catalog(() -> null).loadTable(A).newAppend();
    try (CloseableIterable<FileScanTask> tasks = other.newScan().planFiles()) {
      tasks.forEach(task -> taken.appendFile(task.file()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    taken.commit();
    handle.catalog(() -> null).dropTable(A);
    clock.aheadMs += AGE_MS;
  }

  // ---------------------------------------------------------------- races

  /** A catalog that does something before it moves a table for the first time. */
  private TxnHandle beforeTheMove(Runnable deed) {
    assumeFalse(Lake.isRest(), "the move is caught inside the JDBC catalog");
    AtomicBoolean done = new AtomicBoolean();
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public void renameTable(TableIdentifier from, TableIdentifier to) {
            if (!done.getAndSet(true)) {
              deed.run();
            }
            super.renameTable(from, to);
          }
        };
    catalog.initialize("lake", lake.options());
    return open(catalog);
  }

  /** 1. The purger looks. 2. Somebody creates in place and commits. 3. The purger claims. */
  @Test
  void aCreatorThatWasFasterWins() {
    droppedLongAgo("2");
    handle.tidy();
    AtomicBoolean done = new AtomicBoolean();
    MovedClock slowClock =
        new MovedClock() {
          @Override
          public String newTxnId() { // the claim's id, after the look and before the swap
            if (!done.getAndSet(true)) {
              create(7);
            }
            return super.newTxnId();
          }
        };
    slowClock.aheadMs = clock.aheadMs;
    TxnHandle slow = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, slowClock);
    done.set(false);
    assertRefused(() -> slow.purge(A, CLAIM_MS), ErrorKind.CONFLICT, "shop.a");
    assertThat(done).isTrue();
    assertThat(lake.txnIds("shop.a")).containsExactly(7L);
    assertThat(lake.catalog().loadTable(A).properties()).doesNotContainKey(TableMark.PURGING);
  }

  /** 1. The purger looks. 2. Somebody raises the greatest age. 3. The purger claims. */
  @Test
  void aGreatestAgeThatIsRaisedBeforeTheClaimStandsCounts() {
    assumeFalse(Lake.isRest(), "the swap is held inside the JDBC catalog");
    droppedLongAgo("2");
    handle.tidy();
    AtomicBoolean raised = new AtomicBoolean();
    TxnHandle slow =
        open(
            HookedOperations.catalog(
                lake,
                id("txns.commits"),
                (real, base, next) -> {
                  if (!raised.getAndSet(true)) {
                    handle.changeSettings(10 * AGE_MS, null, null);
                  }
                  real.commit(base, next);
                }));
    assertRefused(() -> slow.purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, "too young");
    assertThat(raised).isTrue();
    assertThat(files()).isNotEmpty();
    assertThat(lake.catalog().loadTable(A).properties()).doesNotContainKey(TableMark.PURGING);
    clock.aheadMs += 10 * AGE_MS;
    handle.purge(A, CLAIM_MS);
    assertThat(files()).isEmpty();
  }

  /**
   * 1. The purger looks. 2. Somebody creates the name and drops it again. 3. The purger claims: the
   * drop is too young.
   */
  @Test
  void aTableThatWasMadeAndDroppedAgainMeanwhileStays() {
    assumeFalse(Lake.isRest(), "the first look is caught inside the JDBC catalog");
    droppedLongAgo("2");
    handle.tidy();
    AtomicBoolean done = new AtomicBoolean();
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier table) {
            Table loaded = super.loadTable(table);
            if (table.equals(A) && !done.getAndSet(true)) {
              create(7);
              handle.catalog(() -> null).dropTable(A);
            }
            return loaded;
          }
        };
    catalog.initialize("lake", lake.options());
    int before = files().size();
    assertRefused(
        () -> open(catalog).purge(A, CLAIM_MS), ErrorKind.UNSUPPORTED, "the drop is too young");
    assertThat(done).isTrue();
    assertThat(files()).hasSizeGreaterThan(before);
  }

  /**
   * 1. A purger deletes for long. 2. Another purges, the name has another life. 3. The first claims
   * again: not that one.
   */
  @Test
  void aPurgerThatDeletesForLongClaimsNoOtherTable() {
    assumeFalse(Lake.isRest(), "the deletion is caught inside the JDBC catalog");
    droppedLongAgo("2");
    AtomicBoolean done = new AtomicBoolean();
    MovedClock slowClock =
        new MovedClock() {
          @Override
          public long nowMs() { // read once the files are gone
            if (dataFiles() == 0 && !done.getAndSet(true)) {
              clock.aheadMs += CLAIM_MS;
              aheadMs = clock.aheadMs;
              handle.purge(A, CLAIM_MS);
              create(7);
              handle.catalog(() -> null).dropTable(A);
            }
            return super.nowMs();
          }
        };
    slowClock.aheadMs = clock.aheadMs;
    TxnHandle slow = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, slowClock);
    assertRefused(() -> slow.purge(A, CLAIM_MS), ErrorKind.CONFLICT, "since it was claimed");
    assertThat(done).isTrue();
    assertThat(dataFiles()).isEqualTo(1);
    assertThat(lake.catalog().tableExists(A)).isTrue();
  }

  private long dataFiles() {
    return files().stream().filter(path -> path.toString().endsWith(".parquet")).count();
  }

  /** 1. A creator stages the table on the marker. 2. Purged. 3. The creator commits. */
  @Test
  void aCreatorThatLookedBeforeTheClaimLoses() {
    droppedLongAgo("2");
    Transaction creator = handle.begin(BeginOptions.defaults());
    handle.catalog(() -> creator).createTable(A, Lake.SCHEMA);
    handle.purge(A, CLAIM_MS);
    assertRefused(creator::commit, ErrorKind.CONFLICT, "shop.a");
    create(7);
    assertThat(lake.txnIds("shop.a")).containsExactly(7L);
  }

  /** 1. A purger claims and dies. 2. Creators are told. 3. Later another goes on. */
  @Test
  void aClaimIsGoneOnWithAfterItsTime() {
    droppedLongAgo("2");
    TxnHandle dead =
        beforeTheMove(
            () -> {
              throw new IllegalStateException("died");
            });
    assertThatThrownBy(() -> dead.purge(A, CLAIM_MS)).hasMessage("died");
    assertRefused(() -> create(1), ErrorKind.CONFLICT, "CALL lake.system.purge('shop.a')");
    assertRefused(() -> handle.purge(A, CLAIM_MS), ErrorKind.CONFLICT, "being purged since");
    clock.aheadMs += CLAIM_MS;
    handle.purge(A, CLAIM_MS);
    assertThat(files()).isEmpty();
    create(7);
    assertThat(lake.txnIds("shop.a")).containsExactly(7L);
  }

  /**
   * 1. A purger sleeps before it moves the table. 2. Another takes over, a table is made. 3. The
   * first one moves that, sees that it is another one, and moves it back.
   */
  @Test
  void aPurgerThatSleptTooLongPutsBackWhatItFinds() {
    droppedLongAgo("2");
    TxnHandle slow =
        beforeTheMove(
            () -> {
              clock.aheadMs += CLAIM_MS;
              handle.purge(A, CLAIM_MS);
              create(7);
            });
    assertRefused(() -> slow.purge(A, CLAIM_MS), ErrorKind.CONFLICT, "since it was claimed");
    assertThat(lake.txnIds("shop.a")).containsExactly(7L);
    assertThat(lake.catalog().listTables(Namespace.of("shop")))
        .containsExactlyInAnyOrder(A, id("shop.b"));
  }

  /** What died between move and drop is in no list, and goes with the next purge. */
  @Test
  void whatWasMovedAsideIsDroppedByTheNextPurge() {
    assumeFalse(Lake.isRest(), "the drop is caught inside the JDBC catalog");
    droppedLongAgo("2");
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public boolean dropTable(TableIdentifier table, boolean purge) {
            throw new IllegalStateException("died");
          }
        };
    catalog.initialize("lake", lake.options());
    TxnHandle dead = open(catalog);
    assertThatThrownBy(() -> dead.purge(A, CLAIM_MS)).hasMessage("died");
    assertThat(lake.catalog().listTables(Namespace.of("shop"))).hasSize(2);
    assertThat(handle.catalog(() -> null).listTables(Namespace.of("shop")))
        .containsExactly(id("shop.b"));
    handle.purge(A, CLAIM_MS);
    assertThat(lake.catalog().listTables(Namespace.of("shop"))).containsExactly(id("shop.b"));
    assertThat(files()).isEmpty();
  }
}
