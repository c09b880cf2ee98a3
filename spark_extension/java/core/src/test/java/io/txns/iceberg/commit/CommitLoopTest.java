package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Swap;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What an attempt's outcome is, what a failure leaves, and what the log stands on. */
@Timeout(120)
class CommitLoopTest {
  private static final TableIdentifier COMMITS = id("txns.commits");

  @TempDir Path folder;
  private Lake lake;

  /** What the catalog answers to swaps of the commit table; null for the truth. */
  private HookedOperations.Hook swap;

  /** What it answers to loads of it, from then on; null for the truth. */
  private TableMetadata old;

  private RuntimeException loadFailure;

  /** What loads of the other tables end with; null for the truth. */
  private RuntimeException tableFailure;

  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    lake.create(lake.open(), "shop.a");
    handle = TxnHandle.open("lake", faulty(), Lake.INLINE, Lake.CLOCK);
  }

  /** A client of the lake's catalog with faults around the commit table. */
  private JdbcCatalog faulty() {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            boolean commits = identifier.equals(COMMITS);
            if (!commits && tableFailure != null) {
              throw tableFailure;
            }
            TableOperations real = super.newTableOps(identifier);
            return commits ? new Faulty(real) : real;
          }
        };
    catalog.initialize("lake", lake.options());
    return catalog;
  }

  private final class Faulty extends HookedOperations {
    private Faulty(TableOperations real) {
      super(real);
    }

    @Override
    public TableMetadata current() {
      return old == null ? super.current() : old;
    }

    @Override
    public TableMetadata refresh() {
      if (loadFailure != null) {
        throw loadFailure;
      }
      return old == null ? super.refresh() : old;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata metadata) {
      HookedOperations.Hook hook = swap;
      if (hook == null) {
        super.commit(base, metadata);
      } else {
        hook.commit(real(), base, metadata);
      }
    }
  }

  private Transaction staged(TxnHandle by, long row) {
    Transaction txn = by.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    append(by.catalog(() -> txn).loadTable(id("shop.a")), row);
    return txn;
  }

  private TableMetadata commits() {
    return ((BaseTable) lake.catalog().loadTable(COMMITS)).operations().current();
  }

  private Set<Path> files() {
    return lake.filesBelow("").stream()
        .filter(path -> !path.toString().endsWith(".crc"))
        .collect(Collectors.toSet());
  }

  // Older heads

  /** 1. T's swap lands, its answer is lost. 2. A replica answers from before T began. */
  @Test
  void anOlderHeadSettlesNothing() {
    TableMetadata before = commits();
    staged(lake.open(), 1).commit();
    Transaction txn = staged(handle, 2);
    swap =
        (real, base, next) -> {
          real.commit(base, next);
          old = before;
          throw new ServiceFailureException("the answer was lost");
        };
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  /** What a swap has made stays visible when the catalog answers from before it. */
  @Test
  void aReaderDoesNotGoBack() {
    TableMetadata before = commits();
    Committed committed = staged(handle, 1).commit();
    old = before;
    assertThat(handle.upper()).isEqualTo(committed.commitTs());
    assertThat(handle.begin(BeginOptions.defaults()).readTs()).isEqualTo(committed.commitTs());
  }

  /**
   * 1. A replica has the log as it was. 2. Somebody commits and applies. 3. A process loads the
   * head from the replica, then the table. 4. The replica catches up.
   */
  @Test
  void aHeadThatLagsIsNotTakenForABackup() {
    TableMetadata before = commits();
    staged(lake.open(), 1).commit();
    old = before;
    TxnClock clock =
        new MovedClock(0) {
          @Override
          public void backOff(long maxMs) {
            old = null;
          }
        };
    TxnHandle reader = TxnHandle.open("lake", faulty(), Lake.INLINE, clock);
    Transaction txn = reader.begin(BeginOptions.defaults());
    assertThat(txn.readTs()).isLessThan(lake.open().upper());
    assertThat(reader.catalog(() -> txn).loadTable(id("shop.a")).currentSnapshot()).isNotNull();
    assertThat(old).isNull();
  }

  /** Some servers call an attempt on an outdated head malformed. */
  @Test
  void aRefusalBySequenceNumberIsALostSwap() {
    Transaction txn = staged(handle, 2);
    swap =
        (real, base, next) -> {
          swap = null;
          advanceElsewhere();
          try {
            real.commit(base, next);
          } catch (CommitFailedException e) {
            throw new BadRequestException("Cannot add snapshot with sequence number 3");
          }
        };
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }

  /** What another process commits: threads of this one wait for each other. */
  private void advanceElsewhere() {
    CommitLog log = new CommitLog(lake.catalog(), COMMITS, Lake.CLOCK);
    Head head = log.load();
    Entry entry = head.entry(EntryKind.ADVANCE, head.upper() + 1, "elsewhere", List.of());
    assertThat(log.append(head, List.of(entry)).outcome()).isEqualTo(Swap.Outcome.WON);
  }

  // Refusals

  /** A client repeats a request by itself: the first has landed, the second is refused. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aRefusalAfterTheSwapLanded(boolean explicit) {
    swap =
        (real, base, next) -> {
          swap = null;
          real.commit(base, next);
          throw new ForbiddenException("the token has expired meanwhile");
        };
    if (explicit) {
      staged(handle, 1).commit();
    } else {
      append(handle.catalog(() -> null).loadTable(id("shop.a")), 1);
    }
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** It is told at once; nothing is deleted, and the next COMMIT may work. */
  @Test
  void aRefusalThatDidNotLand() throws Exception {
    Transaction txn = staged(handle, 1);
    Set<Path> before = files();
    swap =
        (real, base, next) -> {
          throw new ForbiddenException("no writer here");
        };
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("42501"))
        .isNotInstanceOf(CleanableFailure.class)
        .hasMessageContaining("no writer here");
    assertThat(files()).containsAll(before);
    assertThatThrownBy(() -> txn.savepoint("s")).hasMessageContaining("may still land");
    swap = null;
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  /** Files go when no attempt can land any more; until the head has moved they stay. */
  @Test
  void rollbackAfterARefusal() throws Exception {
    Transaction early = staged(handle, 1);
    Transaction late = staged(handle, 2);
    swap =
        (real, base, next) -> {
          throw new ForbiddenException("no writer here");
        };
    assertThatThrownBy(early::commit).isInstanceOf(TxnException.class);
    assertThatThrownBy(late::commit).isInstanceOf(TxnException.class);
    Set<Path> all = files();
    assertThatThrownBy(early::rollback)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> assertThat(e.kind()).isEqualTo(ErrorKind.COMMIT_STATE_UNKNOWN));
    assertThat(files()).containsAll(all);
    staged(lake.open(), 3).commit();
    late.rollback();
    assertThat(files()).matches(now -> !now.containsAll(all));
  }

  /**
   * 1. T's swap is refused, its request is on its way. 2. It lands. 3. T is rolled back, while
   * nobody can tell whether its table shows it.
   */
  @Test
  void rollbackOfWhatHasLanded() {
    Transaction txn = staged(handle, 1);
    Runnable[] onItsWay = new Runnable[1];
    swap =
        (real, base, next) -> {
          onItsWay[0] = () -> real.commit(base, next);
          throw new ForbiddenException("the token has expired meanwhile");
        };
    assertThatThrownBy(txn::commit).isInstanceOf(TxnException.class);
    onItsWay[0].run();
    tableFailure = new ServiceFailureException("the table cannot be loaded");
    assertThatThrownBy(txn::rollback).hasMessageContaining("has committed");
    tableFailure = null;
    assertThat(txn.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(txn.commit().txnId()).isEqualTo(txn.id());
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  // Failures that are no outcome

  /** What was staged stays: more may be staged, and COMMIT tried again. */
  @Test
  void aDroppedConnectionAtCommit() {
    Transaction txn = staged(handle, 1);
    loadFailure = new ServiceFailureException("connection reset by peer");
    assertThatThrownBy(txn::commit).isSameAs(loadFailure);
    loadFailure = null;
    append(handle.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Nothing was sent, so everything that was written goes. */
  @Test
  void rollbackAfterADroppedConnection() throws Exception {
    Set<Path> before = files();
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    Lake.written(txn, () -> append(handle.catalog(() -> txn).loadTable(id("shop.a")), 1));
    loadFailure = new ServiceFailureException("connection reset by peer");
    assertThatThrownBy(txn::commit).isSameAs(loadFailure);
    txn.rollback();
    assertThat(files()).isEqualTo(before);
  }

  // The commit table

  /** COMMIT is no acknowledgement into a new log: an error with the cure, and nothing is lost. */
  @Test
  void aCommitTableThatWentAway() {
    Transaction txn = staged(handle, 1);
    String location = commits().metadataFileLocation();
    JdbcCatalog other = lake.catalog();
    other.dropTable(COMMITS, false);
    assertThatThrownBy(txn::commit).hasMessageContaining("txns recover");
    assertThat(other.tableExists(COMMITS)).isFalse();
    other.registerTable(COMMITS, location);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  /** A new and empty log under the name takes nothing of a handle that knows the old one. */
  @Test
  void anotherCommitTableInItsPlace() {
    Transaction txn = staged(handle, 1);
    lake.catalog().dropTable(COMMITS, false);
    TxnHandle other = lake.open();
    lake.create(other, "shop.b");
    long upper = other.upper();
    // What a refresh finds in its place, and without Iceberg's 20 s of trying its old table again.
    loadFailure = new NotFoundException("the metadata file was removed");
    assertThatThrownBy(txn::commit).hasMessageContaining("another commit table");
    assertThatThrownBy(() -> handle.begin(BeginOptions.defaults()))
        .hasMessageContaining("another commit table");
    assertThatThrownBy(() -> handle.register(id("shop.b")))
        .hasMessageContaining("another commit table");
    assertThat(other.upper()).isEqualTo(upper);
  }

  /** BEGIN makes no commit table; the first table that is created does. */
  @Test
  void beginOnAnEmptyLake(@TempDir Path empty) {
    Lake fresh = new Lake(empty);
    TxnHandle by = fresh.open();
    JdbcCatalog plain = fresh.catalog();
    Lake.createNamespace(plain, id("shop.a").namespace());
    Transaction txn = by.begin(BeginOptions.defaults());
    assertThat(plain.tableExists(COMMITS)).isFalse();
    by.catalog(() -> txn).buildTable(id("shop.a"), Lake.SCHEMA).create();
    append(by.catalog(() -> txn).loadTable(id("shop.a")), 1);
    txn.commit();
    assertThat(fresh.txnIds("shop.a")).containsExactly(1L);
  }

  /** Sessions append for each other: a replica takes nothing back of what one was told so. */
  @Test
  void whomAnotherSessionLedHasSeenItsCommit() {
    CommitLog log = new CommitLog(lake.catalog(), COMMITS, Lake.CLOCK);
    long before = handle.upper();
    old = log.load().metadata();
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 1);
    Head newer = log.load();
    Entry entry = newer.state().entries().get(newer.state().entries().size() - 1);
    CommitGroup led =
        new CommitGroup() {
          @Override
          void run(Member member, BiConsumer<Member, List<Member>> lead) {
            member.committed(entry, newer);
          }
        };
    assertThat(handle.upper()).isEqualTo(before).isLessThan(newer.upper());
    Loops.over(handle.services(), Lake.CLOCK, led)
        .append(CommitGroup.Key.fresh(entry.txnId()), (head, commitTs) -> entry);
    assertThat(handle.upper()).isEqualTo(newer.upper());
  }
}
