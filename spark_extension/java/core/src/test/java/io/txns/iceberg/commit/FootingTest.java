package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Adoption of a state that the catalog itself has not: of a replica, or of a moment ago. */
class FootingTest extends TwoTables {
  private static final TableIdentifier A = id("shop.a");
  private static final TableIdentifier LOG = id("txns.commits");

  /** What comes once in place of a table's swap, which it is given. */
  private interface Disturbance {
    void instead(Runnable swap);
  }

  private final Map<TableIdentifier, Disturbance> disturbances = new HashMap<>();
  private Table replica;
  private TxnHandle adopter;
  private String older;
  private String newest;

  /** Whether a footing goes on the table as it is, if {@code main} is the same, as servers do. */
  private boolean server;

  private int slept;

  private final class DisturbedCatalog extends JdbcCatalog {
    @Override
    public Table loadTable(TableIdentifier name) {
      return replica != null && name.equals(A) ? replica : super.loadTable(name);
    }

    @Override
    protected TableOperations newTableOps(TableIdentifier name) {
      return new HookedOperations(
          super.newTableOps(name), (real, base, next) -> swap(name, real, base, next));
    }

    private void swap(
        TableIdentifier name, TableOperations real, TableMetadata base, TableMetadata next) {
      Disturbance disturbance = disturbances.remove(name);
      Runnable swap = () -> commit(real, base, next);
      if (disturbance == null) {
        swap.run();
      } else {
        disturbance.instead(swap);
      }
    }

    private void commit(TableOperations real, TableMetadata base, TableMetadata next) {
      if (!server) {
        real.commit(base, next);
        return;
      }
      TableMetadata newest = real.refresh();
      if (newest.currentSnapshot().snapshotId() != base.currentSnapshot().snapshotId()) {
        throw new CommitFailedException("main has moved");
      }
      TableMetadata footing =
          TableMetadata.buildFrom(newest)
              .addSnapshot(next.currentSnapshot())
              .setRef(SnapshotRef.MAIN_BRANCH, next.ref(SnapshotRef.MAIN_BRANCH))
              .build();
      real.commit(newest, footing);
    }
  }

  /** A table whose two entries are archived, and somebody who adopts it. */
  @BeforeEach
  void openAdopter() {
    older = location();
    append(ours.loadTable(A), 2);
    assertThat(handle.tidy()).isPositive();
    newest = location();
    JdbcCatalog catalog = new DisturbedCatalog();
    catalog.initialize("lake", lake.options());
    MovedClock clock =
        new MovedClock() {
          @Override
          public void backOff(long maxMs) {
            slept += (int) maxMs;
          }
        };
    adopter = TxnHandle.open("lake", catalog, Lake.INLINE, clock);
  }

  private String location() {
    return operations(outside.loadTable(A)).current().metadataFileLocation();
  }

  private static TableOperations operations(Table table) {
    return ((BaseTable) table).operations();
  }

  private void registerAs(String location) {
    outside.dropTable(A, false);
    outside.registerTable(A, location);
  }

  /** A table as a replica gives it for good. */
  private Table given() {
    Table table = lake.catalog().loadTable(A);
    operations(table).current();
    return table;
  }

  private void assertConflict() {
    TxnException conflict = catchThrowableOfType(TxnException.class, () -> adopter.repairAdopt(A));
    assertThat(conflict).hasMessageContaining("another state of the table");
    assertThat(conflict.kind()).isEqualTo(ErrorKind.CONFLICT);
  }

  /** What everybody sees, through the protocol and outside it. */
  private List<Long> seen() {
    lake.open().apply();
    List<Long> seen = lake.txnIds("shop.a");
    assertThat(lake.plainIds("shop.a")).isEqualTo(seen);
    return seen;
  }

  private long upper() {
    return handle.services().log().load().upper();
  }

