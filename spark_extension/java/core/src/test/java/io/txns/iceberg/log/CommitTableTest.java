package io.txns.iceberg.log;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.table.TableMark;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.UpdateProperties;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The commit table is nobody's data table: it is never marked, only the protocol writes it. */
@Timeout(120)
class CommitTableTest {
  private static final Map<String, String> OTHERS = Map.of("txns.commit-table", "other.commits");

  @TempDir Path folder;
  private Lake lake;

  /** Two commit tables in one catalog, each with a table of its own. */
  @BeforeEach
  void open() {
    lake = new Lake(folder);
    Lake.createNamespace(lake.catalog(), id("txns.commits").namespace());
    Lake.createNamespace(lake.catalog(), id("other.commits").namespace());
    lake.create(lake.open(), "shop.a");
    lake.create(lake.open(OTHERS), "shop.b");
  }

  @AfterEach
  void bothLogsAreReadable() {
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 2);
    append(lake.open(OTHERS).catalog(() -> null).loadTable(id("shop.b")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(2L);
    assertThat(lake.plainIds("shop.b")).containsExactly(3L);
  }

  private static void refused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("this is a commit table");
  }

  @ParameterizedTest
  @ValueSource(strings = {"txns.commits", "other.commits"})
  void isNotRegistered(String name) {
    refused(() -> lake.open().register(id(name)));
  }

  /** Its snapshots tell, whatever it is called: a backup beside the log is not marked either. */
  @Test
  void isNotRegisteredUnderAnotherName() {
    String location =
        ((BaseTable) lake.catalog().loadTable(id("txns.commits")))
            .operations()
            .current()
            .metadataFileLocation();
    lake.catalog().registerTable(id("shop.backup"), location);
    refused(() -> lake.open().register(id("shop.backup")));
  }

  @ParameterizedTest
  @CsvSource({
    "txns.commits, created",
    "txns.commits, all",
    "other.commits, created",
    "other.commits, all"
  })
  void isNotWritten(String name, String register) {
    TxnHandle handle = lake.open(Map.of("txns.register", register));
    TxnCatalog tables = handle.catalog(() -> null);
    TableIdentifier commits = id(name);
    Table table = tables.loadTable(commits);
    refused(() -> tables.loadTableForWrite(commits));
    refused(() -> append(table));
    refused(() -> table.updateProperties().set("a", "b").commit());
    refused(() -> table.updateProperties().set("txns.commit-table", "txns.commits").commit());
    refused(() -> tables.dropTable(commits, false));
    refused(() -> tables.dropTable(commits));
    refused(() -> tables.renameTable(commits, id("shop.c")));
    refused(() -> tables.buildTable(commits, Lake.SCHEMA).createOrReplaceTransaction());
    refused(() -> tables.buildTable(commits, Lake.SCHEMA).replaceTransaction());
  }

  @ParameterizedTest
  @ValueSource(strings = {"txns.commits", "other.commits"})
  void isReadInATransactionAndNotWritten(String name) {
    TxnHandle handle = lake.open(Map.of("txns.register", "all"));
    Transaction txn = handle.begin(BeginOptions.defaults());
    TxnCatalog tables = handle.catalog(() -> txn);
    assertThat(tables.loadTable(id(name)).currentSnapshot()).isNotNull();
    refused(() -> tables.loadTableForWrite(id(name)));
    refused(() -> append(tables.loadTable(id(name))));
    refused(() -> tables.dropTable(id(name), false));
    txn.rollback();
  }

  /** Before there is a log, nobody puts a table under its name through the protocol. */
  @Test
  void nameIsKept() {
    TxnCatalog tables =
        lake.open(Map.of("txns.commit-table", "shop.log", "txns.register", "none"))
            .catalog(() -> null);
    lake.catalog().buildTable(id("shop.plain"), Lake.SCHEMA).create();
    refused(() -> tables.buildTable(id("shop.log"), Lake.SCHEMA).create());
    refused(() -> tables.buildTable(id("shop.log"), Lake.SCHEMA).createOrReplaceTransaction());
    refused(() -> tables.renameTable(id("shop.plain"), id("shop.log")));
    refused(() -> tables.registerTable(id("shop.log"), "anywhere"));
    assertThat(lake.catalog().tableExists(id("shop.log"))).isFalse();
  }

