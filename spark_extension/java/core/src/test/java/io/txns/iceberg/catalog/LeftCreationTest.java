package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Entry;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A creation that stands in the head when what came after it has left the head.
 *
 * <p>1. One entry creates `shop.n` with a row, and writes `shop.b`. 2. It is applied to `shop.n`
 * alone, and so it stays in the head. 3. `shop.n` is written, and that is applied and archived.
 */
class LeftCreationTest extends TwoTables {
  private final TableIdentifier created = id("shop.n");
  private long createdTs;
  private int absent;

  @BeforeEach
  void create() {
    Transaction both = lazy.begin(BeginOptions.defaults());
    TxnCatalog tables = lazy.catalog(() -> both);
    append(tables.createTable(created, Lake.SCHEMA), 1);
    append(tables.loadTable(id("shop.b")), 7);
    createdTs = both.commit().commitTs();
    assertThat(lazy.apply(created)).isZero();
  }

  private void writeAndTidy() {
    append(lazy.catalog(() -> null).loadTable(created), 2);
    tidy();
  }

  private void tidy() {
    assertThat(lazy.apply(created)).isZero();
    lazy.tidy();
    assertThat(lazy.services().log().load().state().entries().stream().map(Entry::commitTs))
        .contains(createdTs)
        .endsWith(createdTs);
  }

  /** A replica of the catalog that does not have the table yet, for some loads of it. */
  private TxnHandle lagging(int loads) {
    absent = loads;
    JdbcCatalog replica =
        new JdbcCatalog() {
          @Override
          public Table loadTable(TableIdentifier name) {
            if (name.equals(created) && absent-- > 0) {
              throw new NoSuchTableException("a replica lags: %s", name);
            }
            return super.loadTable(name);
          }
        };
    replica.initialize("lake", lake.options());
    return TxnHandle.open("lake", replica, Lake.INLINE, new MovedClock(0));
  }

  private static void isQuarantined(ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("somebody dropped the table, or renamed it")
        .hasMessageContaining("register its newest metadata");
  }

  /** The creation alone lacks what was acknowledged since. */
  @Test
  void aReplicaThatLagsIsAskedAgain() {
    writeAndTidy();
    TxnHandle reader = lagging(3);
    Table table = reader.catalog(() -> null).loadTable(created);
    assertThat(ids(table)).containsExactly(1L, 2L);
    absent = 1;
    append(table, 3);
    assertThat(lake.txnIds("shop.n")).containsExactly(1L, 2L, 3L);
    assertThat(lake.plainIds("shop.n")).containsExactly(1L, 2L, 3L);
  }

  @Test
  void anApplierAsksAReplicaAgain() {
    writeAndTidy();
    append(lazy.catalog(() -> null).loadTable(created), 3);
    assertThat(lagging(2).apply(created)).isZero();
    assertThat(lake.plainIds("shop.n")).containsExactly(1L, 2L, 3L);
  }

  /** Nobody makes it a second time, without what was acknowledged since. */
  @Test
  void aTableThatSomebodyDroppedIsNeitherReadNorWrittenNorMade() {
    writeAndTidy();
    outside.dropTable(created, false);
    isQuarantined(() -> lake.txnIds("shop.n"));
    Transaction txn = handle.begin(BeginOptions.defaults());
    isQuarantined(() -> handle.catalog(() -> txn).loadTableForWrite(created));
    txn.rollback();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(outside.tableExists(created)).isFalse();
    assertThat(lake.plainIds("shop.b")).containsExactly(7L);
  }

  /** Both creations stand in the head, and the drop between them has left it. */
  @Test
  void aTableThatIsCreatedAgainIsAskedForToo() {
    lazy.catalog(() -> null).dropTable(created);
    tidy();
    Transaction both = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> both).createTable(created, Lake.SCHEMA), 3);
    append(lazy.catalog(() -> both).loadTable(id("shop.b")), 8);
    both.commit();
    assertThat(ids(lagging(3).catalog(() -> null).loadTable(created))).containsExactly(3L);
    isQuarantined(() -> lagging(1000).services().newest().load(created));
  }

  /** A replica does not have it yet, and who asks to create it hears that it is there. */
  @Test
  void aTableThatIsCreatedMeanwhileIsRead() {
    assertThat(ids(lagging(2).catalog(() -> null).loadTable(created))).containsExactly(1L);
  }

  /** What was archived may be a drop. */
  @Test
  void aDroppedTableDoesNotComeBack() {
    lazy.catalog(() -> null).dropTable(created);
    tidy();
    outside.dropTable(created, false);
    isQuarantined(() -> lake.txnIds("shop.n"));
  }

  @Test
  void anotherTableUnderTheNameDoesNotBringItBack() {
    writeAndTidy();
    outside.dropTable(created, false);
    outside.createTable(created, Lake.SCHEMA);
    isQuarantined(() -> lake.txnIds("shop.n"));
  }

  /** Whoever reads below the creation reads no table, wherever that is now. */
  @Test
  void thereIsNoneBelowItsCreation() {
    writeAndTidy();
    outside.dropTable(created, false);
    assertThatThrownBy(() -> handle.services().newest().loadAt(created, createdTs - 1))
        .isInstanceOf(NoSuchTableException.class);
  }

  /** Its newest metadata is all that it had. */
  @Test
  void registeringItsNewestMetadataEndsIt() {
    writeAndTidy();
    String newest =
        ((BaseTable) outside.loadTable(created)).operations().current().metadataFileLocation();
    outside.dropTable(created, false);
    outside.registerTable(created, newest);
    append(lake.open().catalog(() -> null).loadTable(created), 3);
    assertThat(lake.plainIds("shop.n")).containsExactly(1L, 2L, 3L);
  }
}
