package io.txns.iceberg.admin;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.UpdateRequirements;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.relocated.com.google.common.collect.Iterables;
import org.junit.jupiter.api.Test;

/** What happens when somebody writes a registered table outside the protocol. */
class StrangerTest extends TwoTables {
  private TxnException refusal(org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    return (TxnException) org.assertj.core.api.Assertions.catchThrowable(call);
  }

  private void compact() {
    Table table = outside.loadTable(id("shop.a"));
    var rewrite = table.newRewrite();
    long[] ids = ids(table).stream().mapToLong(Long::longValue).toArray();
    table.newScan().planFiles().forEach(task -> rewrite.deleteFile(task.file()));
    rewrite.addFile(Lake.file(table, ids)).commit();
  }

  @Test
  void aStrangersCompactionIsTolerated() {
    append(ours.loadTable(id("shop.a")), 2);
    compact();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    overwrite(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(3L);
  }

  /** Schedule 2: applied, compacted, and all older snapshots expired: nothing is applied twice. */
  @Test
  void compactionAndExpiryAfterApplyChangeNothing() {
    compact();
    outside
        .loadTable(id("shop.a"))
        .manageSnapshots()
        .setMinSnapshotsToKeep("main", 1)
        .setMaxSnapshotAgeMs("main", 1)
        .commit();
    outside.loadTable(id("shop.a")).expireSnapshots().expireOlderThan(Long.MAX_VALUE).commit();
    assertThat(outside.loadTable(id("shop.a")).snapshots()).hasSize(1);
    assertThat(handle.apply()).isZero();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void aStrangersAppendIsInvisibleUntilItIsAdopted() {
    append(outside.loadTable(id("shop.a")), 2);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(outside.loadTable(id("shop.a")).refs()).containsOnlyKeys("main");
  }

  /**
   * What stands below a mark was registered with the table, also where `main` shows it no more.
   *
   * <p>1. A stranger's append is kept on a branch, directly above the mark. 2. Expiry takes from
   * `main` what is older, as it does after a day, and from the branch nothing.
   */
  @Test
  void aBranchIsOlderThanWhatMainHasLeft() {
    TableIdentifier c = id("shop.c");
    append(outside.createTable(c, Lake.SCHEMA), 1);
    lazy.register(c);
    Transaction late = lazy.begin(BeginOptions.defaults()); // who has loaded it adopts nothing
    append(lazy.catalog(() -> late).loadTable(c), 3);
    append(lazy.catalog(() -> null).loadTable(c), 2);
    append(outside.loadTable(c), 50);
    assertThat(lazy.apply()).isZero();
    late.commit();
    assertThat(lazy.apply()).isZero();
    expireAllOfMain(c);
    handle.repairAdopt(c);
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L, 3L, 50L);
  }

  /**
   * What is kept for strangers can be adopted for as long as it is there.
   *
   * <p>1. Two appends of a stranger are kept on a branch. 2. An expiry, of any engine and with any
   * options, takes what nothing keeps.
   */
  @Test
  void anExpiryLeavesWhatTellsWhoseRowsABranchHas() {
    TableIdentifier c = id("shop.c");
    outside.buildTable(c, Lake.SCHEMA).withProperty("history.expire.max-ref-age-ms", "1").create();
    lazy.register(c);
    append(lazy.catalog(() -> null).loadTable(c), 1);
    append(lazy.catalog(() -> null).loadTable(c), 2);
    assertThat(lazy.apply()).isZero();
    append(outside.loadTable(c), 50);
    append(outside.loadTable(c), 51);
    handle.repairReject(c);
    for (int number : new int[] {3, 4}) {
      append(lazy.catalog(() -> null).loadTable(c), number);
    }
    assertThat(lazy.apply()).isZero();
    outside
        .loadTable(c)
        .updateProperties()
        .set("history.expire.min-snapshots-to-keep", "1")
        .set("history.expire.max-snapshot-age-ms", "1")
        .commit();
    int before = Iterables.size(outside.loadTable(c).snapshots());
    expireAllOfMain(c);
    assertThat(outside.loadTable(c).snapshots()).hasSizeLessThan(before);
    handle.repairAdopt(c);
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L, 3L, 4L, 50L, 51L);
  }

