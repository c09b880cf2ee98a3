package io.txns.iceberg.admin;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Who destroys something by its age asks the storage for the time, not the clock. */
class StorageTimeTest {
  private static final long HOUR_MS = 3600 * 1000;
  private static final TableIdentifier A = id("shop.a");

  @TempDir Path folder;
  private final MovedClock wrong = new MovedClock();
  private Lake lake;
  private TxnHandle handle;

  /** Files of a storage that does not tell when they were written. */
  public static final class MuteFiles implements FileIO {
    private final HadoopFileIO files = new HadoopFileIO(new org.apache.hadoop.conf.Configuration());

    @Override
    public InputFile newInputFile(String path) {
      return files.newInputFile(path);
    }

    @Override
    public OutputFile newOutputFile(String path) {
      return files.newOutputFile(path);
    }

    @Override
    public void deleteFile(String path) {
      files.deleteFile(path);
    }
  }

  @BeforeEach
  void create() {
    lake = new Lake(folder);
    handle = lake.open();
    lake.create(handle, "shop.a", "shop.b");
    append(handle.catalog(() -> null).loadTable(A), 1);
  }

  private TxnHandle open(Catalog catalog) {
    return TxnHandle.open("lake", catalog, TxnConfig.defaults(), wrong);
  }

  private List<Path> files() {
    return lake.filesBelow("").stream()
        .filter(path -> path.startsWith(lake.files().resolve("shop/a")) || isQuestion(path))
        .toList();
  }

  private static boolean isQuestion(Path path) {
    return path.getFileName().toString().contains("txns-clock-");
  }

  private static void assertClockRefused(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("58000"))
        .hasMessageContaining("the clock of this host is wrong")
        .hasMessageContaining("90000 s");
  }

  /** 1. A table is dropped. 2. A host whose clock is 25 hours fast, or late, purges it. */
  @ParameterizedTest
  @ValueSource(longs = {25, -25})
  void aClockThatIsWrongPurgesNothing(long hours) throws IOException {
    handle.catalog(() -> null).dropTable(A);
    List<Path> before = files();
    wrong.aheadMs = hours * HOUR_MS;
    assertClockRefused(() -> open(lake.catalog()).purge(A));
    assertThat(files()).isEqualTo(before);
    assertThat(lake.catalog().tableExists(A)).isTrue();
  }

  /**
   * 1. A table is dropped. 2. A host whose clock is 25 hours fast commits to another one. 3. A host
   * whose clock is right purges the table.
   */
  @Test
  void aLogThatRanAheadMakesNoDropOlder() {
    handle.catalog(() -> null).dropTable(A);
    wrong.aheadMs = 25 * HOUR_MS;
    append(open(lake.catalog()).catalog(() -> null).loadTable(id("shop.b")), 1);
    assertThatThrownBy(() -> lake.open().purge(A)).hasMessageContaining("the drop is too young");
  }

  @Test
  void aClockThatIsWrongExpiresNothing() {
    wrong.aheadMs = 25 * HOUR_MS;
    Table table = open(lake.catalog()).catalog(() -> null).loadTable(A);
    long first = table.history().get(0).snapshotId();
    assertClockRefused(() -> table.expireSnapshots().expireSnapshotId(first).commit());
    assertThat(lake.catalog().loadTable(A).snapshot(first)).isNotNull();
  }

  /** No clock counts there: the table is purged when the log has moved on for long enough. */
  @Test
  void whereTheStorageTellsNoTimeTheLogCountsAlone() {
    assumeFalse(Lake.isRest(), "the files are a server's there");
    handle.catalog(() -> null).dropTable(A);
    JdbcCatalog mute = new JdbcCatalog();
    Map<String, String> options = lake.options();
    options.put(CatalogProperties.FILE_IO_IMPL, MuteFiles.class.getName());
    mute.initialize("lake", options);
    wrong.aheadMs = 25 * HOUR_MS;
    TxnHandle fast = open(mute);
    assertThatThrownBy(() -> fast.purge(A)).hasMessageContaining("the drop is too young");
    append(fast.catalog(() -> null).loadTable(id("shop.b")), 1);
    fast.purge(A);
    assertThat(lake.catalog().tableExists(A)).isFalse();
  }
}