  /** 1. a is written, and tidied. 2. A replica has it as it was. 3. Somebody adopts that. */
  @Test
  void whatAReplicaGivesForLongIsNotAdopted() {
    registerAs(older);
    replica = given();
    registerAs(newest);
    long upper = upper();
    assertConflict();
    assertThat(slept).isGreaterThanOrEqualTo(1000); // at most; the half of it on average
    assertThat(upper()).isEqualTo(upper);
    assertThat(seen()).containsExactly(1L, 2L);
  }

  /** 1. a is set back. 2. It is loaded to be adopted. 3. Its newest metadata comes back. */
  @Test
  void whatWasMadeWholeBeforeTheFootingIsNotAdopted() {
    registerAs(older);
    disturbances.put(
        A,
        swap -> {
          registerAs(newest);
          swap.run();
        });
    assertConflict();
    assertThat(seen()).containsExactly(1L, 2L);
  }

  /** 1. The footing stands. 2. The newest metadata comes back. 3. The entry is appended. */
  @Test
  void whatWasMadeWholeAfterTheFootingIsNotSetBackByTheEntry() {
    registerAs(older);
    disturbances.put(
        LOG,
        swap -> {
          registerAs(newest);
          swap.run();
        });
    adopter.repairAdopt(A);
    assertThatThrownBy(() -> lake.txnIds("shop.a")).hasMessageContaining("'adopt'");
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    lake.open().repairAdopt(A);
    assertThat(seen()).containsExactly(1L, 2L);
  }

  /** Whoever asks again is told that there is nothing left. */
  @Test
  void aTableThatWasSetBackIsAdoptedOnce() {
    registerAs(older);
    adopter.repairAdopt(A);
    long upper = upper();
    assertThatThrownBy(() -> adopter.repairAdopt(A)).hasMessageContaining("nothing to repair");
    assertThat(upper()).isEqualTo(upper);
    assertThat(seen()).containsExactly(1L);
  }

  private void endBehindTheFooting() {
    disturbances.put(
        LOG,
        swap -> {
          throw new ForbiddenException("not allowed");
        });
    assertThatThrownBy(() -> adopter.repairAdopt(A)).hasMessageContaining("not allowed");
  }

  /** The footing has the rows that are there: nothing is seen of it. */
  @Test
  void anAdoptionThatEndsBehindItsFootingIsMadeAgain() {
    registerAs(older);
    endBehindTheFooting();
    assertThatThrownBy(() -> lake.txnIds("shop.a")).hasMessageContaining("set back");
    adopter.repairAdopt(A);
    assertThat(seen()).containsExactly(1L);
  }

  /** 1. A footing stands, and no entry. 2. The newest metadata comes back. */
  @Test
  void aFootingKeepsNoNewestMetadataOut() {
    registerAs(older);
    endBehindTheFooting();
    registerAs(newest);
    append(ours.loadTable(A), 3);
    assertThat(seen()).containsExactly(1L, 2L, 3L);
  }

  private static Stream<RuntimeException> answers() {
    return Stream.of(
        new CommitFailedException("lost"),
        new CommitStateUnknownException(new IllegalStateException("no answer")),
        new ForbiddenException("not allowed"),
        new ServiceFailureException("out of order"),
        new IllegalStateException("no connection"));
  }

  /** A client that repeats a request by itself may say "lost" of what has landed, too. */
  @ParameterizedTest
  @MethodSource("answers")
  void aFootingWithoutAnAnswerCountsWhenItIsSeen(RuntimeException answer) {
    registerAs(older);
    disturbances.put(
        A,
        swap -> {
          swap.run();
          throw answer;
        });
    adopter.repairAdopt(A);
    assertThat(seen()).containsExactly(1L);
  }

  /** Nobody else has changed the table: to adopt it again would be refused as well. */
  @Test
  void aRefusedFootingIsTold() {
    registerAs(older);
    disturbances.put(
        A,
        swap -> {
          throw new ForbiddenException("not allowed");
        });
    assertThatThrownBy(() -> adopter.repairAdopt(A)).isInstanceOf(ForbiddenException.class);
    adopter.repairAdopt(A);
    assertThat(seen()).containsExactly(1L);
  }

