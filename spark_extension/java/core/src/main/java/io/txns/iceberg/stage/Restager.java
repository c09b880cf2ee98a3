package io.txns.iceberg.stage;

import static java.util.Collections.disjoint;
import static java.util.stream.Collectors.joining;
import static java.util.stream.Collectors.toMap;
import static java.util.stream.Collectors.toSet;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.meta.FileChanges;
import io.txns.iceberg.meta.WhatHelps;
import io.txns.iceberg.meta.WhatHelps.Clash;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.TableMark;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.EnvironmentContext;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.DataFileSet;
import org.apache.iceberg.util.DeleteFileSet;
import org.apache.iceberg.util.PartitionSet;

/**
 * Rebuilds staged appends on a newer base, or on their own one where they have merged manifests.
 *
 * <p>Data files stay as they are. Snapshots get new ids: a change of another entry may already
 * stand on the old ones (schedule 3 of the protocol's tests).
 */
public final class Restager {
  /** Summary keys that a new snapshot computes for itself. */
  private static final Set<String> COMPUTED_PREFIXES =
      Set.of(
          "added-",
          "total-",
          "changed-",
          "deleted-",
          "removed-",
          "manifests-",
          "entries-",
          "partition-summaries-included",
          "partitions.");

  private static final String ICEBERG_VERSION = "iceberg-version";
  private static final int SHOWN_FILES = 3;

  private Restager() {}

  /**
   * The same appends on {@code newBase}.
   *
   * @param staged only appends ({@link StagedTable#isAppendOnly()}); on its own base inserts do,
   *     too ({@link StagedTable#isInsertOnly()})
   * @throws TxnException 40001 when the table's schema, partition spec or uuid is another one now
   */
  public static StagedTable restage(
      StagedTable staged, TableMetadata newBase, String txnId, Winner winner, long leastTs) {
    if (!isSameShape(staged.base(), newBase)) {
      throw TxnException.conflict(
          staged.identifier(),
          txnId,
          winner,
          leastTs,
          "the table that it appends to has another schema or partitioning now"
              + WhatHelps.words(Clash.ALTERED, newBase));
    }
    StagedTable restaged = new StagedTable(staged.identifier(), staged.real(), newBase, false);
    BaseTable source = new BaseTable(staged.operations(), staged.identifier().toString());
    BaseTable target = new BaseTable(restaged.operations(), staged.identifier().toString());
    for (Snapshot snapshot : staged.snapshots()) {
      AppendFiles append = target.newFastAppend();
      snapshot.summary().forEach((key, value) -> setCallers(append, key, value));
      SnapshotChanges.builderFor(source)
          .snapshot(snapshot)
          .build()
          .addedDataFiles()
          .forEach(append::appendFile);
      append.commit();
    }
    return restaged;
  }

  /** Whether files and filters of a table mean the same in a newer state of it. */
  public static boolean isSameShape(TableMetadata base, TableMetadata newer) {
    return TableNames.uuid(base).equals(TableNames.uuid(newer))
        && base.schema().sameSchema(newer.schema())
        && base.spec().compatibleWith(newer.spec())
        && base.formatVersion() == newer.formatVersion();
  }

  /**
   * The same files added and removed on {@code newer}, as one operation, whatever it took: replayed
   * one by one, its snapshots would remove files that others have removed, or bring back what they
   * have deleted. Where all that it did leaves no file changed, as a DELETE that finds nothing
   * does, that is an empty snapshot: it is said in the log that the table was written, and with
   * what words.
   *
   * @param staged only files ({@link StagedTable#changesOnlyFiles()})
   * @param winner whose it is where that cannot be told
   * @param winners all that have written the table since, by their ids
   * @throws TxnException 40001: somebody else has removed or marked rows of a file that it takes
   *     away, the table has another shape now, or it cannot be made again as one
   */
  public static StagedTable asOne(
      StagedTable staged,
      TableMetadata newer,
      String txnId,
      Winner winner,
      Map<String, Winner> winners,
      long leastTs) {
    FileChanges own = null;
    Optional<Unfit> found;
    try {
      own = changes(staged);
      found = Unfit.of(staged, own, newer);
    } catch (NotFoundException e) {
      found = Unfit.unfit("what it stood on has been expired");
    }
    if (found.isPresent()) {
      String author = found.get().author();
      Winner first = author == null ? winner : winners.getOrDefault(author, Winner.NOBODY);
      throw TxnException.conflict(staged.identifier(), txnId, first, leastTs, found.get().reason());
    }
    StagedTable restaged = new StagedTable(staged.identifier(), staged.real(), newer, false);
    BaseTable target = new BaseTable(restaged.operations(), staged.identifier().toString());
    SnapshotUpdate<?> again =
        staged.compacts() && isRewrite(own)
            ? rewrite(target, own, newer)
            : operation(target, own, newer);
    for (Snapshot snapshot : staged.snapshots()) {
      snapshot.summary().forEach((key, value) -> setCallers(again, key, value));
    }
    again.commit();
    return restaged;
  }

