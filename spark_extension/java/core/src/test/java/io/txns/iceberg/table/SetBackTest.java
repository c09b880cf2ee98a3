package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Head;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.assertj.core.api.ThrowableAssert;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A table that somebody set back to older metadata, when the log has archived what it lacks. */
class SetBackTest extends TwoTables {
  private String plain;
  private String older;
  private String newest;

  @BeforeEach
  void setBack() {
    plain = firstOf(location());
    older = location();
    append(ours.loadTable(id("shop.a")), 2);
    append(ours.loadTable(id("shop.b")), 7);
    assertThat(handle.tidy()).isPositive();
    newest = location();
    registerAs(older);
  }

  private String location() {
    return ((BaseTable) lake.catalog().loadTable(id("shop.a")))
        .operations()
        .current()
        .metadataFileLocation();
  }

  /** The table as it was before it was registered. */
  private static String firstOf(String location) {
    java.io.File[] files = new java.io.File(location).getParentFile().listFiles();
    return java.util.Arrays.stream(files)
        .map(java.io.File::getPath)
        .filter(path -> path.contains("/00000-") && path.endsWith(".metadata.json"))
        .findFirst()
        .orElseThrow();
  }

  private void registerAs(String location) {
    outside.dropTable(id("shop.a"), false);
    outside.registerTable(id("shop.a"), location);
  }

