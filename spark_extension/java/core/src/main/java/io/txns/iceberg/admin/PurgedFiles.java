package io.txns.iceberg.admin;

import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.meta.Places;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.SupportsBulkOperations;
import org.apache.iceberg.util.PropertyUtil;

/**
 * The files of a dropped table, deleted in an order that a purge which died can be resumed in: data
 * files, then the manifests that name them, then the lists that name those; the table's marker and
 * its metadata files last, when the catalog has it no more. Of these only what lies below the
 * table's location and no other table uses: what manifests name elsewhere stays.
 */
final class PurgedFiles {
  private final FileIO io;
  private final TableMetadata metadata;
  private final Set<String> used;
  private final Set<String> kept = new TreeSet<>();

  /**
   * The files of a table.
   *
   * @param used see {@link SharedFiles}
   */
  PurgedFiles(FileIO io, TableMetadata metadata, Set<String> used) {
    this.io = io;
    this.metadata = metadata;
    this.used = used;
  }

  /** What is named by the table's metadata, and is not the table's to delete. */
  Set<String> kept() {
    return kept;
  }

  /** Whether other tables may need its data files: then they stay, as in Iceberg itself. */
  boolean keepsData() {
    return !PropertyUtil.propertyAsBoolean(
        metadata.properties(), TableProperties.GC_ENABLED, TableProperties.GC_ENABLED_DEFAULT);
  }

  /** Delete what the marker on main does not need. Gives how many files are gone. */
  int deleteUnreachable() {
    Snapshot main = metadata.currentSnapshot();
    Set<String> lists = new LinkedHashSet<>();
    Map<String, ManifestFile> manifests = new LinkedHashMap<>();
    for (Snapshot snapshot : metadata.snapshots()) {
      if (snapshot.snapshotId() != main.snapshotId()) {
        lists.add(snapshot.manifestListLocation());
        manifestsOf(snapshot).forEach(one -> manifests.put(one.path(), one));
      }
    }
    int deleted = keepsData() ? 0 : delete(dataFiles(manifests.values()));
    List<String> statistics = new ArrayList<>();
    metadata.statisticsFiles().forEach(one -> statistics.add(one.path()));
    metadata.partitionStatisticsFiles().forEach(one -> statistics.add(one.path()));
    return deleted + delete(statistics) + delete(manifests.keySet()) + delete(lists);
  }

  /** Delete the marker and the metadata files, when no catalog has the table any more. */
  int deleteRest() {
    List<String> rest = new ArrayList<>();
    rest.add(metadata.currentSnapshot().manifestListLocation());
    metadata.previousFiles().forEach(one -> rest.add(one.file()));
    rest.add(metadata.metadataFileLocation());
    return delete(rest);
  }

  private List<ManifestFile> manifestsOf(Snapshot snapshot) {
    try {
      return snapshot.allManifests(io);
    } catch (NotFoundException e) {
      LocalPermissions.refuse(e); // it leads to files that nobody would find
      return List.of(); // an earlier purge came as far as this, or an expiry
    }
  }

  private Set<String> dataFiles(Iterable<ManifestFile> manifests) {
    Set<String> paths = new LinkedHashSet<>();
    for (ManifestFile manifest : manifests) {
      try (CloseableIterable<? extends ContentFile<?>> named = files(manifest)) {
        named.forEach(file -> paths.add(file.location()));
      } catch (NotFoundException e) {
        LocalPermissions.refuse(e); // it leads to files that nobody would find
      } catch (IOException e) {
        throw new UncheckedIOException("cannot read " + manifest.path(), e);
      }
    }
    return paths;
  }

  private CloseableIterable<? extends ContentFile<?>> files(ManifestFile manifest) {
    return manifest.content() == ManifestContent.DELETES
        ? ManifestFiles.readDeleteManifest(manifest, io, metadata.specsById())
        : ManifestFiles.read(manifest, io, metadata.specsById());
  }

  private boolean isOwn(String path) {
    return Places.isBelow(path, metadata.location()) && !used.contains(Places.plain(path));
  }

  private int delete(Iterable<String> paths) {
    int deleted = 0;
    List<String> own = new ArrayList<>();
    paths.forEach(path -> (isOwn(path) ? own : kept).add(path));
    if (io instanceof SupportsBulkOperations bulk) {
      bulk.deleteFiles(own);
      return own.size();
    }
    for (String path : own) {
      try {
        io.deleteFile(path);
        deleted++;
      } catch (NotFoundException e) {
        continue;
      }
    }
    return deleted;
  }
}
