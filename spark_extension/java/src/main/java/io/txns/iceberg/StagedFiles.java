package io.txns.iceberg;

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
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.SupportsPrefixOperations;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files that staged snapshots have written: data, deletes, manifests, manifest lists.
 *
 * <p>Deleted when the transaction is known not to commit them; otherwise they would be orphans.
 */
final class StagedFiles {
  private static final Logger LOG = LoggerFactory.getLogger(StagedFiles.class);

  /** Iceberg's mark on a snapshot that publishes the files of another one. */
  private static final String CHERRY_PICKED = "source-snapshot-id";

  private final FileIO io;
  private final Set<String> locations;

  private StagedFiles(FileIO io, Set<String> locations) {
    this.io = io;
    this.locations = locations;
  }

  /**
   * What the snapshots wrote that were staged on a table after {@code earlier} changes.
   *
   * @param bornMs when the transaction began, in ms; older data files are somebody else's
   */
  static StagedFiles since(StagedTable table, List<MetadataUpdate> earlier, long bornMs) {
    FileIO io = table.real().io();
    Set<String> locations = new LinkedHashSet<>();
    BaseTable reader = new BaseTable(table.operations(), table.identifier().toString());
    List<MetadataUpdate> later = table.changes().subList(earlier.size(), table.changes().size());
    for (MetadataUpdate update : later) {
      if (update instanceof MetadataUpdate.AddSnapshot add) {
        try {
          collect(
              reader, add.snapshot(), new Origin(io, table.base().location(), bornMs), locations);
        } catch (RuntimeException e) {
          LOG.warn("files of a rolled-back snapshot of {} stay", table.identifier(), e);
        }
      }
    }
    return new StagedFiles(io, locations);
  }

  /** The files of the manifests and the manifest lists only: a restaged append keeps its data. */
  static StagedFiles metadataOf(StagedTable table) {
    FileIO io = table.real().io();
    Set<String> locations = new LinkedHashSet<>();
    for (Snapshot snapshot : table.snapshots()) {
      ownManifests(snapshot, io).forEach(manifest -> locations.add(manifest.path()));
      locations.add(snapshot.manifestListLocation());
    }
    return new StagedFiles(io, locations);
  }

  void delete() {
    for (String location : locations) {
      try {
        io.deleteFile(location);
      } catch (RuntimeException e) {
        LOG.warn("a staged file stays: {}", location, e);
      }
    }
  }

  private static void collect(
      BaseTable reader, Snapshot snapshot, Origin origin, Set<String> locations) {
    SnapshotChanges changes = SnapshotChanges.builderFor(reader).snapshot(snapshot).build();
    if (!snapshot.summary().containsKey(CHERRY_PICKED)) {
      changes.addedDataFiles().forEach(file -> origin.add(file.location(), locations));
      changes.addedDeleteFiles().forEach(file -> origin.add(file.location(), locations));
    }
    ownManifests(snapshot, origin.io()).forEach(manifest -> locations.add(manifest.path()));
    locations.add(snapshot.manifestListLocation());
  }

  /**
   * Tells the transaction's own data files from those that it was given (add_files, a cherry-pick):
   * they lie in the table's folder and are no older than the transaction. What cannot be told
   * stays.
   */
  private record Origin(FileIO io, String folder, long bornMs) {
    void add(String location, Set<String> locations) {
      if (location.startsWith(folder + "/") && createdMs(location) >= bornMs) {
        locations.add(location);
      }
    }

    private long createdMs(String location) {
      if (!(io instanceof SupportsPrefixOperations prefixes)) {
        return Long.MIN_VALUE;
      }
      for (FileInfo file : prefixes.listPrefix(location)) {
        return file.createdAtMillis();
      }
      return Long.MIN_VALUE;
    }
  }

  private static List<ManifestFile> ownManifests(Snapshot snapshot, FileIO io) {
    return snapshot.allManifests(io).stream()
        .filter(manifest -> Objects.equals(manifest.snapshotId(), snapshot.snapshotId()))
        .toList();
  }
}
