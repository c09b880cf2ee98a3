package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.LoggedLines;
import io.txns.iceberg.MovedFiles;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.AddedSnapshots;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.logging.log4j.Level;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is applied is there: manifest lists that a logged change names (docs/spec.md 8.1). */
class MissingListsTest extends TwoTables {
  @RegisterExtension final LoggedLines logged = new LoggedLines();

  /** Files of which it is known whose existence was asked for, and that may fail. */
  public static class LookedAtIO extends MovedFiles {
    static final List<String> LOOKS = new CopyOnWriteArrayList<>();
    static volatile boolean fails;

    @Override
    public InputFile newInputFile(String path) {
      InputFile real = super.newInputFile(path);
      return path.contains("/snap-") ? new LookedAt(real) : real;
    }
  }

  private record LookedAt(InputFile real) implements InputFile {
    @Override
    public long getLength() {
      return real.getLength();
    }

    @Override
    public org.apache.iceberg.io.SeekableInputStream newStream() {
      return real.newStream();
    }

    @Override
    public String location() {
      return real.location();
    }

    @Override
    public boolean exists() {
      LookedAtIO.LOOKS.add(real.location());
      if (LookedAtIO.fails) {
        throw new UncheckedIOException(new IOException("the storage is down"));
      }
      return real.exists();
    }
  }

  @BeforeEach
  void forget() {
    LookedAtIO.LOOKS.clear();
    LookedAtIO.fails = false;
  }

