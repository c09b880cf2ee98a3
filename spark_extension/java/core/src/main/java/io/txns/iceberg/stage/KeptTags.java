package io.txns.iceberg.stage;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.TableMark;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.util.Tasks;
import org.apache.iceberg.util.ThreadPools;

/**
 * Tags on the snapshots whose files a change makes live again (docs/spec.md, 6.9).
 *
 * <p>Iceberg's expiry deletes what an expired ancestor of {@code main} marked as deleted, and does
 * not ask whether a later snapshot has it again, unless it keeps a snapshot beside {@code main}'s
 * history: what is left of it behind an expired ancestor, when it is tagged.
 */
public final class KeptTags {
  private static final Pattern NAME =
      Pattern.compile(TableMark.KEPT_TAG + "(\\d{1,19})-(\\d{1,18})");
  private static final List<String> REMOVED_COUNTS =
      List.of(SnapshotSummary.DELETED_FILES_PROP, SnapshotSummary.REMOVED_DELETE_FILES_PROP);
  private static final int TRIES = 2;

  private KeptTags() {}

  /**
   * Tag the snapshot whose removed files a staged change brings back, if it does, and look again
   * that they are there. Outside the log: a tag changes no rows, and has to stand before the entry.
   *
   * @param readTs what the change is staged on, in ms
   * @param clockMs now
   * @throws TxnException 42704 where a file is gone; 40001 where the table has lost the snapshot
   */
  public static void protect(StagedTable staged, long readTs, String txnId, long clockMs) {
    TableMetadata base = staged.base();
    Snapshot source = staged.restored() == null ? null : base.snapshot(staged.restored());
    if (source == null || !mayHaveRemoved(base, source)) {
      return;
    }
    Set<String> files = comingBack(staged, source);
    if (!files.isEmpty()) {
      tag(staged, source.snapshotId(), readTs, txnId, clockMs);
      refuseGone(staged, source, files);
    }
  }

  /** Remove the tags that nothing needs any more, as {@code base} tells. */
  public static void removeDone(TableMetadata.Builder builder, TableMetadata base) {
    base.refs().entrySet().stream()
        .filter(ref -> isDone(base, ref.getKey(), ref.getValue()))
        .forEach(ref -> builder.removeRef(ref.getKey()));
  }

  /**
   * Whether all that stood on {@code main} at or below a tag's timestamp and may have removed its
   * files has left the history, and an entry above that timestamp stands there: whoever set the tag
   * has committed then, or cannot any more.
   */
  private static boolean isDone(TableMetadata metadata, String name, SnapshotRef ref) {
    Matcher parts = NAME.matcher(name);
    if (ref.isBranch() || !parts.matches()) {
      return false;
    }
    long readTs = Long.parseLong(parts.group(2));
    Set<Long> held = History.ancestors(metadata, metadata.snapshot(ref.snapshotId()));
    boolean decided = false;
    boolean removed = false;
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.currentSnapshot();
    while (at != null && !held.contains(at.snapshotId())) {
      if (OurSnapshots.isOurs(at) && OurSnapshots.commitTs(at) > readTs) {
        decided = true;
        removed = false; // what was seen stands above it, and so above the tag's timestamp
      } else {
        removed |= removes(at);
      }
      at = walk.parent(at);
    }
    return decided && !removed;
  }

  private static boolean mayHaveRemoved(TableMetadata metadata, Snapshot source) {
    Set<Long> held = History.ancestors(metadata, source);
    History.Walk walk = History.walk(metadata);
    Snapshot at = metadata.currentSnapshot();
    while (at != null && !held.contains(at.snapshotId()) && !removes(at)) {
      at = walk.parent(at);
    }
    return at != null && !held.contains(at.snapshotId());
  }

  /** Whether a snapshot may mark files as deleted: a copy of another has no manifest of its own. */
  private static boolean removes(Snapshot snapshot) {
    Map<String, String> summary = snapshot.summary() == null ? Map.of() : snapshot.summary();
    if (summary.containsKey(TableMark.SNAPSHOT_RESTORED)) {
      return false;
    }
    return !DataOperations.APPEND.equals(snapshot.operation())
        || REMOVED_COUNTS.stream().anyMatch(summary::containsKey);
  }

