package io.txns.iceberg.commit;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Permitted;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.ColumnIds;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.Restager;
import io.txns.iceberg.stage.StagedFiles;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongPredicate;
import java.util.stream.Collectors;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.EnvironmentContext;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/**
 * Makes what strangers appended to a table an entry of its own (docs/spec.md 9.3). Here the entry
 * is prepared; who has it committed is the caller's affair.
 */
public final class Adoption {
  private static final TxnLogger LOG = TxnLogger.of(Adoption.class);

  private final CommitLog log;
  private final Timeline timeline;
  private final DataTables tables;
  private final WriteChecks checks;
  private final Applier applier;
  private final TxnClock clock;

  /**
   * Heads of branches whose rows a person has set aside, as far as this process has looked at them.
   */
  private final Set<Long> left = ConcurrentHashMap.newKeySet();

  public Adoption(
      CommitLog log,
      Timeline timeline,
      DataTables tables,
      WriteChecks checks,
      Applier applier,
      TxnClock clock) {
    this.log = log;
    this.timeline = timeline;
    this.tables = tables;
    this.checks = checks;
    this.applier = applier;
    this.clock = clock;
  }

  /** A table as of the upper of a head. */
  public record Newest(Head head, Loaded loaded) {}

  /**
   * Whether a table that was loaded may show rows that are to be adopted before it is written.
   *
   * @param metadata the catalog's own, of a table under care; null for one that is not created yet
   */
  public boolean isDue(TableMetadata metadata) {
    Optional<TableMark> mark = metadata == null ? Optional.empty() : TableMark.of(metadata);
    Snapshot main = metadata == null ? null : metadata.currentSnapshot();
    if (mark.isEmpty() || main == null) {
      return false;
    }
    if (!OurSnapshots.isOurs(main)
        && LoggedState.of(metadata, mark.get(), List.of())
            .stranger()
            .filter(Stranger::adoptable)
            .isPresent()) {
      return true;
    }
    return metadata.refs().entrySet().stream()
        .anyMatch(
            ref ->
                ref.getKey().startsWith(TableMark.FOREIGN_BRANCH)
                    && !left.contains(ref.getValue().snapshotId()));
  }

  /**
   * Prepare the adoption of what strangers have appended to a table: what stands on {@code main},
   * or what an apply has put on a branch. Not what a person has rejected, and not what does more
   * than append.
   *
   * @return empty where there is nothing of the kind
   * @throws TxnException 0A000 where it has other columns than the log; 55000 where no repair ends
   *     what was done to the table
   */
  Optional<CommitRequest> due(TableIdentifier identifier) {
    Newest newest = newest(identifier);
    Loaded loaded = newest.loaded();
    if (!loaded.registered() || loaded.dropped() || newest.head().state().off()) {
      return Optional.empty();
    }
    if (loaded.stranger().isEmpty()) {
      return loaded.table() == null ? Optional.empty() : ofKept(newest);
    }
    return loaded
        .stranger()
        .filter(Stranger::adoptable)
        .map(stranger -> ofAppend(loaded, markedAgain(loaded), stranger));
  }

  /** What an apply has put on a branch. What cannot be adopted of that is in nobody's way. */
  private Optional<CommitRequest> ofKept(Newest newest) {
    Loaded loaded = newest.loaded();
    while (true) {
      StagedTable staged = markedAgain(loaded);
      Stranger kept = onBranch(loaded, staged, head -> isKept(newest, head));
      if (kept == null) {
        return Optional.empty();
      }
      try {
        return Optional.of(ofAppend(loaded, staged, kept));
      } catch (TxnException e) {
        if (e.kind() != ErrorKind.UNSUPPORTED) {
          throw e;
        }
        leave(loaded, kept.headSnapshotId(), e.getMessage());
      }
    }
  }

  /** It is a person's affair from now on, who is told once. */
  private void leave(Loaded loaded, long keptHead, String why) {
    if (left.add(keptHead)) {
      LOG.warn(LogFields.of(loaded.identifier()), "not adopted: {}", why);
    }
  }

