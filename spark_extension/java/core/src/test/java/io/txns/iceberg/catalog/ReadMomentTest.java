package io.txns.iceberg.catalog;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.table.Loaded;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What one statement outside a transaction loads, it loads at one moment. */
class ReadMomentTest {
  private static final TableIdentifier A = Lake.id("db.a");
  private static final TableIdentifier B = Lake.id("db.b");

  @TempDir private Path folder;

  private final MovedClock clock = new MovedClock();
  private Lake lake;
  private TxnCatalog newest;
  private TxnCatalog reader;
  private final AtomicReference<ReadMoment> moment = new AtomicReference<>();

  @BeforeEach
  void create() {
    lake = new Lake(folder);
    TxnHandle handle = TxnHandle.open("lake", lake.catalog(), Lake.INLINE, clock);
    lake.create(handle, "db.a", "db.b");
    newest = handle.catalog(() -> null);
    reader = newest.readingAt(() -> Optional.ofNullable(moment.get()));
    moment.set(newest.now());
  }

  private List<Long> read(TableIdentifier table) {
    return Lake.ids(reader.loadTable(table));
  }

  private void appendElsewhere(long id) {
    TxnHandle other = lake.open();
    List.of(A, B).forEach(table -> Lake.append(other.catalog(() -> null).loadTable(table), id));
  }

  @Test
  void tablesAreWhatTheyWereWhenItBegan() {
    assertThat(read(A)).isEmpty();
    appendElsewhere(1);
    assertThat(read(A)).isEmpty();
    assertThat(read(B)).isEmpty();
    assertThat(Lake.ids(newest.loadTable(B))).containsExactly(1L);
  }

  @Test
  void aLaterOneIsOfTheNewestHead() {
    read(A);
    appendElsewhere(1);
    moment.set(moment.get().later());
    assertThat(read(A)).containsExactly(1L);
    assertThat(read(B)).containsExactly(1L);
  }

  @Test
  void whereNothingWasCommittedALaterOneLoadsNoTableOfTheLogAgain() {
    String known = location(A);
    lake.catalog().loadTable(A).updateProperties().set("of", "a stranger").commit();
    moment.set(moment.get().later());
    assertThat(location(A)).isEqualTo(known);
    moment.set(newest.now());
    assertThat(location(A)).isNotEqualTo(known);
  }

  /**
   * 1. A DataFrame is analysed. 2. A stranger drops its table, or what the catalog gave to read it
   * with runs out. 3. Nothing is committed, and it runs an hour later.
   */
  @Test
  void whatWasLoadedLongAgoIsLoadedAgain() {
    String known = location(A);
    lake.catalog().loadTable(A).updateProperties().set("of", "a stranger").commit();
    clock.aheadMs += 29_000;
    ReadMoment soon = moment.get().later();
    clock.aheadMs += 2_000;
    ReadMoment late = soon.later();
    moment.set(soon);
    assertThat(location(A)).isEqualTo(known);
    moment.set(late);
    assertThat(location(A)).isNotEqualTo(known);
  }

  private String location(TableIdentifier table) {
    Loaded.Registered loaded = (Loaded.Registered) moment.get().load(table);
    return loaded.real().current().metadataFileLocation();
  }

  @Test
  void aTableOfStrangersIsLoadedForEachMoment() {
    TableIdentifier plain = Lake.id("db.plain");
    Table stranger = lake.catalog().buildTable(plain, Lake.SCHEMA).create();
    assertThat(read(plain)).isEmpty();
    Lake.append(stranger, 1);
    assertThat(read(plain)).isEmpty();
    moment.set(moment.get().later());
    assertThat(read(plain)).containsExactly(1L);
  }

  @Test
  void aTableThatHasComeUnderCareSinceIsReadAsItIsNow() {
    TableIdentifier late = Lake.id("db.late");
    Lake.append(lake.catalog().buildTable(late, Lake.SCHEMA).create(), 1);
    lake.open().register(late);
    assertThat(read(late)).containsExactly(1L);
  }

  @Test
  void whoWritesATableLoadsItAsItIsNow() {
    TableIdentifier late = Lake.id("db.late");
    lake.catalog().buildTable(late, Lake.SCHEMA).create();
    assertThat(reader.loadTable(late)).isNotInstanceOf(TxnTable.class);
    lake.open().register(late);
    assertThat(reader.loadTable(late)).isNotInstanceOf(TxnTable.class);
    assertThat(reader.loadTableForWrite(late)).isInstanceOf(TxnTable.class);
  }

  @Test
  void beforeThereIsALogTablesAreTheCatalogs(@TempDir Path empty) {
    Lake fresh = new Lake(empty);
    TxnCatalog tables = fresh.open().catalog(() -> null);
    Lake.createNamespace(fresh.catalog(), A.namespace());
    Table stranger = fresh.catalog().buildTable(A, Lake.SCHEMA).create();
    ReadMoment before = tables.now();
    TxnCatalog read = tables.readingAt(() -> Optional.of(before));
    assertThat(Lake.ids(read.loadTable(A))).isEmpty();
    Lake.append(stranger, 1);
    ReadMoment later = before.later();
    assertThat(Lake.ids(tables.readingAt(() -> Optional.of(later)).loadTable(A)))
        .containsExactly(1L);
  }
}
