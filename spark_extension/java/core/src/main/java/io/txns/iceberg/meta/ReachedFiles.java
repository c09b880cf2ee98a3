package io.txns.iceberg.meta;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.iceberg.DataFile;
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

  /** A manifest, and the files that it lists as there. */
  public record Held(ManifestFile manifest, List<DataFile> files) {}

  /**
   * What snapshots of one version of a table reach, and none of the next version.
   *
   * @param byList by each manifest list that is of the first version alone, its manifests that are
   * @param still the paths of files that the next version reaches all the same
   */
  public record Only(Map<String, List<Held>> byList, Set<String> still) {}

  /**
   * Manifest lists and manifests that snapshots of one version of a table reach, and none of the
   * next version. A file may stand in several manifests: where one is of the first version alone,
   * those of the next are all opened, also what both have.
   */
  public static Only onlyOf(TableMetadata base, TableMetadata next, FileIO io) {
    Map<String, Snapshot> gone = byList(base);
    Map<String, Snapshot> live = byList(next);
    gone.keySet().removeAll(live.keySet());
    Map<String, ManifestFile> after = new HashMap<>();
    live.values().forEach(at -> at.allManifests(io).forEach(each -> after.put(each.path(), each)));
    Map<String, List<Held>> found = new HashMap<>();
    Set<String> still = new HashSet<>();
    boolean hasFiles = false;
    for (Map.Entry<String, Snapshot> one : gone.entrySet()) {
      List<Held> held = new ArrayList<>();
      for (ManifestFile manifest : one.getValue().allManifests(io)) {
        if (!after.containsKey(manifest.path())) {
          held.add(new Held(manifest, files(manifest, io, next.specsById())));
          hasFiles |= !held.get(held.size() - 1).files().isEmpty();
        }
      }
      found.put(one.getKey(), held);
    }
    if (hasFiles) {
      after
          .values()
          .forEach(
              manifest ->
                  files(manifest, io, next.specsById())
                      .forEach(file -> still.add(file.location())));
    }
    return new Only(found, still);
  }

  /** One snapshot of each manifest list: those of the commit table share them. */
  private static Map<String, Snapshot> byList(TableMetadata metadata) {
    return metadata.snapshots().stream()
        .collect(
            Collectors.toMap(
                Snapshot::manifestListLocation, Function.identity(), (one, same) -> one));
  }

  private static List<DataFile> files(
      ManifestFile manifest, FileIO io, Map<Integer, PartitionSpec> specs) {
    List<DataFile> files = new ArrayList<>();
    try (CloseableIterable<DataFile> found =
        ManifestFiles.read(manifest, io, specs).select(List.of("*"))) { // with their bounds
      found.forEach(file -> files.add(file.copy()));
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read a manifest of the archive", e);
    }
    return files;
  }
}
