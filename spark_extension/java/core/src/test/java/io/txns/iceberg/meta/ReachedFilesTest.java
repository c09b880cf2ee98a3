package io.txns.iceberg.meta;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.junit.jupiter.api.Test;

/** What of a table nothing reaches any more when some of its snapshots go. */
class ReachedFilesTest extends TwoTables {
  /** Snapshots: two with a manifest each, one that has merged them, one that has those and more. */
  private TableMetadata merged() {
    Table table = outside.createTable(id("shop.plain"), Lake.SCHEMA);
    append(table, 1);
    append(table, 2);
    table.updateProperties().set("commit.manifest.min-count-to-merge", "3").commit();
    append(table, 3);
    table.updateProperties().set("commit.manifest.min-count-to-merge", "100").commit();
    append(table, 4);
    return ((BaseTable) table).operations().refresh();
  }

  private static Set<Long> idsUpTo(TableMetadata metadata, int index) {
    Set<Long> ids = new TreeSet<>();
    metadata.snapshots().subList(0, index).forEach(at -> ids.add(at.snapshotId()));
    return ids;
  }

  private Set<String> files(Snapshot snapshot) {
    Set<String> files = new TreeSet<>(Set.of(snapshot.manifestListLocation()));
    Table table = outside.loadTable(id("shop.plain"));
    snapshot.allManifests(table.io()).stream().map(ManifestFile::path).forEach(files::add);
    var scan = table.newScan().useSnapshot(snapshot.snapshotId());
    scan.planFiles().forEach(task -> files.add(task.file().location()));
    return files;
  }

  /** The files of the manifests that went stand in the merged one, which both sides list. */
  @Test
  void aFileThatStandsInAnotherManifestStays() {
    TableMetadata base = merged();
    TableMetadata next = TableMetadata.buildFrom(base).removeSnapshots(idsUpTo(base, 3)).build();
    var only = ReachedFiles.onlyOf(base, next, outside.loadTable(id("shop.plain")).io());
    Set<String> gone = new TreeSet<>(only.byList().keySet());
    for (List<ReachedFiles.Held> held : only.byList().values()) {
      for (ReachedFiles.Held each : held) {
        gone.add(each.manifest().path());
        each.files().forEach(file -> gone.add(file.location()));
      }
    }
    gone.removeAll(only.still());
    Set<String> live = files(next.currentSnapshot());
    Set<String> all = new TreeSet<>();
    base.snapshots().forEach(at -> all.addAll(files(at)));
    all.removeAll(live);
    assertThat(gone).isEqualTo(all).hasSizeGreaterThan(3);
  }
}