  /**
   * Of what meets nothing that is known nobody can tell whether it was registered.
   *
   * <p>1. A stranger puts main back to before the registration, and appends; that is rejected. 2.
   * Expiry takes from main what is older, and from the branch nothing.
   */
  @Test
  void aBranchStandsOnWhatIsExpired() {
    TableIdentifier c = id("shop.c");
    Table table = outside.createTable(c, Lake.SCHEMA);
    append(table, 1);
    long registered = table.currentSnapshot().snapshotId();
    handle.register(c);
    append(ours.loadTable(c), 2);
    outside.loadTable(c).manageSnapshots().rollbackTo(registered).commit();
    append(outside.loadTable(c), 50);
    handle.repairReject(c);
    expireAllOfMain(c);
    assertThat(refusal(() -> handle.repairAdopt(c)))
        .hasMessageContaining("stands on nothing that is known");
    assertThat(lake.plainIds("shop.c")).containsExactly(1L, 2L);
  }

  /**
   * A forget that is applied late moves main, which REST catalogs assert; of a swap of properties
   * alone they assert the uuid, and it would take away a mark that has been set since.
   */
  @Test
  void aForgetThatComesLateMovesMain() {
    assumeFalse(Lake.isRest(), "the swap is looked at inside the JDBC catalog");
    AtomicBoolean refuses = new AtomicBoolean(true);
    TxnHandle other =
        HookedOperations.open(
            lake,
            id("shop.a"),
            (real, base, next) -> {
              if (refuses.get()) {
                throw new CommitFailedException("not now");
              }
              assertThat(UpdateRequirements.forUpdateTable(base, next.changes()))
                  .anyMatch(UpdateRequirement.AssertRefSnapshotID.class::isInstance);
              real.commit(base, next);
            },
            Lake.CLOCK);
    other.forget(id("shop.a"));
    append(outside.loadTable(id("shop.a")), 2);
    long theirs = outside.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    refuses.set(false);
    assertThat(other.apply()).isZero();
    assertThat(outside.loadTable(id("shop.a")).currentSnapshot().parentId()).isEqualTo(theirs);
    assertThat(outside.loadTable(id("shop.a")).properties()).doesNotContainKey("txns.table-uuid");
    other.register(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void aRejectedAppendStaysOnABranch() {
    append(outside.loadTable(id("shop.a")), 2);
    long foreign = outside.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(outside.loadTable(id("shop.a")).refs()).containsKey("txns-foreign-" + foreign);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
  }

  @Test
  void aStrangersOverwriteQuarantinesTheTable() {
    overwrite(outside.loadTable(id("shop.a")), 9);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    TxnException e = refusal(() -> append(ours.loadTable(id("shop.a")), 3));
    assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED);
    assertThat(e.sqlState()).isEqualTo("55000");
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(9L);
    append(ours.loadTable(id("shop.a")), 10);
    assertThat(lake.plainIds("shop.a")).containsExactly(9L, 10L);
  }

  /** The way out: everything is applied, and others write until it is on again. */
  @Test
  void offLetsOthersWriteAndOnAdoptsIt() {
    assertThat(handle.off()).isZero();
    append(outside.loadTable(id("shop.a")), 2);
    overwrite(outside.loadTable(id("shop.b")), 7);
    assertThat(handle.on()).isEmpty();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(lake.txnIds("shop.b")).containsExactly(7L);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** What an adoption that is not applied yet has taken in stops no writer. */
  @Test
  void writersGoOnBehindAnAdoptionThatIsNotApplied() {
    TxnHandle later = lake.open(Map.of("txns.apply", "next"));
    append(outside.loadTable(id("shop.a")), 2);
    later.repairAdopt(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L); // the stranger's own
    TxnException e = refusal(() -> later.repairAdopt(id("shop.a")));
    assertThat(e).hasMessageContaining("nothing to repair");
    Transaction transaction = later.begin(BeginOptions.defaults());
    append(later.catalog(() -> transaction).loadTable(id("shop.a")), 3);
    transaction.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  @Test
  void onNamesWhatItCannotAdopt() {
    ours.dropTable(id("shop.b"));
    handle.off();
    append(outside.loadTable(id("shop.a")), 2);
    append(outside.loadTable(id("shop.b")), 2);
    assertThat(handle.on()).containsOnlyKeys(id("shop.b"));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(ours.tableExists(id("shop.b"))).isFalse();
  }

  /** One is ahead of its log, one has lost its metadata: both are named, others are adopted. */
  @Test
  void onGoesOnBehindTablesThatAreBroken() throws IOException {
    lake.create(handle, "shop.c");
    handle.off();
    append(outside.loadTable(id("shop.a")), 2);
    long ahead = handle.upper() + 1_000_000;
    outside.loadTable(id("shop.b")).updateProperties().set("txns.applied", "" + ahead).commit();
    append(outside.loadTable(id("shop.c")), 2);
    BaseTable broken = (BaseTable) outside.loadTable(id("shop.c"));
    Path lost = Path.of(broken.operations().current().metadataFileLocation().replace("file:", ""));
    Files.move(lost, lost.resolveSibling("away"));
    Map<TableIdentifier, String> left = handle.on();
    assertThat(left).containsOnlyKeys(id("shop.b"), id("shop.c"));
    assertThat(left.get(id("shop.b"))).contains("txns recover");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void aRejectedOverwriteIsUndone() {
    overwrite(outside.loadTable(id("shop.a")), 9);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Schedule 12: what has been applied does not vanish unreported. */
  @Test
  void aStrangersRollbackQuarantinesTheTable() {
    append(ours.loadTable(id("shop.a")), 2);
    Table table = outside.loadTable(id("shop.a"));
    Snapshot parent = table.snapshot(table.currentSnapshot().parentId());
    table.manageSnapshots().rollbackTo(parent.snapshotId()).commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    TxnException e = refusal(() -> append(ours.loadTable(id("shop.a")), 3));
    assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Between swap and apply: the logged run goes on main, the stranger on a branch. */
  @Test
  void aStrangersAppendBetweenSwapAndApplyIsKeptOnABranch() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    overwrite(lazy.catalog(() -> null).loadTable(id("shop.a")), 5);
    append(outside.loadTable(id("shop.a")), 2);
    long foreign = outside.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(5L);
    Table table = outside.loadTable(id("shop.a"));
    assertThat(table.refs()).containsKey("txns-foreign-" + foreign);
    append(ours.loadTable(id("shop.a")), 6); // who writes next adopts it
    assertThat(lake.plainIds("shop.a")).containsExactly(2L, 5L, 6L);
    assertThat(outside.loadTable(id("shop.a")).refs()).containsOnlyKeys("main");
  }

  /** Schedule 17: A and B of one entry; the one that cannot be applied is read as logged. */
  @Test
  void aQuarantinedTableIsReadAsLoggedTogetherWithItsEntry() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    Transaction txn = lazy.begin(BeginOptions.defaults());
    overwrite(lazy.catalog(() -> txn).loadTable(id("shop.a")), 5);
    append(lazy.catalog(() -> txn).loadTable(id("shop.b")), 5);
    txn.commit();
    overwrite(outside.loadTable(id("shop.a")), 9);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.b")).containsExactly(5L);
    assertThat(lake.plainIds("shop.a")).containsExactly(9L);
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    assertThat(lake.txnIds("shop.b")).containsExactly(5L);
    append(ours.loadTable(id("shop.b")), 6);
    handle.tidy();
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(5L);
  }

  /** A stranger that comes while a transaction is open: it commits, and says what is left. */
  @Test
  void aCommitBesideAStrangerSucceedsAndOtherTablesGoOn() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> txn).loadTable(id("shop.a")), 5);
    append(handle.catalog(() -> txn).loadTable(id("shop.b")), 5);
    overwrite(outside.loadTable(id("shop.a")), 9);
    Committed committed = txn.commit();
    assertThat(committed.applied()).isFalse();
    assertThat(lake.plainIds("shop.a")).containsExactly(9L);
    assertThat(lake.plainIds("shop.b")).containsExactly(5L);
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
    assertThat(handle.transactions())
        .filteredOn(row -> row.txnId().equals(txn.id()))
        .allMatch(row -> !row.applied());
  }

  /** Who may append to the log but not write a table commits; somebody else applies. */
  @Test
  void aCommitWithoutTheRightToApplySucceeds() {
    TxnHandle limited =
        TxnHandle.open(
            "lake", BeforeCommit.forbidding(lake.catalog(), id("shop.a")), Lake.INLINE, Lake.CLOCK);
    Transaction txn = limited.begin(BeginOptions.defaults());
    append(limited.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(limited.catalog(() -> txn).loadTable(id("shop.b")), 2);
    assertThat(txn.commit().applied()).isFalse();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Schedule 4: a commit on another branch takes the sequence number of a logged snapshot. */
  @Test
  void aStrangersBranchRenumbersWhatIsApplied() {
    for (String version : new String[] {"2", "3"}) {
      String name = "shop.v" + version;
      outside.buildTable(id(name), Lake.SCHEMA).withProperty("format-version", version).create();
      handle.register(id(name));
      append(ours.loadTable(id(name)), 1);
      TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
      append(lazy.catalog(() -> null).loadTable(id(name)), 2);
      Table table = outside.loadTable(id(name));
      DataFile file = Lake.file(table, 100, 101);
      table.manageSnapshots().createBranch("audit").commit();
      table.newAppend().appendFile(file).toBranch("audit").commit();
      assertThat(lake.txnIds(name)).containsExactly(1L, 2L);
      assertThat(handle.apply()).isZero();
      assertThat(lake.plainIds(name)).containsExactly(1L, 2L);
      append(ours.loadTable(id(name)), 3);
      assertThat(lake.plainIds(name)).containsExactly(1L, 2L, 3L);
    }
  }

  /** Schedule 10: a stranger's ALTER that a logged one does not fit on any more. */
  @Test
  void aStrangersAlterThatALoggedOneDoesNotFitOnQuarantines() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    lazy.catalog(() -> null)
        .loadTable(id("shop.a"))
        .updateSchema()
        .addColumn("x", org.apache.iceberg.types.Types.IntegerType.get())
        .commit();
    outside
        .loadTable(id("shop.a"))
        .updateSchema()
        .addColumn("y", org.apache.iceberg.types.Types.IntegerType.get())
        .commit();
    assertThat(handle.apply()).isEqualTo(1);
    append(ours.loadTable(id("shop.b")), 1);
    assertThatThrownBy(() -> append(ours.loadTable(id("shop.a")), 2))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED));
  }

