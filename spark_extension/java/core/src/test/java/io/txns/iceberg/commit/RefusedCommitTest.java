package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.sql.SQLException;
import java.util.List;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.jdbc.UncheckedSQLException;
import org.junit.jupiter.api.Test;

/** A COMMIT that the catalog has refused and that has landed: whatever is met later, it stands. */
class RefusedCommitTest extends TwoTables {

  /**
   * COMMIT again is answered with the entry, whatever stands in the way of another one.
   *
   * <p>1. T's swap is refused, its request is on its way. 2. It lands. 3. A stranger overwrites the
   * table: what is outstanding cannot be applied. 4. T commits again.
   */
  @Test
  void commitAgainFindsWhatHasLanded() {
    Runnable[] onItsWay = new Runnable[1];
    TxnHandle refused =
        HookedOperations.open(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              onItsWay[0] = () -> real.commit(base, next);
              throw new ForbiddenException("the token has expired meanwhile");
            },
            Lake.CLOCK);
    Transaction txn = refused.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    overwrite(refused.catalog(() -> txn).loadTable(id("shop.a")), 2);
    assertThatThrownBy(txn::commit).hasMessageContaining("the token has expired");
    onItsWay[0].run();
    overwrite(outside.loadTable(id("shop.a")), 3);
    Committed committed = txn.commit();
    assertThat(txn.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(committed.commitTs()).isEqualTo(lake.open().upper());
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(2L));
  }

  /** A database that lets somebody write nothing has answered: there is nothing to settle. */
  @Test
  void aDatabaseThatRefusesIsNoUnknownOutcome() {
    TxnHandle reader =
        HookedOperations.open(
            lake,
            id("txns.commits"),
            (real, base, next) -> {
              throw new UncheckedSQLException(
                  new SQLException("permission denied for table iceberg_tables", "42501"),
                  "Unknown failure");
            },
            Lake.CLOCK);
    Transaction txn = reader.begin(BeginOptions.defaults());
    append(reader.catalog(() -> txn).loadTable(id("shop.a")), 2);
    assertThatThrownBy(txn::commit).hasMessageContaining("permission denied");
    txn.rollback();
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(1L));
  }

  /**
   * What a database refuses may have landed before: Iceberg's client repeats what broke off, and
   * then tells the first error, which says nothing.
   *
   * <p>1. T's update is done, and its answer is lost. 2. The database is another one now, a standby
   * that may not write. 3. The client connects again, and repeats the update.
   */
  @Test
  void aRefusalOfARepeatedUpdateIsSettledByTheLog() {
    TxnHandle ours = TxnHandle.open("lake", HookedDriver.catalog(lake), Lake.INLINE, Lake.CLOCK);
    Transaction txn = ours.begin(BeginOptions.defaults());
    append(ours.catalog(() -> txn).loadTable(id("shop.a")), 2);
    HookedDriver.hook(
        landed -> {
          landed.run();
          HookedDriver.hook(
              refused -> {
                HookedDriver.hook(HookedDriver.Update::run);
                throw new SQLException("cannot execute UPDATE in a read-only transaction", "25006");
              });
          throw new SQLException("an I/O error occurred", "08006");
        });
    txn.commit();
    assertThat(txn.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(1L, 2L));
  }

  /** Of an update that was sent once, the database's answer is the outcome. */
  @Test
  void aDatabaseThatIsReadOnlyIsNoUnknownOutcome() {
    TxnHandle ours = TxnHandle.open("lake", HookedDriver.catalog(lake), Lake.INLINE, Lake.CLOCK);
    Transaction txn = ours.begin(BeginOptions.defaults());
    append(ours.catalog(() -> txn).loadTable(id("shop.a")), 2);
    HookedDriver.hook(
        refused -> {
          throw new SQLException("cannot execute UPDATE in a read-only transaction", "25006");
        });
    assertThatThrownBy(txn::commit).hasMessageContaining("read-only");
    txn.rollback();
    assertThat(txn.state()).isEqualTo(Transaction.State.ROLLED_BACK);
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(1L));
  }
}
