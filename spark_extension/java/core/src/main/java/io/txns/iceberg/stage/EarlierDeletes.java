package io.txns.iceberg.stage;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.PartitionSet;

/**
 * How many rows of a data file were marked as deleted in a snapshot, as far as manifests tell.
 *
 * <p>They tell it of deletion vectors, and of a position delete file that is bound to one data file
 * and the only one of it. What marks rows of many files, or by values, counts for each file of its
 * partition that it may reach: there, nobody knows without reading data.
 */
final class EarlierDeletes {
  private final Table table;
  private final Map<String, List<DeleteFile>> bound = new HashMap<>();
  private final List<DeleteFile> unbound = new ArrayList<>();

  private EarlierDeletes(Table table) {
    this.table = table;
  }

  /**
   * @param dataFiles the locations of the data files that will be asked about
   */
  static EarlierDeletes of(Table table, Snapshot snapshot, Set<String> dataFiles) {
    EarlierDeletes deletes = new EarlierDeletes(table);
    for (ManifestFile manifest : snapshot.deleteManifests(table.io())) {
      deletes.read(manifest, dataFiles);
    }
    return deletes;
  }

  private void read(ManifestFile manifest, Set<String> dataFiles) {
    try (ManifestReader<DeleteFile> files =
        ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
      for (DeleteFile file : files) {
        String marked = markedFile(file);
        if (marked == null) {
          unbound.add(file.copy());
        } else if (dataFiles.contains(marked)) {
          bound.computeIfAbsent(marked, unused -> new ArrayList<>()).add(file.copyWithoutStats());
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** How many rows of a data file were marked; empty when the manifests do not tell. */
  OptionalLong rowsOf(DataFile file) {
    if (unbound.stream().anyMatch(deletes -> reaches(deletes, file))) {
      return OptionalLong.empty();
    }
    List<DeleteFile> deletes =
        bound.getOrDefault(file.location(), List.of()).stream()
            .filter(one -> one.dataSequenceNumber() >= file.dataSequenceNumber())
            .toList();
    // A deletion vector holds all positions, also those of older position delete files.
    return deletes.stream()
        .filter(ContentFileUtil::isDV)
        .findFirst()
        .map(vector -> OptionalLong.of(vector.recordCount()))
        .orElseGet(() -> countOfOne(deletes));
  }

  /**
   * How many marks a new delete file has taken over from those that it replaces; empty when the
   * manifests do not tell.
   */
  OptionalLong takenOverBy(DeleteFile added, Iterable<DeleteFile> removed) {
    String marked = markedFile(added);
    boolean mayHoldUnbound =
        ContentFileUtil.isDV(added)
            && unbound.stream().anyMatch(one -> isPositions(one) && isInPartitionOf(one, added));
    if (mayHoldUnbound) {
      return OptionalLong.empty();
    }
    Set<String> left = new HashSet<>();
    removed.forEach(file -> left.add(file.location()));
    List<DeleteFile> replaced =
        bound.getOrDefault(marked, List.of()).stream()
            .filter(file -> left.contains(file.location()))
            .toList();
    return countOfOne(replaced);
  }

  /** Several may have marked the same row. */
  private static OptionalLong countOfOne(List<DeleteFile> deletes) {
    return deletes.size() > 1
        ? OptionalLong.empty()
        : OptionalLong.of(deletes.stream().mapToLong(DeleteFile::recordCount).sum());
  }

  private boolean reaches(DeleteFile deletes, DataFile file) {
    if (isPositions(deletes)) {
      return deletes.dataSequenceNumber() >= file.dataSequenceNumber()
          && isInPartitionOf(deletes, file);
    }
    boolean global = table.specs().get(deletes.specId()).isUnpartitioned();
    return deletes.dataSequenceNumber() > file.dataSequenceNumber()
        && (global || isInPartitionOf(deletes, file));
  }

  private static boolean isPositions(DeleteFile deletes) {
    return deletes.content() == FileContent.POSITION_DELETES;
  }

  private boolean isInPartitionOf(ContentFile<?> one, ContentFile<?> other) {
    PartitionSet partition = PartitionSet.create(table.specs());
    partition.add(one.specId(), one.partition());
    return partition.contains(other.specId(), other.partition());
  }

  /** The only data file whose rows a delete file marks; null when it is not bound to one. */
  static String markedFile(DeleteFile file) {
    return ContentFileUtil.referencedDataFileLocation(file);
  }
}
