package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.file;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.EntryKind;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Nobody stages a file where a record alone has put a table (docs/spec.md, 7). */
class WritePlacesTest extends TwoTables {
  private static final String LOCATION = "location";

  private String victim;

  @BeforeEach
  void theVictim() {
    append(ours.loadTable(id("shop.b")), 66);
    victim = metadata("shop.b").location();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        LOCATION,
        TableProperties.WRITE_METADATA_LOCATION,
        TableProperties.WRITE_DATA_LOCATION,
        "write.object-storage.path",
        "write.folder-storage.path"
      })
  void aWriteOfATableThatARecordHasPutElsewhereIsRefusedBeforeItsFirstFile(String key) {
    forge(key);
    Set<String> before = files();
    refused(() -> table(lazy).locationProvider());
    refused(() -> table(lazy).newTransaction().table().locationProvider());
    refused(() -> lazy.catalog(() -> null).loadTableForWrite(id("shop.a")));
    Transaction txn = lazy.begin(BeginOptions.defaults());
    refused(() -> table(lazy.catalog(() -> txn)).locationProvider());
    refused(() -> lazy.catalog(() -> txn).dropTable(id("shop.a"), false));
    txn.rollback();
    assertThat(files()).isEqualTo(before);
  }

  /** What is written already lies elsewhere: of the table no manifest does. */
  @Test
  void noOperationWritesAFileThere() {
    DataFile file = file(ours.loadTable(id("shop.a")), 2);
    forge(LOCATION);
    Set<String> before = files();
    refused(() -> table(lazy).newAppend().appendFile(file).commit());
    refused(() -> table(lazy).newOverwrite().addFile(file).commit());
    refused(() -> table(lazy).newDelete().deleteFile(file).commit());
    refused(() -> table(lazy).updateSchema().addColumn("c", Types.LongType.get()).commit());
    refused(() -> lazy.catalog(() -> null).dropTable(id("shop.a"), false));
    refused(() -> overwrite(table(lazy), 3));
    Transaction txn = lazy.begin(BeginOptions.defaults());
    TxnCatalog inside = lazy.catalog(() -> txn);
    refused(() -> table(inside).newAppend().appendFile(file).commit());
    refused(() -> table(inside).updateSchema().addColumn("c", Types.LongType.get()).commit());
    txn.rollback();
    assertThat(files()).isEqualTo(before);
  }

  /** 1. It appends. 2. A record moves the table. 3. It commits, and puts its append on that. */
  @Test
  void anAppendThatIsRestagedWritesNothingThere() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(table(lazy.catalog(() -> txn)), 2);
    forge(LOCATION);
    Set<String> before = victims();
    refused(txn::commit);
    assertThat(victims()).isEqualTo(before);
  }

  @Test
  void whoAllowsThePlaceWritesThere() {
    forge(LOCATION);
    Set<String> before = victims();
    append(
        table(lake.open(Map.of("txns.apply", "next", "txns.create-locations", folder.toString()))),
        2);
    assertThat(victims()).containsAll(before).hasSizeGreaterThan(before.size());
  }

  @Test
  void aTableThatARecordAloneHasCreatedElsewhereIsReadAndNotWritten() {
    Forgeries.logCreation(
        handle,
        id("shop.forged"),
        victim,
        metadata("shop.b").currentSnapshot().manifestListLocation(),
        Map.of());
    Set<String> before = files();
    Table table = lazy.catalog(() -> null).loadTable(id("shop.forged"));
    refused(table::locationProvider);
    refused(() -> lazy.catalog(() -> null).loadTableForWrite(id("shop.forged")));
    assertThat(files()).isEqualTo(before);
    lazy.catalog(() -> null).createTable(id("shop.new"), Lake.SCHEMA);
    append(lazy.catalog(() -> null).loadTable(id("shop.new")), 1);
    assertThat(lake.txnIds("shop.new")).containsExactly(1L);
  }

  /** Else whoever writes once it is applied would. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        TableProperties.WRITE_DATA_LOCATION,
        "write.object-storage.path",
        "write.folder-storage.path"
      })
  void noApplierCarriesOutThatOthersLayTheirDataElsewhere(String key) {
    forge(key);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.a").properties()).doesNotContainKey(key);
    assertThat(lake.open(Map.of("txns.create-locations", victim)).apply()).isZero();
    assertThat(metadata("shop.a").properties()).containsEntry(key, victim);
  }

  @Test
  void aUserWhoLaysDataElsewhereNeedsTheOption() {
    String place = folder.resolve("elsewhere/x").toString();
    String above = "txns.create-locations=file://" + folder.resolve("elsewhere");
    unsupported(
        () ->
            ours.loadTable(id("shop.a"))
                .updateProperties()
                .set(TableProperties.WRITE_DATA_LOCATION, place)
                .commit(),
        above);
    Set<String> before = files();
    unsupported(
        () ->
            ours.buildTable(id("shop.x"), Lake.SCHEMA)
                .withProperty(TableProperties.WRITE_DATA_LOCATION, place)
                .createTransaction(),
        above);
    assertThat(files()).isEqualTo(before);
  }

  /** 1. A record moves the table, which no applier carries out. 2. A stranger appends to it. */
  @ParameterizedTest
  @ValueSource(strings = {"adopt", "reject"})
  void aRepairWritesNothingThere(String deed) {
    forge(LOCATION);
    append(outside.loadTable(id("shop.a")), 3);
    Set<String> before = victims();
    refused(() -> repair(deed));
    assertThat(victims()).isEqualTo(before);
  }

  /** An orphan removal lists what lies below the location that a table tells. */
  @Test
  void aTableThatARecordHasPutElsewhereTellsIcebergToRemoveNothing() {
    assertThat(table(lazy).properties()).doesNotContainKey(TableProperties.GC_ENABLED);
    forge(LOCATION);
    assertThat(table(lazy).properties()).containsEntry(TableProperties.GC_ENABLED, "false");
    assertThat(table(lake.open(Map.of("txns.create-locations", folder.toString()))).properties())
        .doesNotContainKey(TableProperties.GC_ENABLED);
  }

  private void repair(String deed) {
    if (deed.equals("adopt")) {
      handle.repairAdopt(id("shop.a"));
    } else {
      handle.repairReject(id("shop.a"));
    }
  }

  private void forge(String key) {
    MetadataUpdate moves =
        key.equals(LOCATION)
            ? new MetadataUpdate.SetLocation(victim)
            : new MetadataUpdate.SetProperties(Map.of(key, victim));
    TableMetadata base = metadata("shop.a");
    String list = base.currentSnapshot().manifestListLocation();
    Forgeries.log(handle, base, EntryKind.COMMIT, list, moves);
  }

  private static void refused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("txns.create-locations=")
        .hasMessageContaining("--void");
  }

  private static void unsupported(ThrowingCallable call, String words) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining(words);
  }

  private static Table table(TxnHandle handle) {
    return table(handle.catalog(() -> null));
  }

  private static Table table(TxnCatalog catalog) {
    return catalog.loadTable(id("shop.a"));
  }

  private Set<String> victims() {
    Set<String> all = files();
    all.removeIf(path -> !path.contains("/b/"));
    return all;
  }

  private Set<String> files() {
    Set<String> found = new TreeSet<>();
    lake.filesBelow("").forEach(path -> found.add(path.toString()));
    return found;
  }

  private TableMetadata metadata(String table) {
    return ((BaseTable) outside.loadTable(id(table))).operations().current();
  }
}