  /** Manifests and files that {@code source} has and main has not. */
  private static Set<String> comingBack(StagedTable staged, Snapshot source) {
    FileIO io = staged.real().io();
    Map<Integer, PartitionSpec> specs = staged.base().specsById();
    try {
      Map<String, ManifestFile> back = manifests(io, source);
      Map<String, ManifestFile> main = manifests(io, staged.base().currentSnapshot());
      Set<String> common = new HashSet<>(back.keySet());
      common.retainAll(main.keySet());
      back.keySet().removeAll(common);
      main.keySet().removeAll(common);
      Set<String> files = new LinkedHashSet<>();
      back.values().forEach(manifest -> addFiles(files, io, specs, manifest));
      Set<String> live = new HashSet<>();
      main.values().forEach(manifest -> addFiles(live, io, specs, manifest));
      files.removeAll(live);
      if (!files.isEmpty()) {
        files.addAll(back.keySet());
      }
      return files;
    } catch (NotFoundException e) {
      throw gone(staged, source, e.getMessage());
    }
  }

  private static Map<String, ManifestFile> manifests(FileIO io, Snapshot snapshot) {
    return snapshot.allManifests(io).stream()
        .collect(Collectors.toMap(ManifestFile::path, Function.identity(), (one, same) -> one));
  }

  private static void addFiles(
      Set<String> paths, FileIO io, Map<Integer, PartitionSpec> specs, ManifestFile manifest) {
    try (CloseableIterable<? extends ContentFile<?>> files =
        manifest.content() == ManifestContent.DELETES
            ? ManifestFiles.readDeleteManifest(manifest, io, specs)
            : ManifestFiles.read(manifest, io, specs)) {
      files.forEach(file -> paths.add(file.location()));
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read " + manifest.path(), e);
    }
  }

  private static void tag(
      StagedTable staged, long source, long readTs, String txnId, long clockMs) {
    String name = TableMark.KEPT_TAG + source + "-" + readTs;
    // An age, or the table's own default, would let one expiry take the tag and what it is for.
    SnapshotRef tag = SnapshotRef.tagBuilder(source).maxRefAgeMs(Long.MAX_VALUE).build();
    TableOperations real = staged.real();
    RuntimeException lost = null;
    for (int tries = 0; tries <= TRIES; tries++) {
      TableMetadata base = real.refresh();
      if (tag.equals(base.ref(name))) {
        return;
      }
      if (base.snapshot(source) == null || tries == TRIES) {
        break;
      }
      try {
        Timestamps.commit(
            real, base, clockMs, seen -> TableMetadata.buildFrom(seen).setRef(name, tag).build());
      } catch (CommitFailedException | CommitStateUnknownException e) {
        lost = e; // whether it stands shows the next look
      }
    }
    String reason =
        String.format(
            "the snapshot %d, whose rows are to come back, could not be tagged: others are writing"
                + " the table, or have expired it",
            source);
    TxnException conflict =
        TxnException.conflict(staged.identifier(), txnId, Winner.NOBODY, readTs, reason);
    if (lost != null) {
      conflict.addSuppressed(lost);
    }
    throw conflict;
  }

  private static void refuseGone(StagedTable staged, Snapshot source, Set<String> files) {
    FileIO io = staged.real().io();
    Tasks.foreach(files)
        .executeWith(ThreadPools.getWorkerPool())
        .stopOnFailure()
        .throwFailureWhenFinished()
        .run(
            path -> {
              if (!io.newInputFile(path).exists()) {
                throw gone(staged, source, path);
              }
            });
  }

  private static TxnException gone(StagedTable staged, Snapshot source, String what) {
    return TxnException.invalidUsage(
        "42704",
        String.format(
            "files of the snapshot are gone, so its rows cannot come back and nothing was"
                + " committed: take another snapshot, or bring the file back from a backup;"
                + " table=`%s` snapshot=`%d` file=`%s`",
            staged.identifier(), source.snapshotId(), what));
  }
}