  /** Who adopted the second name of a table gave up what had been committed under the first. */
  @Test
  void aSecondNameOfATableIsNone() {
    registerAs(newest);
    outside.registerTable(id("shop.second"), older);
    for (ThrowableAssert.ThrowingCallable deed :
        List.<ThrowableAssert.ThrowingCallable>of(
            () -> ours.loadTable(id("shop.second")),
            () -> handle.register(id("shop.second")),
            () -> handle.forget(id("shop.second")),
            () -> handle.repairAdopt(id("shop.second")),
            () -> handle.repairReject(id("shop.second")))) {
      assertThatThrownBy(deed)
          .isInstanceOf(TxnException.class)
          .hasMessageContaining("two names")
          .hasMessageContaining("other=`shop.a`");
    }
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    outside.dropTable(id("shop.second"), false);
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** It is its owner's: as the catalog has it now, and the log knows that it was another then. */
  @Test
  void aForgottenTableOfBeforeItsRegistrationHasNoPast() {
    registerAs(newest);
    long cared = handle.upper();
    handle.forget(id("shop.a"));
    handle.tidy();
    registerAs(plain);
    assertThat(handle.catalog(() -> null).loadTable(id("shop.a")).currentSnapshot()).isNull();
    Transaction past =
        handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT).withAsOf(cared));
    assertThatThrownBy(() -> handle.catalog(() -> past).loadTable(id("shop.a")))
        .hasMessageContaining("cannot be read at");
  }

  /** What it lacks would be hidden by the forget's timestamp. */
  @Test
  void isNotTakenFromCare() {
    registerAs(newest);
    TxnConfig later = TxnConfig.from(Map.of("txns.apply", "next"));
    TxnHandle.open("lake", lake.catalog(), later, Lake.CLOCK).forget(id("shop.a"));
    registerAs(older);
    Map<String, String> before = outside.loadTable(id("shop.a")).properties();
    assertThat(handle.apply(id("shop.a"))).isEqualTo(1);
    assertThat(outside.loadTable(id("shop.a")).properties())
        .containsEntry("txns.applied", before.get("txns.applied"));
    assertThatThrownBy(() -> lake.txnIds("shop.a")).hasMessageContaining("set back");
  }

  /** An operator restores tables in an incident; {@code on} tells of it, and adopts nothing. */
  @Test
  void isPlainWhileTransactionsAreOff() {
    handle.off();
    append(ours.loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
    assertThat(handle.on()).containsOnlyKeys(id("shop.a"));
    assertThatThrownBy(() -> lake.txnIds("shop.a")).hasMessageContaining("set back");
  }

  @Test
  void isNotWritten() {
    assertThatThrownBy(() -> append(ours.loadTable(id("shop.a")), 3))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("set back");
    Transaction txn = handle.begin(BeginOptions.defaults());
    assertThatThrownBy(
            () -> append(lake.open().catalog(() -> txn).loadTableForWrite(id("shop.a")), 3))
        .hasMessageContaining("set back");
    txn.rollback();
    append(ours.loadTable(id("shop.b")), 8);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(7L, 8L);
  }

  /** What was acknowledged is not missing without an error; older timestamps see what they saw. */
  @Test
  void isNotReadAboveWhatItHas() {
    assertThatThrownBy(() -> lake.txnIds("shop.a"))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("set back")
        .hasMessageContaining("'adopt'");
    assertThat(lake.txnIds("shop.b")).containsExactly(7L);
    long applied = Long.parseLong(outside.loadTable(id("shop.a")).properties().get("txns.applied"));
    assertThat(
            handle.services().newest().loadAt(id("shop.a"), applied).metadata().currentSnapshot())
        .isNotNull();
  }

  /** 1. A replica has the table as it was. 2. Somebody writes it, and the entry is archived. */
  @Test
  void whatAReplicaGivesAsItWasIsLoadedAgain() {
    Deque<Table> answers = new ArrayDeque<>();
    Catalog replica = lagging(answers);
    Table old = replica.loadTable(id("shop.a"));
    registerAs(newest);
    answers.add(old);
    TxnHandle reader = TxnHandle.open("lake", replica, Lake.INLINE, new MovedClock(0));
    assertThat(
            reader.services().newest().load(id("shop.a")).metadata().currentSnapshot().snapshotId())
        .isEqualTo(outside.loadTable(id("shop.a")).currentSnapshot().snapshotId())
        .isNotEqualTo(old.currentSnapshot().snapshotId());
    assertThat(answers).isEmpty();
  }

  /** Both entries are outstanding of it, and yet no chain: the second was staged on a stranger. */
  @Test
  void isLoadedAgainFromBeforeACompactionThatWasWrittenOn() {
    Deque<Table> answers = new ArrayDeque<>();
    Catalog replica = lagging(answers);
    Table old = writtenOnACompaction(replica);
    answers.add(old);
    TxnHandle reader = TxnHandle.open("lake", replica, Lake.INLINE, new MovedClock(0));
    reader.services().newest().load(id("shop.a"));
    assertThat(answers).isEmpty();
  }

  /** The log is as it should be; the table is not, but for what can be applied to it again. */
  @Test
  void isNoticedFromBeforeACompactionThatWasWrittenOn() {
    Table old = writtenOnACompaction(lake.catalog());
    registerAs(((BaseTable) old).operations().current().metadataFileLocation());
    assertAdoptEndsIt(1L, 2L, 3L);
  }

  private Table writtenOnACompaction(Catalog replica) {
    registerAs(newest);
    Table old = replica.loadTable(id("shop.a"));
    append(ours.loadTable(id("shop.a")), 3);
    Table table = outside.loadTable(id("shop.a"));
    RewriteFiles rewrite = table.newRewrite();
    table.newScan().planFiles().forEach(task -> rewrite.deleteFile(task.file()));
    rewrite.addFile(Lake.file(table, 1)).commit();
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 4);
    return old;
  }

  /** A catalog that answers with older tables, as long as there are any. */
  private Catalog lagging(Deque<Table> answers) {
    JdbcCatalog replica =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            boolean lags = name.equals(id("shop.a")) && !answers.isEmpty();
            return lags ? answers.pop() : super.loadTable(name);
          }
        };
    replica.initialize("lake", lake.options());
    return replica;
  }

  /** 1. A table is found whole. 2. It is written and tidied. 3. A thread reads the archive. */
  @Test
  void isNotJudgedAgainByANewerArchive() {
    registerAs(newest);
    append(ours.loadTable(id("shop.b")), 8);
    assertThat(handle.tidy()).isPositive();
    Deque<Runnable> meanwhile = new ArrayDeque<>();
    JdbcCatalog looked = lookedAt(meanwhile);
    TxnHandle reader = TxnHandle.open("lake", looked, Lake.INLINE, new MovedClock(0));
    meanwhile.add(() -> {}); // the look that finds it whole
    meanwhile.add(
        () -> {
          append(ours.loadTable(id("shop.a")), 3);
          assertThat(handle.tidy()).isPositive();
          reader.services().newest().load(id("shop.b"));
        });
    assertThat(reader.services().newest().load(id("shop.a")).stranger()).isEmpty();
    assertThat(meanwhile).isEmpty();
  }

  /**
   * Where a newer one is read: rows may be looked at, or their lock be lost, before others tidy.
   *
   * @param stands with an entry of the table that stands in the head, below what has left it
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void isJudgedByTheArchiveOfItsHead(boolean stands) {
    registerAs(newest);
    if (stands) {
      append(
          lake.open(Map.of("txns.apply", "next")).catalog(() -> null).loadTable(id("shop.a")), 3);
    }
    append(ours.loadTable(id("shop.b")), 8);
    assertThat(handle.tidy()).isPositive();
    TxnHandle reader = lake.open();
    Head head = reader.services().log().load();
    BaseTable table = (BaseTable) lake.catalog().loadTable(id("shop.a"));
    append(ours.loadTable(id("shop.a")), 4);
    assertThat(handle.tidy()).isPositive();
    DataTables tables = reader.services().tables();
    assertThat(tables.live(id("shop.a"), table, head).stranger()).isEmpty();
    Head newer = reader.services().log().load();
    assertThatThrownBy(() -> tables.live(id("shop.a"), table, newer))
        .hasMessageContaining("set back");
  }

  /** A catalog in which something happens when the metadata of a loaded table is looked at. */
  private JdbcCatalog lookedAt(Deque<Runnable> meanwhile) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            Table table = super.loadTable(name);
            if (!name.equals(id("shop.a"))) {
              return table;
            }
            TableMetadata loaded = ((BaseTable) table).operations().current();
            TableOperations real = ((BaseTable) table).operations();
            return new BaseTable(
                new HookedOperations(real) {
                  @Override
                  public TableMetadata current() {
                    if (!meanwhile.isEmpty()) {
                      meanwhile.poll().run();
                    }
                    return loaded;
                  }
                },
                table.name());
          }
        };
    catalog.initialize("lake", lake.options());
    return catalog;
  }

  /** Nobody has agreed to give up what it lacks. */
  @Test
  void onLeavesItToAPerson() {
    handle.off();
    assertThat(handle.on()).containsOnlyKeys(id("shop.a"));
    assertThatThrownBy(() -> lake.txnIds("shop.a")).hasMessageContaining("set back");
  }

  /** Whoever set the table back can undo it: nothing was written to the older one. */
  @Test
  void newestMetadataAgainEndsIt() {
    registerAs(newest);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** Reject has nothing to put back, and says so. */
  @Test
  void adoptTakesTheTableAsItStands() {
    assertThatThrownBy(() -> handle.repairReject(id("shop.a"))).hasMessageContaining("'adopt'");
    handle.repairAdopt(id("shop.a"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
  }

  /** It stands at a marker, which is what adopt takes: nothing is left to reject. */
  @Test
  void adoptLeavesATableDroppedThatWasSetBackToAMarker() {
    setBackToAMarker();
    assertThatThrownBy(() -> handle.repairReject(id("shop.a"))).hasMessageContaining("'adopt'");
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.open().catalog(() -> null).tableExists(id("shop.a"))).isFalse();
    append(lake.open().catalog(() -> null).createTable(id("shop.a"), Lake.SCHEMA), 5);
    assertThat(lake.txnIds("shop.a")).containsExactly(5L);
  }

  /** It is set aside by hand before: a purge takes what stands between two markers. */
  @Test
  void whatAStrangerWroteOnAMarkerIsNotAdopted() {
    setBackToAMarker();
    long marker = lake.catalog().loadTable(id("shop.a")).currentSnapshot().snapshotId();
    append(lake.catalog().loadTable(id("shop.a")), 7);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a")))
        .hasMessageContaining("put `main` back")
        .hasMessageContaining("snapshot=`" + marker + "`");
    Table table = lake.catalog().loadTable(id("shop.a"));
    table.manageSnapshots().createBranch("theirs").setCurrentSnapshot(marker).commit();
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.open().catalog(() -> null).tableExists(id("shop.a"))).isFalse();
  }

  /** 1. a is dropped, and 2. created again; that is archived. 3. It is set back to the drop. */
  private void setBackToAMarker() {
    registerAs(newest);
    ours.dropTable(id("shop.a"), false);
    String dropped = location();
    append(ours.createTable(id("shop.a"), Lake.SCHEMA), 8);
    assertThat(handle.tidy()).isPositive();
    registerAs(dropped);
  }

  /** 1. T reads a. 2. a is set back below what was archived. 3. T commits, and loads no table. */
  @Test
  void adoptEndsWhatWasOutstanding() {
    registerAs(newest);
    Transaction late = handle.begin(BeginOptions.defaults());
    append(lake.open().catalog(() -> late).loadTableForWrite(id("shop.a")), 4);
    registerAs(older);
    late.commit();
    assertAdoptEndsIt(1L);
  }

  /** 1. An entry is outstanding. 2. Its table is set back below what was archived before it. */
  @Test
  void adoptEndsWhatWasUnapplied() {
    registerAs(newest);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 4);
    registerAs(older);
    assertAdoptEndsIt(1L);
  }

  /** Without its mark, too: it was registered once, and nobody has forgotten it. */
  @Test
  void isNoticedFromBeforeItsRegistration() {
    registerAs(plain);
    for (String register : List.of("created", "all")) {
      TxnHandle other = lake.open(Map.of("txns.register", register));
      assertThatThrownBy(() -> append(other.catalog(() -> null).loadTable(id("shop.a")), 3))
          .hasMessageContaining("set back");
    }
    assertAdoptEndsIt();
  }

  /** Nothing of a forgotten table is the log's: it may come under care again. */
  @Test
  void aForgottenTableIsItsOwners() {
    registerAs(newest);
    handle.forget(id("shop.a"));
    handle.apply(id("shop.a"));
    assertThat(handle.tidy()).isPositive();
    registerAs(plain);
    handle.register(id("shop.a"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(3L);
  }

  /** Each adoption is an entry of its own. */
  @Test
  void maybeSetBackTwiceToTheSame() {
    for (int i = 0; i < 2; i++) {
      handle.repairAdopt(id("shop.a"));
      append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
      assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
      assertThat(handle.tidy()).isPositive();
      registerAs(older);
    }
  }

  /** What it lacks stands in the head: the log is not broken, the table is not what it has. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2})
  void isNoticedFromBeforeAForgetAndARegistration(int written) {
    registerAs(newest);
    forgetAndRegister(written);
    registerAs(newest);
    assertAdoptEndsIt(1L, 2L);
  }

  /** 1. A replica has a. 2. It is forgotten, registered again, and written. 3. It is asked for. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2})
  void aReplicaFromBeforeARegistrationIsAskedAgain(int written) {
    registerAs(newest);
    Deque<Table> answers = new ArrayDeque<>();
    Catalog replica = lagging(answers);
    Table old = replica.loadTable(id("shop.a"));
    forgetAndRegister(written);
    answers.add(old);
    TxnHandle reader = TxnHandle.open("lake", replica, Lake.INLINE, new MovedClock(0));
    Loaded loaded = reader.services().newest().load(id("shop.a"));
    assertThat(loaded.registered()).isTrue();
    assertThat(loaded.metadata().currentSnapshot().snapshotId())
        .isEqualTo(outside.loadTable(id("shop.a")).currentSnapshot().snapshotId());
    assertThat(answers).isEmpty();
  }

  /** Its owner writes a while nobody takes care of it. */
  private void forgetAndRegister(int written) {
    handle.forget(id("shop.a"));
    append(outside.loadTable(id("shop.a")), 7);
    handle.register(id("shop.a"));
    for (int i = 0; i < written; i++) {
      append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3 + i);
    }
  }

  /** No snapshot has it: not the one that the table was set back to, which was never it. */
  @Test
  void whatAnAdoptionGaveUpIsTooOld() {
    long had = Long.parseLong(outside.loadTable(id("shop.a")).properties().get("txns.applied"));
    long between = handle.services().log().load().upper();
    long adopted = handle.repairAdopt(id("shop.a"));
    assertGone(had, between, adopted);
    TableMetadata applied =
        ((BaseTable) lake.catalog().loadTable(id("shop.a"))).operations().current();
    List<TableMetadata.MetadataLogEntry> files = applied.previousFiles();
    registerAs(files.get(files.size() - 1).file()); // as if it were not applied yet
    assertGone(had, between, adopted);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(handle.tidy()).isPositive();
    assertGone(had, between, adopted);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
  }

  private void assertGone(long had, long between, long adopted) {
    TxnHandle reader = lake.open();
    for (long gone : List.of(had + 1, between, adopted - 1)) {
      assertThatThrownBy(() -> reader.services().newest().loadAt(id("shop.a"), gone))
          .hasMessageContaining("too old")
          .hasMessageContaining("given up")
          .hasMessageContaining(Long.toString(adopted));
    }
    for (long there : List.of(had, adopted)) {
      assertThat(rows(reader.services().newest().loadAt(id("shop.a"), there))).isEqualTo("1");
    }
  }

  private static String rows(Loaded loaded) {
    return loaded.metadata().currentSnapshot().summary().get("total-records");
  }

  private void assertAdoptEndsIt(Long... left) {
    TxnHandle other = lake.open();
    for (Runnable refused :
        List.<Runnable>of(
            () -> other.services().newest().load(id("shop.a")),
            () -> other.forget(id("shop.a")),
            () -> other.register(id("shop.a")))) {
      assertThatThrownBy(refused::run)
          .hasMessageContaining("set back")
          .hasMessageContaining("'adopt'");
    }
    other.repairAdopt(id("shop.a"));
    assertThat(lake.txnIds("shop.a")).containsExactly(left);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 9);
    assertThat(lake.plainIds("shop.a")).contains(9L).hasSize(left.length + 1);
    assertThat(other.tidy()).isPositive();
    assertThat(lake.txnIds("shop.a")).contains(9L).hasSize(left.length + 1);
  }
}