  private static FileChanges changes(StagedTable staged) {
    return FileChanges.between(
        staged.base().currentSnapshot(),
        staged.current().currentSnapshot(),
        staged.real().io(),
        staged.current().specsById());
  }

  private static SnapshotUpdate<?> operation(
      BaseTable target, FileChanges own, TableMetadata newer) {
    if (own.isEmpty()) {
      return target.newFastAppend();
    }
    return own.addedDeletes().isEmpty() ? overwrite(target, own) : rowDelta(target, own, newer);
  }

  /** Whether Iceberg takes it for a compaction: files of a kind come in the place of others. */
  private static boolean isRewrite(FileChanges own) {
    boolean data = !own.removed().isEmpty();
    boolean deletes = !own.removedDeletes().isEmpty();
    return (data || deletes)
        && (data || own.added().isEmpty())
        && (deletes || own.addedDeletes().isEmpty());
  }

  private static RewriteFiles rewrite(BaseTable target, FileChanges own, TableMetadata newer) {
    RewriteFiles again = target.newRewrite();
    again.validateFromSnapshot(newer.currentSnapshot().snapshotId()); // of before it is known
    own.added().forEach(again::addFile);
    own.removed().values().forEach(again::deleteFile);
    own.addedDeletes().forEach(again::addFile);
    own.removedDeletes().forEach(again::deleteFile);
    return again;
  }

  private static OverwriteFiles overwrite(BaseTable target, FileChanges own) {
    OverwriteFiles again = target.newOverwrite();
    own.added().forEach(again::addFile);
    return again.deleteFiles(
        DataFileSet.of(own.removed().values()), DeleteFileSet.of(own.removedDeletes()));
  }

  private static RowDelta rowDelta(BaseTable target, FileChanges own, TableMetadata newer) {
    RowDelta again = target.newRowDelta();
    if (newer.currentSnapshot() != null) {
      again.validateFromSnapshot(newer.currentSnapshot().snapshotId()); // of before it is known
    }
    own.added().forEach(again::addRows);
    own.removed().values().forEach(again::removeRows);
    own.addedDeletes().forEach(again::addDeletes);
    own.removedDeletes().forEach(again::removeDeletes);
    return again;
  }

  private static void setCallers(SnapshotUpdate<?> operation, String key, String value) {
    if (isCallers(key)) {
      operation.set(key, value);
    }
  }

  /**
   * Why something cannot be made again on a newer state.
   *
   * @param reason in words
   * @param author the transaction because of which; empty where it is none, as of a stranger's
   *     compaction; null where nobody knows
   */
  private record Unfit(String reason, String author) {
    static Optional<Unfit> of(StagedTable staged, FileChanges own, TableMetadata newer) {
      if (!isSameShape(staged.base(), newer)) {
        return unfit(
            "the table that it wrote has another schema or partitioning now"
                + WhatHelps.words(Clash.ALTERED, newer));
      }
      boolean isOne = isOneOperation(own) && !bringsBack(staged, own);
      if (own.isEmpty() && isOne) {
        return Optional.empty(); // there is nothing of it that others could have changed
      }
      if (!isOne
          || !hasItsSpecs(own, staged.current(), newer)
          || mayHaveOtherIds(own, staged.base(), newer)) {
        return unfit("a table that it wrote over was written");
      }
      try {
        return since(staged, own, newer);
      } catch (NotFoundException e) {
        return unfit("the table that it wrote has lost the snapshots since");
      }
    }