  /**
   * The table stays readable, and others go on.
   *
   * <ol>
   *   <li>An entry is logged, and not applied.
   *   <li>Somebody removes its manifest list, which no metadata names.
   *   <li>Another process applies.
   * </ol>
   */
  @Test
  void whatAnOrphanRemovalTookIsNotApplied() throws Exception {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> txn).loadTable(id("shop.b")), 2);
    txn.commit();
    String gone = lists().stream().filter(path -> path.contains("/a/")).findFirst().orElseThrow();
    Files.delete(Path.of(gone));
    TxnHandle others = lake.open();
    assertThat(others.apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(2L);
    refused(others, "shop.a", gone);
  }

  @Test
  void aListThatIsPutBackIsApplied() throws Exception {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Path gone = Path.of(lists().get(0));
    Path kept = Files.move(gone, gone.resolveSibling("kept"));
    assertThat(lake.open().apply()).isEqualTo(1);
    Files.move(kept, gone);
    assertThat(lake.open().apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** One that is not the newest is read by whoever asks for the past, or expires it. */
  @Test
  void eachSnapshotOfAChangeIsLookedFor() throws Exception {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 3);
    txn.commit();
    assertThat(lists()).hasSize(2);
    Files.delete(Path.of(lists().get(0)));
    assertThat(lake.open().apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** Whoever may write the commit table alone makes no table unreadable. */
  @Test
  void noRecordNamesAListThatIsNotThere() {
    TableMetadata before = metadata("shop.a");
    String list = before.location() + "/metadata/snap-7-0-nothing.avro";
    Forgeries.log(handle, before, EntryKind.COMMIT, list, null);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    refused(handle, "shop.a", list);
  }

  /** Nobody reads the table, or writes it, with what is no list on main. */
  @ParameterizedTest
  @ValueSource(strings = {"metadata", "manifest", "nothing"})
  void noRecordNamesAnotherFileOfTheTableAsAList(String which) throws Exception {
    TableMetadata before = metadata("shop.a");
    Table table = outside.loadTable(id("shop.a"));
    Path empty = Path.of(before.location() + "/metadata/empty.avro");
    Files.createFile(empty);
    Map<String, String> files =
        Map.of(
            "metadata", before.metadataFileLocation(),
            "manifest", table.currentSnapshot().allManifests(table.io()).get(0).path(),
            "nothing", empty.toString());
    Forgeries.log(handle, before, EntryKind.COMMIT, files.get(which), null);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.a").metadataFileLocation()).isEqualTo(before.metadataFileLocation());
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    refused(handle, "shop.a", files.get(which));
  }

  @Test
  void noRecordCreatesATableWhoseListIsNotThere() {
    String place = metadata("shop.b").location().replace("/b", "/forged");
    String list = place + "/metadata/snap-7.avro";
    Forgeries.logCreation(handle, id("shop.forged"), place, list, Map.of());
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(outside.tableExists(id("shop.forged"))).isFalse();
    refused(handle, "shop.forged", list);
  }

  /** A storage that fails is asked again, by the next one; nothing is said of a repair. */
  @Test
  void whatStorageDoesNotTellIsNotGone() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    TxnHandle others = looking("inline", Lake.CLOCK);
    LookedAtIO.fails = true;
    assertThat(others.apply()).isEqualTo(1);
    assertThat(LookedAtIO.LOOKS).isNotEmpty();
    assertThat(logged.of(Level.WARN))
        .anyMatch(line -> line.text().contains("the next writer tries again"))
        .noneMatch(line -> line.text().contains("recover"));
    assertThat(metadata("shop.a").refs()).doesNotContainKey("txns-outstanding");
    LookedAtIO.fails = false;
    assertThat(others.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** A commit costs no call more than it did; others look once for each snapshot. */
  @Test
  void aWriterDoesNotLookForItsOwn() {
    TxnHandle writer = looking("inline", Lake.CLOCK);
    append(writer.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    assertThat(LookedAtIO.LOOKS).isEmpty();
    TxnHandle leaves = looking("next", Lake.CLOCK);
    append(leaves.catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(leaves.apply()).isZero();
    assertThat(LookedAtIO.LOOKS).isEmpty();
    append(leaves.catalog(() -> null).loadTable(id("shop.a")), 4);
    assertThat(looking("inline", Lake.CLOCK).apply()).isZero();
    assertThat(LookedAtIO.LOOKS).hasSize(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 4L);
  }

  /** An orphan removal of days later takes it from a process that lives as long. */
  @Test
  void aWriterLooksForWhatItWroteLongAgo() throws Exception {
    long[] aheadMs = {0};
    TxnClock clock =
        new TxnClock() {
          @Override
          public long nowMs() {
            return Lake.CLOCK.nowMs() + aheadMs[0];
          }

          @Override
          public String newTxnId() {
            return Lake.CLOCK.newTxnId();
          }

          @Override
          public void backOff(long maxMs) {
            Lake.CLOCK.backOff(maxMs);
          }
        };
    TxnHandle writer = looking("next", clock);
    append(writer.catalog(() -> null).loadTable(id("shop.a")), 2);
    Files.delete(Path.of(lists().get(0)));
    aheadMs[0] = 61 * 60_000;
    assertThat(writer.apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** An engine that goes through all snapshots of the table would fail on its copy. */
  @Test
  void theBranchOfWhatCannotBeAppliedNamesNoListThatIsGone() throws Exception {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Path gone = Path.of(lists().get(0));
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 3);
    Files.delete(gone);
    assertThat(lake.open().apply()).isEqualTo(1);
    Table table = outside.loadTable(id("shop.a"));
    assertThat(table.refs()).containsKey("txns-outstanding");
    for (Snapshot snapshot : table.snapshots()) {
      assertThat(table.io().newInputFile(snapshot.manifestListLocation()).exists()).isTrue();
    }
    String file = metadata("shop.a").metadataFileLocation();
    assertThat(lake.open().apply()).isEqualTo(1);
    assertThat(metadata("shop.a").metadataFileLocation()).isEqualTo(file);
  }

  /** The manifest lists that the newest entry adds. */
  private List<String> lists() {
    CommitLog log = handle.services().log();
    List<Entry> standing = log.load().state().entries().stream().filter(Entry::applies).toList();
    Entry last = standing.get(standing.size() - 1);
    List<String> lists = new ArrayList<>();
    for (Change change : last.carried()) {
      AddedSnapshots.of(log.request(new LoggedChange(last, change)).updates()).stream()
          .map(one -> one.manifestListLocation().replaceFirst("^file:/*", "/"))
          .forEach(lists::add);
    }
    return lists;
  }

  /** Whoever has to have it applied is told what is missing, and what ends it. */
  private void refused(TxnHandle by, String table, String gone) {
    CommitLog log = by.services().log();
    List<Entry> standing = Lake.standing(by);
    long ts = standing.get(standing.size() - 1).commitTs();
    assertThatThrownBy(() -> by.services().applier().applyRun(log.load(), id(table)))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining(gone)
        .hasMessageContaining("`txns recover --void " + ts + "`");
  }

  private TxnHandle looking(String apply, TxnClock clock) {
    if (apply.equals("next")) {
      Lake.leaveApplies(handle);
    }
    Map<String, String> options = lake.options();
    options.put(CatalogProperties.FILE_IO_IMPL, LookedAtIO.class.getName());
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", apply));
    return TxnHandle.open("lake", (Catalog) catalog, config, clock);
  }

  private TableMetadata metadata(String table) {
    return ((BaseTable) outside.loadTable(id(table))).operations().current();
  }
}