  /** Whether an apply has kept a branch that may be adopted; others are not looked at again. */
  private boolean isKept(Newest newest, long keptHead) {
    Loaded loaded = newest.loaded();
    TableMetadata metadata = loaded.real().current();
    if (left.contains(keptHead)) {
      return false;
    }
    Optional<Stranger> stranger = Stranger.above(metadata, keptHead);
    if (stranger.isEmpty() || !isKeptByApply(newest.head(), metadata, keptHead)) {
      if (TableMark.applied(metadata) <= newest.head().upper()) { // else a newer head may tell
        left.add(keptHead);
      }
      return false;
    }
    String reason = notAdoptable(metadata, stranger.get(), keptHead);
    if (reason != null) {
      leave(loaded, keptHead, refusal(loaded, TableMark.FOREIGN_BRANCH + keptHead, reason));
    }
    return reason == null;
  }

  /**
   * Whether a change that was applied has taken {@code main} off a stranger's head. A repair has
   * put it aside otherwise: then somebody has decided that it is not to be seen. Where nobody can
   * tell any more, it is left to a person as well.
   */
  private boolean isKeptByApply(Head head, TableMetadata metadata, long keptHead) {
    Snapshot by = null;
    boolean next = false;
    for (HistoryEntry entry : metadata.snapshotLog()) {
      by = next ? metadata.snapshot(entry.snapshotId()) : by;
      next = entry.snapshotId() == keptHead;
    }
    if (by == null || !OurSnapshots.isOurs(by)) {
      return false;
    }
    long commitTs = OurSnapshots.commitTs(by);
    String txnId = by.summary().getOrDefault(TableMark.SNAPSHOT_TXN_ID, "");
    Set<EntryKind> kinds =
        timeline.under(head.state(), txnId, commitTs - 1).stream()
            .filter(entry -> entry.commitTs() == commitTs)
            .map(Entry::kind)
            .collect(Collectors.toSet());
    return !kinds.isEmpty()
        && !kinds.contains(EntryKind.REPAIR)
        && !isRejected(head, metadata, keptHead);
  }

  /** Whether a person has rejected it, which is applied after what was outstanding then. */
  private boolean isRejected(Head head, TableMetadata metadata, long keptHead) {
    Snapshot below = Stranger.standsOn(metadata, keptHead);
    if (below == null || !OurSnapshots.isOurs(below)) {
      return false;
    }
    long applied = OurSnapshots.commitTs(below);
    String txnId = repairId("reject", TableNames.uuid(metadata), keptHead, applied);
    return !timeline.under(head.state(), txnId, applied).isEmpty();
  }

  /**
   * A table as of the newest head; what is outstanding comes first.
   *
   * @throws TxnException 55000 where no repair ends what was done to it
   */
  public Newest newest(TableIdentifier identifier) {
    Head head = log.loadIfExists();
    if (head.exists() && !applier.apply(head, identifier)) {
      LOG.info(LogFields.of(identifier), "entries stay unapplied before a repair");
    }
    Head newest = log.loadIfExists();
    Loaded loaded = tables.loadWithDropped(identifier, newest, newest.upper());
    Optional<Stranger> stranger = loaded.stranger();
    if (stranger.isPresent() && stranger.get().cure() != null) {
      throw stranger.get().quarantined(identifier);
    }
    if (loaded instanceof Loaded.Viewed) {
      checks.refuseElsewhere(loaded);
    }
    return new Newest(newest, loaded);
  }

  /** A table staged for its repair, with the mark that a stranger took. */
  public StagedTable markedAgain(Loaded loaded) {
    StagedTable staged = StagedTable.of(loaded);
    TableMetadata base = staged.current();
    if (loaded.registered() && TableMark.of(base).isEmpty()) {
      Map<String, String> mark =
          new HashMap<>(
              TableMark.properties(log.identifier(), log.load().logId(), TableNames.uuid(base)));
      mark.putAll(Retention.properties(base.properties()));
      staged.stage(base, TableMetadata.buildFrom(base).setProperties(mark).build());
    }
    return staged;
  }

  /**
   * A stranger that was put on a branch, which goes when its rows are taken in.
   *
   * @return null where a stranger stands on main, or none is left
   * @throws TxnException 0A000 where all that is left cannot be adopted
   */
  public static Stranger onBranch(Loaded loaded, StagedTable staged) {
    return onBranch(loaded, staged, head -> true);
  }

