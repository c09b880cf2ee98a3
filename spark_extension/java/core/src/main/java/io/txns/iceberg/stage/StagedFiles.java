package io.txns.iceberg.stage;

import io.txns.iceberg.meta.Cleaning;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.io.FileIO;

/**
 * The files that staged snapshots have written: data, deletes, manifests, manifest lists.
 *
 * <p>Deleted when the transaction is known not to commit them; otherwise they would be orphans.
 */
public final class StagedFiles {
  private final FileIO io;
  private final Set<String> locations;

  private StagedFiles(FileIO io, Set<String> locations) {
    this.io = io;
    this.locations = locations;
  }

  /**
   * What the snapshots wrote that were staged on a table after {@code earlier} changes.
   *
   * @param writes tells whose data files were written for them; those of other snapshots were given
   *     to the transaction (add_files, a cherry-pick), and stay
   */
  static StagedFiles since(StagedTable table, List<MetadataUpdate> earlier, Writes writes) {
    FileIO io = table.real().io();
    Set<String> locations = new LinkedHashSet<>();
    BaseTable reader = new BaseTable(table.operations(), table.identifier().toString());
    List<MetadataUpdate> later = table.changes().subList(earlier.size(), table.changes().size());
    for (MetadataUpdate update : later) {
      if (update instanceof MetadataUpdate.AddSnapshot add) {
        Cleaning.of(
            "files of a snapshot of " + table.identifier(),
            () -> {
              if (writes.hasOwnFiles(add.snapshot())) {
                dataFiles(reader, add.snapshot(), locations);
              }
              metadata(add.snapshot(), io, locations);
            });
      }
    }
    return new StagedFiles(io, locations);
  }

  /** The files of the manifests and the manifest lists only: a restaged append keeps its data. */
  public static StagedFiles metadataOf(StagedTable table) {
    return metadataOf(table, table.snapshots());
  }

  /** The same of some of its snapshots. */
  public static StagedFiles metadataOf(StagedTable table, List<Snapshot> some) {
    FileIO io = table.real().io();
    Set<String> locations = new LinkedHashSet<>();
    some.forEach(
        snapshot ->
            Cleaning.of(
                "metadata of a snapshot of " + table.identifier(),
                () -> metadata(snapshot, io, locations)));
    return new StagedFiles(io, locations);
  }

  /** The data and delete files of its own that no snapshot of another version of it has added. */
  static StagedFiles passing(StagedTable table, StagedTable version, Writes writes) {
    Set<String> locations = new LinkedHashSet<>();
    Cleaning.of(
        "files that came and went in " + table.identifier(),
        () -> {
          Set<String> own = new LinkedHashSet<>();
          BaseTable reader = new BaseTable(table.operations(), table.identifier().toString());
          table.snapshots().stream()
              .filter(writes::hasOwnFiles)
              .forEach(snapshot -> dataFiles(reader, snapshot, own));
          Set<String> kept = new LinkedHashSet<>();
          BaseTable made = new BaseTable(version.operations(), table.identifier().toString());
          version.snapshots().forEach(snapshot -> dataFiles(made, snapshot, kept));
          own.removeAll(kept);
          locations.addAll(own);
        });
    return new StagedFiles(table.real().io(), locations);
  }

  public void delete() {
    locations.forEach(location -> Cleaning.of(location, () -> io.deleteFile(location)));
  }

  private static void dataFiles(BaseTable reader, Snapshot snapshot, Set<String> locations) {
    SnapshotChanges changes = SnapshotChanges.builderFor(reader).snapshot(snapshot).build();
    changes.addedDataFiles().forEach(file -> locations.add(file.location()));
    changes.addedDeleteFiles().forEach(file -> locations.add(file.location()));
  }

  private static void metadata(Snapshot snapshot, FileIO io, Set<String> locations) {
    ownManifests(snapshot, io).forEach(manifest -> locations.add(manifest.path()));
    locations.add(snapshot.manifestListLocation());
  }

  private static List<ManifestFile> ownManifests(Snapshot snapshot, FileIO io) {
    return snapshot.allManifests(io).stream()
        .filter(manifest -> Objects.equals(manifest.snapshotId(), snapshot.snapshotId()))
        .toList();
  }
}
