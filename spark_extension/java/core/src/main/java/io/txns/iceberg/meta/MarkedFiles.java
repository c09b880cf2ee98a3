package io.txns.iceberg.meta;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.ManifestEvaluator;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.PartitionSet;

/**
 * Data files of which delete files mark rows, looked up in manifests by their paths.
 *
 * <p>What a delete file says of itself is its partition and, where it marks rows of one file alone,
 * that file's path. Which rows these may be, the data file's own statistics tell. As few manifests
 * are opened as their lists allow.
 */
public final class MarkedFiles {
  /** Of manifests that are read for it: whoever has more has other troubles than a conflict. */
  private static final long MOST_BYTES = 256L << 20;

  private final FileIO io;
  private final Map<Integer, PartitionSpec> specs;
  private final Runnable atWork;
  private final Map<Integer, List<Predicate<ManifestFile>>> mayHave = new HashMap<>();
  private final Set<String> missing = new HashSet<>();
  private final Map<String, DataFile> found = new HashMap<>();
  private final Set<String> seen = new HashSet<>();
  private long left = MOST_BYTES;

  private MarkedFiles(
      FileIO io,
      Map<Integer, PartitionSpec> specs,
      Collection<DeleteFile> deletes,
      Runnable atWork) {
    this.io = io;
    this.specs = specs;
    this.atWork = atWork;
    PartitionSet partitions = PartitionSet.create(specs);
    for (DeleteFile each : deletes) {
      String marked = ContentFileUtil.referencedDataFileLocation(each);
      if (marked != null) {
        missing.add(marked);
        partitions.add(each.specId(), each.partition());
      }
    }
    partitions.forEach(
        pair ->
            mayHave
                .computeIfAbsent(pair.first(), unused -> new ArrayList<>())
                .add(evaluator(specs.get(pair.first()), pair.second())));
  }

  /**
   * The data files of which delete files mark rows, by their locations.
   *
   * @param metadata of their table
   * @param deletes each marks rows of one data file alone
   * @param snapshots in which these may stand, the likeliest first
   * @param atWork is run now and then: it may go on under a lock
   * @return those that stand in one, in a manifest where their delete files' partitions may be
   */
  public static Map<String, DataFile> lookUp(
      FileIO io,
      TableMetadata metadata,
      Collection<DeleteFile> deletes,
      List<Snapshot> snapshots,
      Runnable atWork) {
    MarkedFiles files = new MarkedFiles(io, metadata.specsById(), deletes, atWork);
    snapshots.forEach(files::readAll);
    return files.found;
  }

  private void readAll(Snapshot snapshot) {
    for (ManifestFile manifest : snapshot.dataManifests(io)) {
      boolean may =
          (manifest.hasAddedFiles() || manifest.hasExistingFiles())
              && seen.add(manifest.path())
              && mayHave.getOrDefault(manifest.partitionSpecId(), List.of()).stream()
                  .anyMatch(each -> each.test(manifest));
      if (missing.isEmpty() || (may && (left -= manifest.length()) < 0)) {
        return;
      }
      if (may) {
        read(manifest);
      }
    }
  }

  private void read(ManifestFile manifest) {
    atWork.run();
    try (ManifestReader<DataFile> files = ManifestFiles.read(manifest, io, specs)) {
      for (DataFile file : files) {
        if (missing.remove(file.location())) {
          found.put(file.location(), file.copy());
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Whether a manifest may have a partition. */
  private static Predicate<ManifestFile> evaluator(PartitionSpec spec, StructLike partition) {
    try {
      ManifestEvaluator evaluator =
          ManifestEvaluator.forPartitionFilter(within(spec, partition), spec, true);
      return evaluator::eval;
    } catch (RuntimeException e) { // of a column that is gone, or a value without words, as NaN
      return manifest -> true;
    }
  }

  private static Expression within(PartitionSpec spec, StructLike partition) {
    Expression within = Expressions.alwaysTrue();
    for (int at = 0; at < spec.fields().size(); at++) {
      PartitionField field = spec.fields().get(at);
      Object value = partition.get(at, Object.class);
      within =
          Expressions.and(
              within,
              value == null
                  ? Expressions.isNull(field.name())
                  : Expressions.equal(field.name(), value));
    }
    return within;
  }
}