    private static Optional<Unfit> since(StagedTable staged, FileChanges own, TableMetadata newer) {
      FileIO io = staged.real().io();
      Snapshot stoodOn = staged.base().currentSnapshot();
      Snapshot before = OurSnapshots.lastOnMain(staged.base(), newer);
      boolean isLeftOff = !Objects.equals(before, stoodOn);
      FileChanges theirs =
          FileChanges.between(stoodOn, newer.currentSnapshot(), io, newer.specsById());
      if (isLeftOff) { // what only the compaction has marked stands again, and elsewhere no more
        theirs = theirs.withMarksOfBoth();
      }
      Set<String> all = touched(own, theirs, newer);
      if (all.isEmpty()) {
        return Optional.empty();
      }
      try {
        for (FileChanges.Step step :
            FileChanges.since(newer, before == null ? null : before.snapshotId(), io)) {
          Set<String> touched = touched(own, step.changes().get(), newer);
          if (!touched.isEmpty()) {
            String author = step.snapshot().summary().getOrDefault(TableMark.SNAPSHOT_TXN_ID, "");
            boolean compacted = DataOperations.REPLACE.equals(step.snapshot().operation());
            Clash clash = compacted ? Clash.COMPACTED : Clash.FILES;
            return Optional.of(new Unfit(words(touched, clash, newer), author));
          }
        }
      } catch (FileChanges.HistoryGapException e) {
        return unfit(words(all, Clash.FILES, newer)); // nobody knows whose it was
      }
      return isLeftOff
          ? Optional.of(new Unfit(words(all, Clash.COMPACTED, newer), ""))
          : unfit(words(all, Clash.FILES, newer));
    }

    /**
     * Whether rows that it writes again may have got ids since, in each snapshot on what had none
     * others (docs/spec.md 8.2): it has read those of a compaction that main has left off.
     */
    private static boolean mayHaveOtherIds(
        FileChanges own, TableMetadata base, TableMetadata newer) {
      Snapshot before = OurSnapshots.lastOnMain(base, newer);
      return !(own.removed().isEmpty() && own.addedDeletes().isEmpty())
          && !Objects.equals(before, base.currentSnapshot())
          && newer.formatVersion() >= 3
          && before.firstRowId() == null;
    }

    private static Optional<Unfit> unfit(String reason) {
      return Optional.of(new Unfit(reason, null));
    }

    /**
     * Whether one operation does the same. Files of several steps get one sequence number then:
     * what an equality delete of a later step takes from a file of an earlier one it would leave,
     * and it would take what others have added since. Operations know files by their paths.
     */
    private static boolean isOneOperation(FileChanges own) {
      Set<String> added = new HashSet<>(own.removed().keySet());
      return own.added().stream().allMatch(file -> added.add(file.location()))
          && own.deletes().stream()
              .noneMatch(each -> each.content() == FileContent.EQUALITY_DELETES);
    }

    /**
     * Whether it has added a file that it took away before. Its path is where it was, so that it
     * has neither come nor left, and yet what is in it is newer: older deletes do not take its rows
     * any more.
     */
    private static boolean bringsBack(StagedTable staged, FileChanges own) {
      Set<String> came = own.added().stream().map(DataFile::location).collect(toSet());
      long before = staged.base().lastSequenceNumber();
      return FileChanges.dataFiles(
              staged.base().currentSnapshot(),
              staged.current().currentSnapshot(),
              staged.real().io(),
              staged.current().specsById())
          .stream()
          .anyMatch(each -> each.dataSequenceNumber() > before && !came.contains(each.location()));
    }

    /** Whether the specs of files are the same in a newer state. */
    private static boolean hasItsSpecs(FileChanges own, TableMetadata was, TableMetadata newer) {
      return Stream.concat(own.files().stream(), own.deletes().stream())
          .map(ContentFile::specId)
          .distinct()
          .allMatch(id -> Objects.equals(was.spec(id), newer.spec(id)));
    }

