package io.txns.iceberg.meta;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.PartitionSet;

/**
 * Which files came to a table, and left it, between two of its snapshots.
 *
 * <p>By the paths in their manifests, not by what anybody says of them: a stranger's compaction is
 * no entry of a log, and removes files all the same. A manifest that both have is not opened.
 *
 * @param added data files that came: one may come more than once
 * @param removed data files that left, by their paths
 * @param addedDeletes delete files that came: one of deletion vectors may come in several pieces
 * @param removedDeletes delete files that left
 */
public record FileChanges(
    List<DataFile> added,
    Map<String, DataFile> removed,
    List<DeleteFile> addedDeletes,
    List<DeleteFile> removedDeletes) {

  /** What a table was is no ancestor of what it is, or no longer: nobody knows what changed. */
  public static final class HistoryGapException extends Exception {
    private static final long serialVersionUID = 1L;
  }

  /** What one snapshot of {@code main} changed; its files are read where they are asked for. */
  public record Step(Snapshot snapshot, Supplier<FileChanges> changes) {}

  private FileChanges() {
    this(new ArrayList<>(), new LinkedHashMap<>(), new ArrayList<>(), new ArrayList<>());
  }

  /** All data files that came or left. */
  public List<DataFile> files() {
    List<DataFile> files = new ArrayList<>(added);
    files.addAll(removed.values());
    return files;
  }

  /** Whether no file came or left. */
  public boolean isEmpty() {
    return files().isEmpty() && deletes().isEmpty();
  }

  /** All delete files that came or left. */
  public List<DeleteFile> deletes() {
    List<DeleteFile> files = new ArrayList<>(addedDeletes);
    files.addAll(removedDeletes);
    return files;
  }

  /** The same, where delete files that left count as those that came. */
  public FileChanges withMarksOfBoth() {
    return new FileChanges(added, removed, deletes(), removedDeletes);
  }

  /**
   * What two states of a table do not share.
   *
   * @param before null for a table without a snapshot
   * @param after the same
   * @param specs of the table, by their ids
   */
  public static FileChanges between(
      Snapshot before, Snapshot after, FileIO io, Map<Integer, PartitionSpec> specs) {
    return difference(manifests(before, io), manifests(after, io), io, specs);
  }

  /** The data files of a state that are not in manifests which another one has as well. */
  public static List<DataFile> dataFiles(
      Snapshot other, Snapshot state, FileIO io, Map<Integer, PartitionSpec> specs) {
    Live live = new Live(io, specs).without(manifests(state, io), manifests(other, io));
    return live.files.values().stream()
        .flatMap(List::stream)
        .filter(DataFile.class::isInstance)
        .map(DataFile.class::cast)
        .toList();
  }

  /**
   * The snapshots of {@code main} that stand on another one, newest first.
   *
   * @param before the id of that one; null for none
   * @throws HistoryGapException main does not stand on it
   */
  public static List<Step> since(TableMetadata metadata, Long before, FileIO io)
      throws HistoryGapException {
    List<Step> steps = new ArrayList<>();
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.currentSnapshot();
    while (at != null && (before == null || at.snapshotId() != before)) {
      Snapshot snapshot = at;
      Snapshot parent = walk.parent(at);
      if (parent == null && at.parentId() != null) {
        throw new HistoryGapException();
      }
      steps.add(new Step(snapshot, () -> between(parent, snapshot, io, metadata.specsById())));
      at = parent;
    }
    if (at == null && before != null) {
      throw new HistoryGapException();
    }
    return steps;
  }

  /** Whether a delete file may hold a row of an older data file. */
  public static boolean reaches(
      DeleteFile deletes, DataFile file, Map<Integer, PartitionSpec> specs) {
    String marked = ContentFileUtil.referencedDataFileLocation(deletes);
    if (marked != null) {
      return marked.equals(file.location());
    }
    if (isGlobal(deletes, specs)) {
      return true;
    }
    PartitionSet partition = PartitionSet.create(specs);
    partition.add(deletes.specId(), deletes.partition());
    return partition.contains(file.specId(), file.partition());
  }

  /** Whether a delete file takes rows of every partition by their values. */
  public static boolean isGlobal(DeleteFile deletes, Map<Integer, PartitionSpec> specs) {
    return deletes.content() == FileContent.EQUALITY_DELETES
        && specs.get(deletes.specId()).isUnpartitioned();
  }

  private static Map<String, ManifestFile> manifests(Snapshot snapshot, FileIO io) {
    Map<String, ManifestFile> found = new LinkedHashMap<>();
    if (snapshot != null) {
      snapshot.allManifests(io).forEach(each -> found.put(each.path(), each));
    }
    return found;
  }

  private static FileChanges difference(
      Map<String, ManifestFile> old,
      Map<String, ManifestFile> now,
      FileIO io,
      Map<Integer, PartitionSpec> specs) {
    Live before = new Live(io, specs).without(old, now);
    Live after = new Live(io, specs).without(now, old);
    FileChanges found = new FileChanges();
    Set<Key> keys = new LinkedHashSet<>(before.files.keySet());
    keys.addAll(after.files.keySet());
    for (Key key : keys) {
      List<ContentFile<?>> was = before.files.getOrDefault(key, List.of());
      List<ContentFile<?>> is = after.files.getOrDefault(key, List.of());
      was.stream().skip(is.size()).forEach(found::leaves);
      is.stream().skip(was.size()).forEach(found::comes);
    }
    return found;
  }

  private void comes(ContentFile<?> file) {
    if (file instanceof DataFile data) {
      added.add(data);
    } else {
      addedDeletes.add((DeleteFile) file);
    }
  }

  private void leaves(ContentFile<?> file) {
    if (file instanceof DataFile data) {
      removed.put(data.location(), data);
    } else {
      removedDeletes.add((DeleteFile) file);
    }
  }

  /** What tells files apart: the deletion vectors of several data files share one file. */
  private record Key(String location, String marked, int specId, String partition) {
    static Key of(ContentFile<?> file) {
      String marked =
          file instanceof DeleteFile deletes
              ? ContentFileUtil.referencedDataFileLocation(deletes)
              : null;
      return new Key(file.location(), marked, file.specId(), String.valueOf(file.partition()));
    }
  }

  /** Files of manifests, but for those that they say were deleted. */
  private static final class Live {
    private final FileIO io;
    private final Map<Integer, PartitionSpec> specs;
    private final Map<Key, List<ContentFile<?>>> files = new LinkedHashMap<>();

    private Live(FileIO io, Map<Integer, PartitionSpec> specs) {
      this.io = io;
      this.specs = specs;
    }

    private Live without(Map<String, ManifestFile> those, Map<String, ManifestFile> others) {
      those.forEach(
          (path, manifest) -> {
            if (!others.containsKey(path)) {
              read(manifest);
            }
          });
      return this;
    }

    private void read(ManifestFile manifest) {
      try (ManifestReader<? extends ContentFile<?>> reader =
          manifest.content() == ManifestContent.DATA
              ? ManifestFiles.read(manifest, io, specs)
              : ManifestFiles.readDeleteManifest(manifest, io, specs)) {
        for (ContentFile<?> file : reader) {
          ContentFile<?> copy = (ContentFile<?>) file.copy();
          files.computeIfAbsent(Key.of(copy), unused -> new ArrayList<>()).add(copy);
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
