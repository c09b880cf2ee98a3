package io.txns.iceberg;

import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.ServiceFailureException;
import org.apache.iceberg.jdbc.JdbcCatalog;
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
        TxnHandle.open(
            "lake",
            HookedOperations.catalog(
                lake,
                id("txns.commits"),
                (real, base, next) -> {
                  onItsWay[0] = () -> real.commit(base, next);
                  throw new ForbiddenException("the token has expired meanwhile");
                }),
            TxnConfig.defaults(),
            TxnClock.system());
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

  /**
   * ROLLBACK of what has landed says so, though the table it wrote cannot be read now.
   *
   * <p>1. T's swap is refused, its request is on its way. 2. It lands. 3. The catalog fails for the
   * table. 4. T rolls back.
   */
  @Test
  void rollbackTellsWhatHasLandedWhileItsTableCannotBeRead() {
    Runnable[] onItsWay = new Runnable[1];
    boolean[] down = new boolean[1];
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier table) {
            if (down[0] && table.equals(id("shop.a"))) {
              throw new ServiceFailureException("the catalog is overloaded");
            }
            TableOperations real = super.newTableOps(table);
            return table.equals(id("txns.commits"))
                ? new HookedOperations(real, (swap, base, next) -> refuse(swap, base, next))
                : real;
          }

          private void refuse(TableOperations swap, TableMetadata base, TableMetadata next) {
            onItsWay[0] = () -> swap.commit(base, next);
            throw new ForbiddenException("the token has expired meanwhile");
          }
        };
    catalog.initialize("lake", lake.options());
    TxnHandle refused = TxnHandle.open("lake", catalog, TxnConfig.defaults(), TxnClock.system());
    Transaction txn = refused.begin(BeginOptions.defaults());
    overwrite(refused.catalog(() -> txn).loadTable(id("shop.a")), 2);
    assertThatThrownBy(txn::commit).hasMessageContaining("the token has expired");
    onItsWay[0].run();
    down[0] = true;
    assertThatThrownBy(txn::rollback).hasMessageContaining("the transaction has committed");
    assertThat(txn.state()).isEqualTo(Transaction.State.COMMITTED);
    assertThat(txn.commit().applied()).isFalse();
    assertThat(lake.txnIds("shop.a")).isEqualTo(List.of(2L));
  }
}