    /** Files that both have taken away or marked, or of whose marked rows others made others. */
    private static Set<String> touched(FileChanges own, FileChanges theirs, TableMetadata newer) {
      Map<Integer, PartitionSpec> specs = newer.specsById();
      Set<String> touched = new LinkedHashSet<>();
      Set<String> came = theirs.added().stream().map(ContentFile::location).collect(toSet());
      Set<String> unmarked = marked(theirs.removedDeletes());
      for (DataFile file : own.removed().values()) {
        String path = file.location();
        boolean marked =
            unmarked.contains(path)
                || theirs.addedDeletes().stream()
                    .anyMatch(each -> FileChanges.reaches(each, file, specs));
        boolean moved = theirs.removed().containsKey(path) || came.contains(path);
        if (marked || moved) {
          touched.add(path);
        }
      }
      for (DeleteFile marks : own.addedDeletes()) {
        theirs.files().stream()
            .filter(file -> FileChanges.reaches(marks, file, specs))
            .forEach(file -> touched.add(file.location()));
        boolean beside =
            theirs.addedDeletes().stream().anyMatch(each -> meet(marks, each, specs))
                || !disjoint(unmarked, marked(List.of(marks)));
        if (beside) {
          touched.add(marks.location());
        }
      }
      for (DeleteFile marks : own.removedDeletes()) {
        theirs.removedDeletes().stream()
            .filter(each -> isSame(marks, each))
            .forEach(each -> touched.add(each.location()));
      }
      return touched;
    }

    /** Whether two are one: the deletion vectors of several data files share one file. */
    private static boolean isSame(DeleteFile one, DeleteFile other) {
      return one.location().equals(other.location())
          && Objects.equals(
              ContentFileUtil.referencedDataFileLocation(one),
              ContentFileUtil.referencedDataFileLocation(other));
    }

    /** The data files that delete files name. */
    private static Set<String> marked(List<DeleteFile> deletes) {
      return deletes.stream()
          .map(ContentFileUtil::referencedDataFileLocation)
          .filter(Objects::nonNull)
          .collect(toSet());
    }

    /** Whether two delete files may mark rows of one data file. */
    private static boolean meet(
        DeleteFile one, DeleteFile other, Map<Integer, PartitionSpec> specs) {
      String marked = ContentFileUtil.referencedDataFileLocation(one);
      String theirs = ContentFileUtil.referencedDataFileLocation(other);
      if (marked != null && theirs != null) {
        return marked.equals(theirs);
      }
      if (FileChanges.isGlobal(one, specs) || FileChanges.isGlobal(other, specs)) {
        return true;
      }
      PartitionSet partition = PartitionSet.create(specs);
      partition.add(one.specId(), one.partition());
      return partition.contains(other.specId(), other.partition());
    }

    private static String words(Set<String> touched, Clash clash, TableMetadata newer) {
      String done = clash == Clash.COMPACTED ? "compacted" : "changed";
      String shown = touched.stream().sorted().limit(SHOWN_FILES).collect(joining(", "));
      int more = touched.size() - SHOWN_FILES;
      return String.format("files that it replaced, removed or marked were %s by others (", done)
          + (more > 0 ? shown + " and " + more + " more" : shown)
          + ")"
          + WhatHelps.words(clash, newer);
    }
  }

  /** The keys of a snapshot's summary that it has not computed for itself, with what they say. */
  public static Map<String, String> ownWords(Snapshot snapshot) {
    return snapshot.summary().entrySet().stream()
        .filter(word -> !isComputed(word.getKey()))
        .collect(toMap(Map.Entry::getKey, Map.Entry::getValue));
  }

  private static boolean isComputed(String key) {
    return COMPUTED_PREFIXES.stream().anyMatch(key::startsWith);
  }

  /** Iceberg itself says in each snapshot which process has made it. */
  private static boolean isCallers(String key) {
    return !isComputed(key)
        && !ICEBERG_VERSION.equals(key)
        && !EnvironmentContext.get().containsKey(key);
  }
}