  private static Stranger onBranch(Loaded loaded, StagedTable staged, LongPredicate wanted) {
    if (!loaded.registered() || loaded.stranger().isPresent()) {
      return null;
    }
    TableMetadata metadata = staged.current();
    String refused = null;
    for (Map.Entry<String, SnapshotRef> ref : branches(metadata)) {
      long head = ref.getValue().snapshotId();
      Optional<Stranger> stranger =
          wanted.test(head) ? Stranger.above(metadata, head) : Optional.empty();
      if (stranger.isEmpty()) {
        continue;
      }
      String reason = notAdoptable(metadata, stranger.get(), head);
      if (reason == null) {
        staged.stage(metadata, TableMetadata.buildFrom(metadata).removeRef(ref.getKey()).build());
        return stranger.get();
      }
      refused = refused == null ? refusal(loaded, ref.getKey(), reason) : refused;
    }
    if (refused != null) {
      throw TxnException.unsupported(refused);
    }
    return null;
  }

  /** Where strangers may be kept, the oldest first: programs look from main down for their last. */
  private static List<Map.Entry<String, SnapshotRef>> branches(TableMetadata metadata) {
    Comparator<Map.Entry<String, SnapshotRef>> byNumber =
        Comparator.comparingLong(
            ref -> {
              Snapshot head = metadata.snapshot(ref.getValue().snapshotId());
              return head == null ? 0 : head.sequenceNumber();
            });
    return metadata.refs().entrySet().stream()
        .filter(ref -> ref.getKey().startsWith(TableMark.FOREIGN_BRANCH))
        .sorted(byNumber.thenComparing(Map.Entry::getKey))
        .toList();
  }

  private static String refusal(Loaded loaded, String branch, String reason) {
    return String.format(
        "what the branch %s holds %s: put it back by hand and drop the branch; table=`%s`",
        branch, reason, loaded.identifier());
  }

  /** Why nothing is adopted from a branch; null where it is. */
  private static String notAdoptable(TableMetadata metadata, Stranger stranger, long head) {
    if (Stranger.isCutOff(metadata, head)) {
      return "stands on nothing that is known";
    }
    if (Stranger.isOfDropped(metadata, head)) {
      return "belongs to the table that was dropped before this one was created";
    }
    return stranger.adoptable() ? null : "does more than append";
  }

  /**
   * Stage the strangers' files after the newest change, and give what commits that.
   *
   * <p>To Iceberg each of their snapshots is cherry-picked: an expiry up to 1.9 would delete the
   * files of one that is beside main's history, if no snapshot of that named it as its source. Each
   * keeps its own words, too: programs find there how far they have come, look for it below {@code
   * main} when they begin again, and there may be several of one kind.
   *
   * @throws TxnException 0A000 where a column of the log is another one in them
   */
  public CommitRequest ofAppend(Loaded loaded, StagedTable staged, Stranger stranger) {
    Table source = loaded.table();
    List<Snapshot> picked =
        new ArrayList<>(stranger.snapshotIds().stream().map(source::snapshot).toList());
    Collections.reverse(picked); // the oldest first
    picked.forEach(theirs -> checkColumns(staged, source, theirs));
    try {
      picked.forEach(theirs -> pick(staged, source, theirs));
    } catch (RuntimeException e) {
      StagedFiles.metadataOf(staged).delete();
      throw e;
    }
    return request(EntryKind.ADOPT, "adopt", loaded, staged, stranger, Map.of());
  }

  /** Stage what one snapshot of a stranger has appended, with its words. */
  private static void pick(StagedTable staged, Table source, Snapshot theirs) {
    List<Map<String, String>> words = words(theirs);
    if (words.size() > 1) {
      stage(staged, appendTo(staged), words.get(0));
    }
    AppendFiles append = appendTo(staged);
    SnapshotChanges.builderFor(source)
        .snapshot(theirs)
        .build()
        .addedDataFiles()
        .forEach(append::appendFile);
    stage(staged, append, words.get(words.size() - 1));
  }

  private static AppendFiles appendTo(StagedTable staged) {
    return new BaseTable(staged.operations(), staged.identifier().toString()).newFastAppend();
  }

