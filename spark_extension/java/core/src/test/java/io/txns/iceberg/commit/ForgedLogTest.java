package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.ArchiveScan;
import java.io.IOException;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.StreamSupport;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What whoever may write the commit table makes of the table itself (docs/spec.md, 3.1, 3.3). */
class ForgedLogTest extends TwoTables {
  private static final AtomicInteger RAN = new AtomicInteger();

  /** What a property of the commit table names. */
  public static final class Code implements LocationProvider {
    public Code(String location, Map<String, String> properties) {
      RAN.incrementAndGet();
    }

    @Override
    public String newDataLocation(String name) {
      return "/nowhere/" + name;
    }

    @Override
    public String newDataLocation(PartitionSpec spec, StructLike partition, String name) {
      return newDataLocation(name);
    }
  }

  private Table log() {
    return outside.loadTable(id("txns.commits"));
  }

  /** The error names the property, and not its value; readers go on; without it everybody does. */
  @ParameterizedTest
  @CsvSource({
    "write.metadata.delete-after-commit.enabled,TRUE",
    "write.location-provider.impl,io.example.Code",
    "s3.secret-access-key,s3cret",
    "uri,http://example.org"
  })
  void nobodyWritesALogWhoseTableSteersLibraries(String key, String value) {
    log().updateProperties().set(key, value).commit();
    TxnHandle fresh = lake.open();
    assertThatThrownBy(() -> append(fresh.catalog(() -> null).loadTable(id("shop.a")), 2))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining(key)
        .hasMessageNotContaining("s3cret");
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    log().updateProperties().remove(key).commit();
    append(fresh.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void noPropertyOfTheLogMakesAWriterRunCode() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(handle.apply()).isZero();
    log().updateProperties().set("write.location-provider.impl", Code.class.getName()).commit();
    RAN.set(0);
    TxnHandle fresh = lake.open();
    assertThatThrownBy(fresh::tidy).hasMessageContaining("write.location-provider.impl");
    assertThatThrownBy(() -> append(fresh.catalog(() -> null).loadTable(id("shop.a")), 3))
        .hasMessageContaining("write.location-provider.impl");
    assertThat(RAN).hasValue(0);
  }

  /** A list that the log has left behind lies below the place that its table names. */
  @Test
  void filesAreRemovedAtTheCatalogsOwnPlaceAlone() throws Exception {
    String stolen = outside.loadTable(id("shop.a")).currentSnapshot().manifestListLocation();
    Path own = lake.files().resolve("txns/commits/metadata/left.avro");
    Files.writeString(own, "left");
    log().updateLocation().setLocation(outside.loadTable(id("shop.a")).location()).commit();
    MovedClock clock = new MovedClock();
    TxnHandle fresh = TxnHandle.open("lake", lake.catalog(), TxnConfig.defaults(), clock);
    append(fresh.catalog(() -> null).loadTable(id("shop.b")), 1);
    fresh.services().log().supersede(stolen);
    fresh.services().log().supersede(own.toString());
    clock.aheadMs += 2 * 3600 * 1000;
    append(fresh.catalog(() -> null).loadTable(id("shop.b")), 2);
    while (Files.exists(own)) { // one after the other: the other one's turn has been
      Thread.sleep(20);
    }
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  private static void corrupt(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG))
        .hasMessageContaining("archive of the log cannot be read");
  }

  /**
   * Its files are anybody's: one that is no Parquet file, one that ends like one, one with other
   * columns, and one whose bounds are no numbers.
   */
  @ParameterizedTest
  @ValueSource(strings = {"garbage", "footer", "columns", "bounds"})
  void anArchiveThatIsNoneIsTold(String forged) throws IOException {
    assertThat(handle.tidy()).isPositive();
    append(lazy.catalog(() -> null).loadTable(id("shop.b")), 2);
    assertThat(handle.apply()).isZero();
    DataFile file = file(forged);
    archive(file);
    TxnHandle fresh = lake.open();
    corrupt(fresh::transactions);
    corrupt(() -> fresh.transactions(0, 10));
    while (smallFiles() < SmallFiles.ENOUGH) { // which it does not read before
      archive(DataFiles.builder(PartitionSpec.unpartitioned()).copy(file).build());
    }
    corrupt(fresh::tidy);
    corrupt(() -> fresh.begin(BeginOptions.defaults().withId("mine")));
  }

  /** Of a manifest, or of a list of them, a library says that it cannot be opened. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void anArchiveWhoseManifestsAreNoneIsTold(boolean list) throws IOException {
    assertThat(handle.tidy()).isPositive();
    archive(file("columns"));
    Snapshot main = log().currentSnapshot();
    String forged =
        list ? main.manifestListLocation() : main.allManifests(log().io()).get(0).path();
    Path path = Path.of(forged.replaceFirst("^file:/*", "/"));
    Files.delete(path.resolveSibling("." + path.getFileName() + ".crc"));
    Files.writeString(path, "this is no file of Avro's, however long");
    TxnHandle fresh = lake.open();
    corrupt(fresh::transactions);
    corrupt(() -> fresh.transactions(0, 10));
    corrupt(() -> fresh.begin(BeginOptions.defaults().withId("mine")));
  }

  /** Hadoop says of a server that nobody can name that an argument is wrong. */
  @Test
  void aStorageThatIsNotFoundIsNoArchiveThatIsNone() {
    assertThatThrownBy(
            () ->
                ArchiveScan.readable(
                    () -> {
                      throw new IllegalArgumentException(new UnknownHostException("namenode"));
                    }))
        .isInstanceOf(IllegalArgumentException.class);
  }

  private DataFile file(String forged) throws IOException {
    long archivedTs = handle.services().log().load().state().tidiedUpto();
    boolean cut = forged.equals("bounds");
    ByteBuffer bound = Conversions.toByteBuffer(Types.LongType.get(), archivedTs);
    Map<Integer, ByteBuffer> bounds = Map.of(1, cut ? ByteBuffer.wrap(new byte[3]) : bound);
    Path path = folder.resolve("forged.parquet");
    String garbage = "this is no file of Parquet's, however long";
    Files.writeString(
        path, forged.equals("footer") ? "PAR1" + garbage + "\u0010\0\0\0PAR1" : garbage);
    String place = path.toString();
    long size = Files.size(path);
    if (forged.equals("columns")) {
      DataFile other = Lake.file(outside.loadTable(id("shop.a")), 7);
      place = other.location();
      size = other.fileSizeInBytes();
    }
    return DataFiles.builder(PartitionSpec.unpartitioned())
        .withPath(place)
        .withFormat(FileFormat.PARQUET)
        .withFileSizeInBytes(size)
        .withMetrics(new Metrics(1L, null, null, null, null, bounds, bounds))
        .build();
  }

  private long smallFiles() {
    return StreamSupport.stream(log().newScan().planFiles().spliterator(), false).count();
  }

  /** Append to the archive, past the protocol, with a record that says nothing has changed. */
  private void archive(DataFile file) {
    Map<String, String> main = log().currentSnapshot().summary();
    log()
        .newFastAppend()
        .appendFile(file)
        .set("txns.format-version", "1")
        .set("txns.kind", "tidy")
        .set("txns.txn-id", "forged")
        .set("txns.upper", main.get("txns.upper"))
        .set("txns.tidied-upto", main.get("txns.tidied-upto"))
        .commit();
  }
}
