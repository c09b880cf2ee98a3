package io.txns.iceberg.admin;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.log.Entry;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** By which way a process carries out what it commits, and how that is told. */
class ApplyModeTest {
  private static final TableIdentifier A = Lake.id("shop.a");

  @TempDir private Path folder;
  private Lake lake;

  @BeforeEach
  void create() {
    lake = new Lake(folder);
    lake.create(lake.open(), "shop.a");
  }

  private TxnHandle open(Map<String, String> said) {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", lake.options());
    return TxnHandle.openAlone(
        "lake", lake.options(), catalog, TxnConfig.from(said), Lake.CLOCK, TxnMetrics.NONE);
  }

  /** Commit a row, and give how many tables are left to an applier. */
  private int leftToApply(TxnHandle handle) {
    Lake.append(handle.catalog(() -> null).loadTable(A), 7);
    List<Entry> standing = Lake.standing(handle);
    return standing.get(standing.size() - 1).carried().size();
  }

  @Test
  void aDatabaseMovesAllAtOnceWhereNothingIsSaid() {
    TxnHandle handle = open(Map.of());
    assertThat(leftToApply(handle)).isZero();
    assertThat(handle.applyMode())
        .hasToString("atomic: the tables are rows of one database, which moves several at once");
  }

  @ParameterizedTest
  @CsvSource({"auto, next, 1", "next, next, 1", "atomic, atomic, 0", "inline, inline, 1"})
  void aLogThatLeavesItToTheNextWriterIsStrict(String said, String goes, int left) {
    Lake.leaveApplies(lake.open());
    TxnHandle handle = open(Map.of("txns.apply", said));
    assertThat(leftToApply(handle)).isEqualTo(left);
    assertThat(handle.applyMode().toString()).startsWith(goes + ": ");
    assertThat(lake.plainIds("shop.a")).hasSize(goes.equals("next") ? 0 : 1);
  }

  @ParameterizedTest
  @ValueSource(strings = {"inline", "next"})
  void whoIsToldOtherwiseMovesOneTableAtATime(String said) {
    TxnHandle handle = open(Map.of("txns.apply", said));
    assertThat(leftToApply(handle)).isEqualTo(1);
    assertThat(handle.applyMode().toString()).startsWith("inline: ");
  }

  @Test
  void anotherCatalogMovesOneTableAtATime() {
    InMemoryCatalog memory = new InMemoryCatalog();
    memory.initialize("memory", Map.of());
    TxnHandle handle = TxnHandle.open("memory", memory, TxnConfig.defaults(), TxnClock.system());
    lakeIn(memory, handle);
    assertThat(leftToApply(handle)).isEqualTo(1);
    assertThat(handle.applyMode())
        .hasToString("inline: the catalog cannot move several tables at once");
  }

  private static void lakeIn(InMemoryCatalog memory, TxnHandle handle) {
    memory.createNamespace(A.namespace());
    memory.buildTable(A, Lake.SCHEMA).create();
    handle.register(A);
  }
}
