package io.txns.iceberg.meta;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;

/** Which files of a table without delete files its snapshots reach. */
public final class ReachedFiles {
  private ReachedFiles() {}

  /**
   * Manifest lists, manifests and data files that snapshots of one version of a table reach, and
   * none of the next version. A file may stand in several manifests: where one is of the first
   * version alone, those of the next are all opened, also what both have.
   */
  public static Set<String> onlyOf(TableMetadata base, TableMetadata next, FileIO io) {
    Map<String, Snapshot> gone = byList(base);
    Map<String, Snapshot> live = byList(next);
    gone.keySet().removeAll(live.keySet());
    Map<String, ManifestFile> before = manifests(gone.values(), io);
    Map<String, ManifestFile> after = manifests(live.values(), io);
    before.keySet().removeAll(after.keySet());
    Set<String> reached = new TreeSet<>(files(before.values(), io, next.specsById()));
    if (!reached.isEmpty()) {
      reached.removeAll(files(after.values(), io, next.specsById()));
    }
    reached.addAll(gone.keySet());
    reached.addAll(before.keySet());
    return reached;
  }

  /** One snapshot of each manifest list: those of the commit table share them. */
  private static Map<String, Snapshot> byList(TableMetadata metadata) {
    return metadata.snapshots().stream()
        .collect(
            Collectors.toMap(
                Snapshot::manifestListLocation, Function.identity(), (one, same) -> one));
  }

  private static Map<String, ManifestFile> manifests(Collection<Snapshot> snapshots, FileIO io) {
    Map<String, ManifestFile> byPath = new HashMap<>();
    for (Snapshot snapshot : snapshots) {
      snapshot.allManifests(io).forEach(each -> byPath.put(each.path(), each));
    }
    return byPath;
  }

  private static Set<String> files(
      Collection<ManifestFile> manifests, FileIO io, Map<Integer, PartitionSpec> specs) {
    Set<String> files = new HashSet<>();
    for (ManifestFile manifest : manifests) {
      try (CloseableIterable<String> paths = ManifestFiles.readPaths(manifest, io, specs)) {
        paths.forEach(files::add);
      } catch (IOException e) {
        throw new UncheckedIOException("cannot read a manifest of the archive", e);
      }
    }
    return files;
  }
}