  /** What somebody has called txns.kind outside of the protocol is a word, and no record. */
  @Test
  void aUsersPropertyMakesNone() {
    Table plain =
        lake.catalog()
            .buildTable(id("shop.plain"), Lake.SCHEMA)
            .withProperty("format-version", "2")
            .create();
    plain.newAppend().appendFile(Lake.file(plain, 1)).set("txns.kind", "mine").commit();
    TxnHandle handle = lake.open();
    handle.register(id("shop.plain"));
    append(handle.catalog(() -> null).loadTable(id("shop.plain")), 2);
    assertThat(lake.plainIds("shop.plain")).containsExactly(1L, 2L);
  }

  /** A snapshot property of a user is never taken for what the protocol says. */
  @ParameterizedTest
  @CsvSource({"txns.kind, true", "txns.dropped, true", "txns.kind, false", "txns.dropped, false"})
  void theProtocolsWordsAreRefused(String key, boolean inside) {
    TxnHandle handle = lake.open();
    Transaction txn = inside ? handle.begin(BeginOptions.defaults()) : null;
    Table table = handle.catalog(() -> txn).loadTable(id("shop.a"));
    assertThatThrownBy(
            () -> table.newAppend().appendFile(Lake.file(table, 1)).set(key, "1").commit())
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("42602"))
        .hasMessageContaining("the protocol's own");
    if (inside) {
      txn.rollback();
    }
  }

  /** Who takes the mark away takes the table from care without a word. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theMarkIsNotTheUsers(boolean inside) {
    TxnHandle handle = lake.open();
    Transaction txn = inside ? handle.begin(BeginOptions.defaults()) : null;
    Table table = handle.catalog(() -> txn).loadTable(id("shop.a"));
    for (UpdateProperties change :
        List.of(
            table.updateProperties().set("txns.applied", "9999999999999"),
            table.updateProperties().remove("txns.commit-table"))) {
      assertThatThrownBy(change::commit)
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("42602"))
          .hasMessageContaining("the protocol's own");
    }
    String commitTable = table.properties().get(TableMark.COMMIT_TABLE);
    table.updateProperties().set("owner", "me").set("txns.commit-table", commitTable).commit();
    if (inside) {
      txn.commit();
    }
    assertThat(lake.catalog().loadTable(id("shop.a")).properties()).containsEntry("owner", "me");
  }

  /** What a copy of the properties of a table of another lake brings along. */
  private static final Map<String, String> COPIED =
      Map.of(
          "format-version", "2",
          "txns.created", "9999999999999",
          "txns.applied", "9999999999999",
          "txns.purging", "x");

  /** Of a new table its own mark counts; a registration takes a copied one away. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aCopyOfThePropertiesMakesNoMark(boolean registered) {
    TxnHandle handle = lake.open();
    Catalog creator = registered ? lake.catalog() : handle.catalog(() -> null);
    Table created =
        creator.buildTable(id("shop.copy"), Lake.SCHEMA).withProperties(COPIED).create();
    append(created, 1);
    if (registered) {
      handle.register(id("shop.copy"));
    }
    append(handle.catalog(() -> null).loadTable(id("shop.copy")), 2);
    assertThat(lake.plainIds("shop.copy")).containsExactly(1L, 2L);
    Map<String, String> properties = lake.catalog().loadTable(id("shop.copy")).properties();
    assertThat(properties).doesNotContainKey("txns.purging");
    assertThat(properties.getOrDefault("txns.created", "0")).isNotEqualTo("9999999999999");
  }
}