  /** What the snapshots say that stand for one of a stranger, the oldest first. */
  static List<Map<String, String>> words(Snapshot theirs) {
    List<Map<String, String>> all = new ArrayList<>();
    Map<String, String> words = new HashMap<>(Restager.ownWords(theirs));
    words.keySet().removeIf(key -> key.startsWith(Permitted.PREFIX));
    String before = words.get(SnapshotSummary.SOURCE_SNAPSHOT_ID_PROP);
    if (before != null) { // it was a cherry-pick itself
      all.add(Map.of(SnapshotSummary.SOURCE_SNAPSHOT_ID_PROP, before));
    }
    String taken = Long.toString(theirs.snapshotId());
    words.put(SnapshotSummary.SOURCE_SNAPSHOT_ID_PROP, taken);
    words.put(TableMark.SNAPSHOT_ADOPTED, taken);
    all.add(words);
    return all;
  }

  /**
   * Stage an append with some words: which engine has written its rows is the stranger's to say.
   */
  private static void stage(StagedTable staged, AppendFiles append, Map<String, String> words) {
    TableMetadata base = staged.current();
    Snapshot said =
        SnapshotEdit.of(append.apply())
            .without(EnvironmentContext.get().keySet())
            .summary(words)
            .build();
    staged.stage(
        base,
        TableMetadata.buildFrom(base).setBranchSnapshot(said, SnapshotRef.MAIN_BRANCH).build());
  }

  /** Refuse files in which the id of a column stands for something else in the log. */
  private static void checkColumns(StagedTable staged, Table source, Snapshot foreign) {
    Schema theirs = foreign.schemaId() == null ? null : source.schemas().get(foreign.schemaId());
    if (theirs == null) {
      return;
    }
    Schema logged = staged.current().schema();
    Map<Integer, Types.NestedField> written = TypeUtil.indexById(theirs.asStruct());
    TypeUtil.indexById(logged.asStruct())
        .forEach(
            (id, field) -> {
              Types.NestedField other = written.get(id);
              if (other == null) {
                return;
              }
              String ours = logged.findColumnName(id);
              String name = theirs.findColumnName(id);
              if (!ours.equals(name)) {
                throw otherColumn(staged, ours, name);
              }
              if (!ColumnIds.readsAs(other.type(), field.type())) {
                throw otherColumn(staged, ours + " " + field.type(), name + " " + other.type());
              }
            });
  }

  private static TxnException otherColumn(StagedTable staged, String ours, String theirs) {
    return TxnException.unsupported(
        String.format(
            "the column `%s` of the log is `%s` in what was written: use action => 'reject', put"
                + " what is on the branch back by hand, and drop the branch; table=`%s`",
            ours, theirs, staged.identifier()));
  }

  /** What commits a repair that is staged: whoever does the same makes the same entry. */
  public CommitRequest request(
      EntryKind kind,
      String deed,
      Loaded loaded,
      StagedTable staged,
      Stranger stranger,
      Map<String, String> marks) {
    // Of the table, not of the view: whoever comes before a repair is applied makes the same.
    // It may be set back twice to the same metadata, from another place each time.
    long applied = loaded.table() == null ? 0 : TableMark.applied(loaded.real().current());
    applied = stranger.lost() == null ? applied : stranger.lost().upto();
    long head = stranger.headSnapshotId() == null ? 0 : stranger.headSnapshotId();
    String txnId = repairId(deed, TableNames.uuid(staged.base()), head, applied);
    // Who has adopted the same stands above what the table showed: no older rows are asked.
    long sinceTs = kind == EntryKind.ADOPT ? applied : 0;
    return new CommitRequest(
        kind,
        new CommitGroup.Key(txnId, sinceTs, CommitGroup.Origin.DERIVED),
        loaded.readTs(),
        clock.nowMs(),
        Isolation.SNAPSHOT,
        "",
        new ReadSet(),
        false,
        Map.of(loaded.identifier(), staged),
        marks,
        new Leftovers(log),
        CommitRequest.ALLOWED);
  }

  private static String repairId(String deed, String uuid, long head, long applied) {
    return Entry.derivedId(deed, uuid, head + ":" + applied);
  }

  /** The summary keys that name what an adoption takes in, and what it gives up. */
  public static Map<String, String> takenIn(Stranger stranger) {
    String ids = stranger.takenIn().stream().map(String::valueOf).collect(Collectors.joining(","));
    Map<String, String> marks = new HashMap<>();
    if (!ids.isEmpty()) {
      marks.put(TableMark.SNAPSHOT_ADOPTED, ids);
    }
    if (stranger.lost() != null) {
      marks.put(TableMark.SNAPSHOT_LOST_ABOVE, Long.toString(stranger.lost().above()));
    }
    return marks;
  }
}