  /** Schedule 9: a stranger creates the table between commit_at and apply. */
  @Test
  void aStrangersTableUnderTheNameOfALoggedOneIsReported() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    lazy.catalog(() -> null).createTable(id("shop.c"), Lake.SCHEMA);
    outside.createTable(id("shop.c"), Lake.SCHEMA);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(handle.tidy()).isPositive();
    assertThat(Lake.standing(handle)).hasSize(1);
  }

  @Test
  void aMarkCopiedToAnotherTableDoesNotCount() {
    Table marked = outside.loadTable(id("shop.a"));
    Table copy =
        outside
            .buildTable(id("shop.copy"), Lake.SCHEMA)
            .withProperties(marked.properties())
            .create();
    append(ours.loadTable(id("shop.copy")), 4);
    assertThat(ids(outside.loadTable(id("shop.copy")))).containsExactly(4L);
    assertThat(copy.uuid()).isNotEqualTo(marked.uuid());
  }

  @Test
  void aMissingCommitTableIsNamed() {
    outside.dropTable(id("txns.commits"), false);
    TxnHandle fresh = lake.open();
    assertThatThrownBy(() -> fresh.catalog(() -> null).loadTable(id("shop.a")))
        .hasMessageContaining("the commit table is missing");
  }

  /** What it has created and dropped nobody knows then. */
  @Test
  void nothingIsListedWhileTheCommitTableIsMissing() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    outside.dropTable(id("txns.commits"), false);
    for (TxnCatalog catalog : List.of(ours, handle.catalog(() -> txn))) {
      assertThatThrownBy(() -> catalog.listTables(Namespace.of("shop")))
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("55000"));
    }
    assertThat(lake.open().catalog(() -> null).listTables(Namespace.of("shop")))
        .containsExactlyInAnyOrder(id("shop.a"), id("shop.b"));
  }

  @Test
  void anotherCommitTableIsNotMistakenForTheRestoredOne() {
    outside.dropTable(id("txns.commits"), false);
    TxnHandle fresh = lake.open();
    lake.create(fresh, "shop.fresh");
    assertThatThrownBy(() -> fresh.catalog(() -> null).loadTable(id("shop.a")))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG));
  }

  /** Expire all that can be: of main its newest snapshot stays. */
  private void expireAllOfMain(TableIdentifier name) {
    outside
        .loadTable(name)
        .manageSnapshots()
        .setMinSnapshotsToKeep("main", 1)
        .setMaxSnapshotAgeMs("main", 1)
        .commit();
    outside.loadTable(name).expireSnapshots().expireOlderThan(Long.MAX_VALUE).commit();
  }
}