  /** A state that is adopted as it is: of what only appends, the files are. */
  private void overwriteOutside() {
    Table table = outside.loadTable(A);
    table.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit();
  }

  /** There would be no entry above it. */
  @Test
  void noFootingIsPutWhileTransactionsAreOff() {
    overwriteOutside();
    handle.off();
    String before = location();
    assertThatThrownBy(() -> adopter.repairAdopt(A)).hasMessageContaining("transactions are off");
    assertThat(location()).isEqualTo(before);
    handle.on(); // it adopts what was written meanwhile
    assertThat(seen()).isEmpty();
  }

  /** 1. a is set back. 2. It is loaded to be adopted. 3. Its {@code txns.applied} is raised. */
  @Test
  void aStateWithAnotherAppliedIsNotAdopted() {
    registerAs(older);
    Table table = outside.loadTable(A);
    server = true;
    String higher = Long.toString(TableMark.applied(operations(table).current()) + 1);
    disturbances.put(
        A,
        swap -> {
          table.updateProperties().set(TableMark.APPLIED, higher).commit();
          swap.run();
        });
    long upper = upper();
    assertConflict();
    assertThat(upper()).isEqualTo(upper);
  }

  /** 1. A stranger overwrites a. 2. It is loaded to be adopted. 3. Its mark is taken. */
  @Test
  void aStateThatIsJudgedOtherwiseIsNotAdopted() {
    overwriteOutside();
    server = true;
    disturbances.put(
        A,
        swap -> {
          outside.loadTable(A).updateProperties().remove(TableMark.COMMIT_TABLE).commit();
          swap.run();
        });
    long upper = upper();
    assertConflict();
    assertThat(upper()).isEqualTo(upper);
  }

  /** To the same metadata: the second time it is another deed, though nothing tells them apart. */
  @Test
  void aTableIsSetBackAndAdoptedTwice() {
    registerAs(older);
    adopter.repairAdopt(A);
    long upper = upper();
    registerAs(older);
    adopter.repairAdopt(A);
    assertThat(upper()).isGreaterThan(upper);
    assertThat(seen()).containsExactly(1L);
  }

  /** It may land later: it asserts where main stands, and has the same rows. */
  @Test
  void aFootingThatIsNotSeenIsNone() {
    registerAs(older);
    Runnable[] late = new Runnable[1];
    disturbances.put(
        A,
        swap -> {
          late[0] = swap;
          throw new CommitStateUnknownException(new IllegalStateException("no answer"));
        });
    long upper = upper();
    assertConflict();
    assertThat(upper()).isEqualTo(upper);
    adopter.repairAdopt(A);
    assertThatThrownBy(late[0]::run).isInstanceOf(CommitFailedException.class);
    assertThat(seen()).containsExactly(1L);
  }

  /** Each has a footing of its own: the second one's entry is refused. */
  @Test
  void twoAdoptAtOnce() {
    registerAs(older);
    disturbances.put(
        LOG,
        swap -> {
          lake.open().repairAdopt(A);
          swap.run();
        });
    assertThatThrownBy(() -> adopter.repairAdopt(A))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
    assertThat(seen()).containsExactly(1L);
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  /** 1. A stranger rolls main back. 2. A replica has that. 3. The stranger takes it back. */
  @Test
  void aRollbackThatWasUndoneIsNotAdopted() {
    Table table = outside.loadTable(A);
    long main = table.currentSnapshot().snapshotId();
    table.manageSnapshots().rollbackTo(table.currentSnapshot().parentId()).commit();
    replica = given();
    table.manageSnapshots().setCurrentSnapshot(main).commit();
    assertConflict();
    assertThat(seen()).containsExactly(1L, 2L);
  }
}
