package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ReachableFileUtil;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.SnapshotRefParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;

/** Plain orphan removal of a table leaves what cannot be applied (docs/spec.md, 8.5). */
class OutstandingBranchTest extends TwoTables {
  private static final Path GOLDEN =
      Path.of("..", "..", "..", "docs", "golden", "outstanding_branches.json");

  private Table plain() {
    return outside.loadTable(id("shop.a"));
  }

  private TableMetadata metadata() {
    return ((BaseTable) plain()).operations().current();
  }

  private List<Snapshot> copies() {
    return metadata().snapshots().stream()
        .filter(each -> each.summary().containsKey(OutstandingBranch.COPY_OF))
        .toList();
  }

  /** Two entries that cannot be applied: a stranger's column took the id of a logged one. */
  private void quarantine() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    Table table = lazy.catalog(() -> txn).loadTable(id("shop.a"));
    table.updateSchema().addColumn("ours", Types.StringType.get()).commit();
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 3);
    plain().updateSchema().addColumn("theirs", Types.StringType.get()).commit();
    assertThat(handle.apply()).isEqualTo(1);
  }

  /** Remove the files of a table that its metadata does not lead to, as an engine does. */
  private void removeOrphans() throws IOException {
    Table table = plain();
    Stream<String> reached =
        Stream.concat(
            ReachableFileUtil.metadataFileLocations(table, true).stream(),
            Stream.concat(
                ReachableFileUtil.manifestListLocations(table).stream(),
                stream(table.snapshots()).flatMap(each -> files(table, each))));
    Set<Path> kept = reached.map(OutstandingBranchTest::path).collect(Collectors.toSet());
    try (Stream<Path> found = Files.walk(path(table.location()))) {
      for (Path each : found.filter(Files::isRegularFile).toList()) {
        if (!kept.contains(each) && !each.getFileName().toString().endsWith(".crc")) {
          Files.delete(each);
        }
      }
    }
  }

  private static Stream<String> files(Table table, Snapshot snapshot) {
    return snapshot.allManifests(table.io()).stream()
        .flatMap(
            manifest -> {
              try (CloseableIterable<String> paths =
                  ManifestFiles.readPaths(manifest, table.io(), table.specs())) {
                List<String> listed = stream(paths).toList();
                return Stream.concat(Stream.of(manifest.path()), listed.stream());
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              }
            });
  }

  private static <T> Stream<T> stream(Iterable<T> all) {
    return StreamSupport.stream(all.spliterator(), false);
  }

  private static Path path(String location) {
    return location.startsWith("file:") ? Path.of(URI.create(location)) : Path.of(location);
  }

  @Test
  void whatCannotBeAppliedIsNoOrphan() throws IOException {
    quarantine();
    removeOrphans();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** What is left has lists of its own, and an expiry takes nothing of it. */
  @Test
  void branchAndCopiesGoWithWhatIsApplied() {
    quarantine();
    Set<String> lists =
        copies().stream().map(Snapshot::manifestListLocation).collect(Collectors.toSet());
    assertThat(lists).hasSize(2);
    handle.repairReject(id("shop.a"));
    assertThat(copies()).isEmpty();
    assertThat(metadata().ref(OutstandingBranch.NAME)).isNull();
    assertThat(metadata().snapshots())
        .noneMatch(each -> lists.contains(each.manifestListLocation()));
    expire();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** A repair needs what the first change stands on. */
  @Test
  void anExpiryLeavesWhatTheFirstChangeStandsOn() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    overwrite(plain(), 9);
    assertThat(handle.apply()).isEqualTo(1);
    append(plain(), 10);
    expire();
    assertThat(copies()).hasSize(1);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  @Test
  void appliersPutTheBranchOnce() {
    quarantine();
    assertThat(metadata().ref(OutstandingBranch.NAME)).isNotNull();
    String location = metadata().metadataFileLocation();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata().metadataFileLocation()).isEqualTo(location);
  }

  @Test
  void theBranchIsThatOfTheSpecification() throws IOException {
    for (JsonNode golden : new ObjectMapper().readTree(GOLDEN.toFile())) {
      TableMetadata base = TableMetadataParser.fromJson(golden.get("base").toString());
      List<OutstandingBranch.Staged> staged =
          stream(golden.get("staged"))
              .map(
                  each ->
                      new OutstandingBranch.Staged(
                          each.get("commitTs").asLong(),
                          SnapshotParser.fromJson(each.get("snapshot").toString())))
              .toList();
      TableMetadata kept =
          OutstandingBranch.put(
              base,
              new OutstandingBranch.Left(golden.get("fromSnapshotId").asLong(), staged),
              golden.get("nowMs").asLong());
      List<JsonNode> copies = new ArrayList<>();
      for (Snapshot each : kept.snapshots()) {
        if (each.summary().containsKey(OutstandingBranch.COPY_OF)) {
          copies.add(new ObjectMapper().readTree(SnapshotParser.toJson(each)));
        }
      }
      assertThat(copies)
          .as(golden.get("why").asText())
          .isEqualTo(stream(golden.get("copies")).toList());
      assertThat(kept.ref(OutstandingBranch.NAME))
          .isEqualTo(SnapshotRefParser.fromJson(golden.get("branch").toString()));
    }
  }

  /** A branch that somebody dropped is put on the copies that are there. */
  @Test
  void aBranchThatWasDroppedIsPutAgain() throws IOException {
    quarantine();
    plain().manageSnapshots().removeBranch(OutstandingBranch.NAME).commit();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata().ref(OutstandingBranch.NAME)).isNotNull();
    removeOrphans();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** One transaction appends to a branch, then to main: what main stood on is what is needed. */
  @Test
  void anotherBranchesSnapshotComesFirst() {
    plain().manageSnapshots().createBranch("audit").commit();
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    Table inside = lazy.catalog(() -> txn).loadTable(id("shop.a"));
    inside.newAppend().appendFile(Lake.file(inside, 50)).toBranch("audit").commit();
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 3);
    txn.commit();
    overwrite(plain(), 9);
    assertThat(handle.apply()).isEqualTo(1);
    expire();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /**
   * What the second change stands on is no copy any more.
   *
   * <p>1. The branch is put for two. 2. The stranger's change is taken back. 3. An applier gets no
   * further than the first. 4. A stranger overwrites, and expires.
   */
  @Test
  void theFirstIsAppliedSince() {
    long before = plain().currentSnapshot().snapshotId();
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 3);
    overwrite(plain(), 9);
    assertThat(handle.apply()).isEqualTo(1);
    plain().manageSnapshots().setCurrentSnapshot(before).commit();
    AtomicInteger swaps = new AtomicInteger();
    TxnHandle dying =
        HookedOperations.open(
            lake,
            id("shop.a"),
            (real, base, next) -> {
              if (swaps.getAndIncrement() > 0) {
                throw new UncheckedIOException(new IOException("the process has died"));
              }
              real.commit(base, next);
            },
            Lake.CLOCK);
    assertThat(dying.apply()).isEqualTo(1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    overwrite(plain(), 10);
    assertThat(handle.apply()).isEqualTo(1);
    expire();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
    handle.repairReject(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** 1. Somebody puts a tag on the branch's head. 2. More is logged. 3. The branch is put anew. */
  @Test
  void aCopyThatATagLeadsToStays() {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).loadTable(id("shop.a")), 3);
    overwrite(plain(), 9);
    assertThat(handle.apply()).isEqualTo(1);
    long head = metadata().ref(OutstandingBranch.NAME).snapshotId();
    plain().manageSnapshots().createTag("theirs", head).commit();
    txn.commit();
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata().ref("theirs").snapshotId()).isEqualTo(head);
    assertThat(copies()).hasSize(3);
    handle.repairReject(id("shop.a"));
    assertThat(metadata().ref("theirs").snapshotId()).isEqualTo(head);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  private void expire() {
    plain().expireSnapshots().expireOlderThan(Long.MAX_VALUE).retainLast(1).commit();
  }
}
