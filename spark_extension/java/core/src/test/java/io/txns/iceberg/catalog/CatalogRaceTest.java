package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnHandle;
import java.nio.file.Path;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** CREATE and CREATE OR REPLACE outside a transaction, found by Iceberg's own catalog suite. */
class CatalogRaceTest {
  @TempDir Path folder;
  private Lake lake;
  private Catalog catalog;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    catalog = lake.open().catalog(() -> null);
  }

  /**
   * 1. T1 plans CREATE TABLE a. 2. T2 creates a. 3. T1 commits: its name was found absent before
   * the head that it was validated from, so nothing clashed, and a second table was logged.
   */
  @Test
  void aCreateThatLostTheRaceFails() {
    Transaction planned = catalog.buildTable(id("shop.a"), Lake.SCHEMA).createTransaction();
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    assertThatThrownBy(planned::commitTransaction).isInstanceOf(AlreadyExistsException.class);
    append(catalog.loadTable(id("shop.a")), 1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /**
   * 1. T1 plans a replacement of a by the columns that it has. 2. T2 replaces a by others. 3. T1
   * commits: its updates named no column, so T2's stayed, below T1's name in the log.
   */
  @Test
  void theLastReplacementIsWhole() {
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    Transaction last = catalog.buildTable(id("shop.a"), Lake.SCHEMA).replaceTransaction();
    Schema other = new Schema(Types.NestedField.required(1, "other", Types.StringType.get()));
    catalog
        .buildTable(id("shop.a"), other)
        .withProperties(Map.of("who", "second"))
        .replaceTransaction()
        .commitTransaction();
    last.commitTransaction();
    Table replaced = catalog.loadTable(id("shop.a"));
    assertThat(replaced.schema().columns())
        .extracting(Types.NestedField::name)
        .containsExactlyElementsOf(
            Lake.SCHEMA.columns().stream().map(Types.NestedField::name).toList());
    append(replaced, 1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** DROP TABLE by a JVM program says nothing of files: a table under care keeps them. */
  @Test
  void dropWithoutAWordOfPurge() {
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    assertThat(catalog.dropTable(id("shop.a"))).isTrue();
    assertThat(catalog.tableExists(id("shop.a"))).isFalse();
    assertThat(catalog.dropTable(id("shop.a"))).isFalse();
  }

  /** Default values need format 3, which the catalog's own create has to be told. */
  @Test
  void aColumnWithADefault() {
    Schema schema =
        new Schema(
            Types.NestedField.required(1, "id", Types.LongType.get()),
            Types.NestedField.optional("n")
                .withId(2)
                .ofType(Types.IntegerType.get())
                .withInitialDefault(Literal.of(12))
                .withWriteDefault(Literal.of(12))
                .build());
    catalog.buildTable(id("shop.a"), schema).withProperty("format-version", "3").create();
    Table created = lake.catalog().loadTable(id("shop.a"));
    assertThat(created.schema().findField("n").initialDefault()).isEqualTo(12);
  }

  /**
   * 1. T1 puts main back on its first snapshot and appends. 2. T2 appends. 3. T1 is no append: on
   * T2's state it would bring back what it had removed.
   */
  @Test
  void aRollbackWithAnAppendIsNoAppend() {
    TxnHandle handle = lake.open();
    append(catalog.createTable(id("shop.a"), Lake.SCHEMA), 1);
    long first = catalog.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    append(catalog.loadTable(id("shop.a")), 2);
    io.txns.iceberg.catalog.Transaction t1 = handle.begin(BeginOptions.defaults());
    Table table = handle.catalog(() -> t1).loadTable(id("shop.a"));
    table.manageSnapshots().rollbackTo(first).commit();
    append(table, 3);
    append(catalog.loadTable(id("shop.a")), 4);
    assertThatThrownBy(t1::commit).hasMessageContaining("written");
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 4L);
  }

  /**
   * 1. A transaction creates a, not applied yet. 2. A stranger creates a. 3. Readers see the
   * committed rows, writers the error.
   */
  @Test
  void aStrangersTableDoesNotHideACommittedOne() {
    TxnHandle lazy = lake.open(Map.of("txns.apply", "next"));
    io.txns.iceberg.catalog.Transaction t1 = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> t1).createTable(id("shop.a"), Lake.SCHEMA), 1);
    t1.commit();
    append(lake.catalog().createTable(id("shop.a"), Lake.SCHEMA), 9);
    assertThat(Lake.ids(catalog.loadTable(id("shop.a")))).containsExactly(1L);
    assertThatThrownBy(() -> append(catalog.loadTable(id("shop.a")), 2))
        .hasMessageContaining("another table");
  }

  /** Two processes create the commit table of a lake: the second finds the other's namespace. */
  @Test
  void twoMakersOfTheCommitTablesNamespace() {
    JdbcCatalog second =
        new JdbcCatalog() {
          private boolean asked;

          @Override
          public boolean namespaceExists(Namespace namespace) {
            if (asked) {
              return super.namespaceExists(namespace);
            }
            asked = true;
            lake.catalog().createNamespace(namespace);
            return false;
          }
        };
    second.initialize("lake", lake.options());
    TxnHandle handle = TxnHandle.open("lake", second, Lake.INLINE, Lake.CLOCK);
    handle.services().log().loadOrCreate();
    assertThat(lake.catalog().tableExists(id("txns.commits"))).isTrue();
  }

  /**
   * 1. A transaction commits and the table is forgotten, by a clock that is 30 s ahead. 2. Somebody
   * appends past the protocol, at a time before that. 3. The table is registered again, and read at
   * the transaction's commit_ts: without what came later.
   */
  @Test
  void aLateClockWritesBetweenTwoRegistrations() {
    TxnHandle handle = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, new MovedClock(30_000));
    lake.create(handle, "shop.a");
    io.txns.iceberg.catalog.Transaction txn = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> txn).loadTable(id("shop.a")), 1);
    long before = txn.commit().commitTs();
    handle.forget(id("shop.a"));
    append(lake.catalog().loadTable(id("shop.a")), 2);
    handle.register(id("shop.a"));
    TxnCatalog plain = handle.catalog(() -> null);
    assertThat(Lake.ids(plain.loadTableAt(id("shop.a"), before))).containsExactly(1L);
    assertThat(Lake.ids(plain.loadTable(id("shop.a")))).containsExactly(1L, 2L);
  }

  /** A namespace is listed as of the read_ts, whatever others have created since. */
  @Test
  void aNamespaceIsListedAsOfTheReadTs() {
    TxnHandle handle = lake.open();
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    io.txns.iceberg.catalog.Transaction t1 = handle.begin(BeginOptions.defaults());
    catalog.createTable(id("shop.b"), Lake.SCHEMA);
    assertThat(handle.catalog(() -> t1).listTables(id("shop.a").namespace()))
        .containsExactly(id("shop.a"));
  }

  /** One that is dropped and created again since was there, though it cannot be read then. */
  @Test
  void aTableThatIsCreatedAgainIsListedAsOfBefore() {
    TxnHandle handle = lake.open();
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    io.txns.iceberg.catalog.Transaction t1 = handle.begin(BeginOptions.defaults());
    catalog.dropTable(id("shop.a"), false);
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    catalog.createTable(id("shop.b"), Lake.SCHEMA);
    TxnCatalog then = handle.catalog(() -> t1);
    assertThat(then.listTables(id("shop.a").namespace())).containsExactly(id("shop.a"));
    assertThatThrownBy(() -> then.loadTable(id("shop.a"))).hasMessageContaining("too old");
  }
}
