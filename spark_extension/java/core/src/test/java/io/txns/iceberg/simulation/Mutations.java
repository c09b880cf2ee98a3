package io.txns.iceberg.simulation;

import static io.txns.iceberg.simulation.Mutation.NOTHING;
import static io.txns.iceberg.simulation.Mutation.answer;
import static io.txns.iceberg.simulation.Mutation.call;
import static io.txns.iceberg.simulation.Mutation.method;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.admin.Purger;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitRequest;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.simulation.Mutation.Original;
import io.txns.iceberg.simulation.Mutation.Target;
import io.txns.iceberg.stage.SnapshotCopy;
import io.txns.iceberg.stage.StagedFiles;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.Replay;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;

/** Protections of the Java core taken away on purpose, one at a time; docs/simulation.md. */
final class Mutations {
  /** Which of them a JVM has; none without it. */
  static final String PROPERTY = "txns.simulation.mutation";

  /** All targets of all of them, each as it is: to see which are asked. */
  static final String WATCHED = "watched";

  private static final String DUE_CHANGES = "List changes(Head, TableIdentifier, TableOperations)";
  private static final String DUE_WHOLE =
      "TableOperations whole(TableIdentifier, LoggedChange, Head)";
  private static final String APPLIED = "TableMark: long applied(TableMetadata)";
  private static final String RESTAGED =
      "StagedTable restaged(CommitRequest, Head, StagedTable, Map, Leftovers)";
  private static final String SET_PROPERTIES =
      "TableMetadata.Builder: TableMetadata.Builder setProperties(Map)";

  /** The drafts' own check, and the log's, which would refuse what several of these write. */
  static final Target DRAFTS_UNCHECKED =
      method("commit.Drafts", "void checkKeepsInvariants(Entry)", NOTHING);

  static final Target LOG_UNCHECKED = method("log.LogState", "void validate()", NOTHING);

  private static final List<Mutation> OF_THE_PROTOCOL =
      List.of(
          Mutation.of(
              "swap_on_another_head",
              "an entry replaces the head that it was validated against (I1)",
              method(
                  "log.CommitLog",
                  "Swap append(Head, List)",
                  (append, a) -> append.of(a[0], ((CommitLog) a[0]).load(), a[2]))),
          Mutation.of(
              "applied_by_snapshot_id",
              "txns.applied says what is applied, not the presence of a snapshot (I4)",
              method(
                  "commit.Applier",
                  "boolean isMoot(LoggedChange, TableIdentifier, TableMetadata)",
                  (original, a) -> hasSnapshot((TableMetadata) a[3], (LoggedChange) a[1])),
              call(
                  "commit.Applier",
                  "TableMark markToApply(LoggedChange, TableIdentifier, TableMetadata, boolean)",
                  APPLIED,
                  answer(0L)),
              call(
                  "commit.Applier",
                  "void keepReachable(TableIdentifier, List)",
                  APPLIED,
                  answer(0L)),
              call("commit.DueTables", DUE_WHOLE, APPLIED, answer(0L)),
              call(
                  "commit.DueTables",
                  "boolean isOlder(TableMetadata, Head)",
                  "TableMark: List outstanding(TableMetadata, Head)",
                  (original, a) -> changes((TableMetadata) a[0], (Head) a[1]))),
          Mutation.of(
              "apply_out_of_order",
              "entries are applied in the order of the log (I5)",
              method("commit.DueTables", DUE_CHANGES, (run, a) -> reversed(run.of(a)))),
          Mutation.of(
              "apply_skips_one",
              "every entry is applied (I5)",
              method("commit.DueTables", DUE_CHANGES, (run, a) -> lastOnly((List<?>) run.of(a)))),
          Mutation.of(
              "apply_over_strangers",
              "what strangers appended below a run is kept on a branch (9.3)",
              method(
                  "table.ForeignBranches",
                  "void keep(TableMetadata.Builder, TableMetadata, long)",
                  NOTHING)),
          Mutation.of(
              "apply_past_quarantine",
              "nothing is applied to what strangers overwrote or altered (9.2)",
              method(
                  "commit.Applier",
                  "TableOperations tryApply(LoggedChange, TableIdentifier, TableOperations, Head,"
                      + " boolean)",
                  (tryApply, a) -> tryApply.of(a[0], a[1], a[2], a[3], a[4], true))),
          Mutation.of(
              "tidy_before_apply",
              "an entry leaves the head when every table shows it (I6)",
              method("commit.AppliedTo", "boolean everywhere(Entry)", answer(true))),
          Mutation.of(
              "look_up_forgotten",
              "after a lost answer the id is looked up before another attempt (I8)",
              method("log.Timeline", "List under(LogState, String, long)", answer(List.of()))),
          Mutation.of(
              "maybe_called_refused",
              "an unknown outcome is told as one (I8)",
              method(
                  "TxnException",
                  "TxnException commitStateUnknown(String, Throwable)",
                  (original, a) -> conflict((String) a[0]))),
          Mutation.of(
              "read_check_dropped",
              "what was read is validated (I9)",
              method("Isolation", "boolean validatesReads()", answer(false))),
          Mutation.of(
              "write_check_dropped",
              "what was written over is validated: whoever comes last does not win (I9)",
              method(
                  "commit.ConflictChecker",
                  "String writeClash(Entry, Change)",
                  (clash, a) -> butForWrittenOver((String) clash.of(a))),
              call(
                  "commit.Validation",
                  RESTAGED,
                  "StagedTable: boolean isAppendOnly()",
                  answer(true)),
              method(
                  "stage.Restager",
                  "StagedTable restage(StagedTable, TableMetadata, String, Winner, long)",
                  Mutations::onTop)),
          Mutation.of(
              "conditional_write_counts_as_append",
              "a write that found nothing to replace clashes with whoever writes the table (I9)",
              method("stage.ReadSet", "boolean hasConditionalWrite(Change)", answer(false))),
          Mutation.of(
              "absence_check_dropped",
              "of two who create one name one commits (I9)",
              method(
                  "commit.ConflictChecker",
                  "String clash(Entry, Change)",
                  (clash, a) ->
                      ((Change) a[2]).operation() == Operation.CREATE ? null : clash.of(a)),
              method(
                  "commit.Validation",
                  RESTAGED,
                  (restaged, a) -> ((StagedTable) a[3]).isCreate() ? a[3] : restaged.of(a))),
          Mutation.of(
              "everything_clashes",
              "a conflict names what has clashed: no other promise is broken (11.1)",
              method(
                  "commit.ConflictChecker",
                  "String clash(Entry, Change)",
                  answer("something was written"))),
          Mutation.of(
              "tidied_upto_ignored",
              "what has left the head since is validated, too (I6)",
              method(
                  "log.Timeline",
                  "List above(LogState, long)",
                  (above, a) -> ((LogState) a[1]).after((Long) a[2]))),
          Mutation.of(
              "restage_under_the_same_id",
              "what is put on other rows gets another id (schedule 3)",
              method(
                  "commit.Applier",
                  "Replay.Renumber onStorage(LoggedChange, UpdateTableRequest, TableOperations, boolean)",
                  (onStorage, a) -> onStrangersRows((TableOperations) a[3]))),
          Mutation.of(
              "restage_forgotten",
              "an append is committed on the newest base (I3)",
              method("commit.Validation", RESTAGED, (restaged, a) -> a[3]),
              DRAFTS_UNCHECKED,
              LOG_UNCHECKED),
          Mutation.of(
              "overlay_forgotten",
              "readers see what is not applied (I10)",
              method(
                  "table.Overlay",
                  "TableView asOf(TableIdentifier, TableMetadata, TableMark, List,"
                      + " Overlay.Requests, long, long)",
                  (asOf, a) -> asOf.of(a[0], a[1], a[2], List.of(), a[4], a[5], a[6]))),
          Mutation.of(
              "newest_read",
              "tables are read as of read_ts (I10)",
              method(
                  "table.DataTables",
                  "Loaded loadWithDropped(TableIdentifier, Head, long)",
                  (load, a) -> load.of(a[0], a[1], a[2], ((Head) a[2]).upper()))),
          Mutation.of(
              "strangers_seen_at_once",
              "what strangers appended is seen when it is adopted (I10)",
              call(
                  "table.Overlay",
                  "TableView asOf(TableIdentifier, TableMetadata, TableMark, List,"
                      + " Overlay.Requests, long, long)",
                  "LoggedState: LoggedState of(TableMetadata, TableMark, List)",
                  (of, a) -> withStrangers((TableMetadata) a[0], (LoggedState) of.of(a)))),
          Mutation.of(
              "applied_not_set",
              "txns.applied is set in the swap that applies (I4)",
              call(
                  "table.Replay",
                  "TableMetadata replay(TableMetadata, LoggedChange, UpdateTableRequest, long,"
                      + " Replay.Renumber, Set, Consumer)",
                  SET_PROPERTIES,
                  (setProperties, a) -> a[0]),
              call(
                  "table.Replay",
                  "TableMetadata create(LoggedChange, UpdateTableRequest, long)",
                  SET_PROPERTIES,
                  (setProperties, a) -> a[0])),
          Mutation.of(
              "renumbering_forgotten",
              "a renumbered snapshot has a manifest list with its numbers (8.2)",
              method(
                  "commit.Applier",
                  "Replay.Renumber onStorage(LoggedChange, UpdateTableRequest, TableOperations, boolean)",
                  (onStorage, a) -> Replay.Renumber.IN_MEMORY)),
          Mutation.of(
              "ids_as_staged",
              "a schema that a change names has the id that it has in the table (7)",
              method(
                  "meta.FreeIds",
                  "UpdateTableRequest in(TableMetadata, UpdateTableRequest, Long)",
                  (in, a) -> in.of(a[0], a[1], null))),
          Mutation.of(
              "row_ids_as_staged",
              "rows of format 3 keep the ids that apply has given them (8.2)",
              method(
                  "commit.Applier",
                  "Replay.Renumber onStorage(LoggedChange, UpdateTableRequest, TableOperations, boolean)",
                  (onStorage, a) -> withoutParents((Replay.Renumber) onStorage.of(a)))),
          Mutation.of(
              "commit_ts_of_the_clock",
              "commit_ts is above the upper, whatever the clock says (I1)",
              method(
                  "commit.Drafts",
                  "long nextTs()",
                  (nextTs, a) -> SimulatedThread.current().nowMs()),
              DRAFTS_UNCHECKED),
          Mutation.of(
              "files_removed_after_a_maybe",
              "what may have committed keeps its files (I8)",
              method(
                  "commit.Committer", "Committed commit(CommitRequest)", Mutations::removingFiles)),
          Mutation.of(
              "conflict_without_abort",
              "a conflict under a caller's own id is told when an abort stands there (I8)",
              call(
                  "commit.Drafts",
                  "void refuse(CommitGroup.Member, RuntimeException)",
                  "CommitGroup.Key: CommitGroup.Origin origin()",
                  (origin, a) -> CommitGroup.Origin.FRESH)),
          Mutation.of(
              "register_without_applied",
              "a registration says what was applied before (schedule 18)",
              method(
                  "commit.Registrar",
                  "Map registrationProperties(TableIdentifier, String, String, long, Map)",
                  (properties, a) -> withoutApplied((Map<?, ?>) properties.of(a)))),
          Mutation.of(
              "purge_without_claim",
              "who purges claims the table in the log, where it clashes with who creates it (6.8)",
              method(
                  "admin.Purger",
                  "String claim(TableIdentifier, String)",
                  (claim, a) -> unlogged((Purger) a[0], (TableIdentifier) a[1]))),
          Mutation.of(
              "registered_once",
              "the newest mark of a table is its mark",
              call(
                  "commit.Registrar",
                  "Snapshot markSnapshot(TableMetadata)",
                  "TableMetadata: List snapshots()",
                  (snapshots, a) -> reversed(snapshots.of(a)))));

  private static final Map<String, Mutation> BY_NAME = new LinkedHashMap<>();

  static {
    Stream.of(
            OF_THE_PROTOCOL,
            MutationsOfLoads.ALL,
            MutationsOfGroups.ALL,
            MutationsOfBirths.ALL,
            MutationsOfForgeries.ALL,
            MutationsOfMeetings.ALL)
        .flatMap(List::stream)
        .forEach(
            one -> {
              if (BY_NAME.put(one.name(), one) != null) {
                throw new IllegalStateException("twice: " + one.name());
              }
            });
  }

  private Mutations() {}

  static List<Mutation> all() {
    return List.copyOf(BY_NAME.values());
  }

  /** The targets of what this JVM is to run with. */
  static List<Target> running() {
    return targets(System.getProperty(PROPERTY));
  }

  /**
   * The targets of a mutation.
   *
   * @param name null for none
   */
  static List<Target> targets(String name) {
    if (name == null) {
      return List.of();
    }
    if (name.equals(WATCHED)) {
      Map<String, Target> watched = new LinkedHashMap<>();
      all().stream()
          .flatMap(one -> one.targets().stream())
          .forEach(target -> watched.put(target.key(), asItIs(target)));
      return List.copyOf(watched.values());
    }
    Mutation one = BY_NAME.get(name);
    if (one == null) {
      throw new IllegalArgumentException("no such mutation: " + name);
    }
    return one.targets();
  }

  /** The one of them that is known by a key. */
  static Target running(String key) {
    return running().stream()
        .filter(target -> target.key().equals(key))
        .findFirst()
        .orElseThrow(() -> new IllegalStateException("no such target: " + key));
  }

  private static Target asItIs(Target target) {
    return new Target(
        target.className(), target.method(), target.called(), (original, a) -> original.of(a));
  }

  // ------------------------------------------------------------ bodies of more than a line

  private static List<?> reversed(Object list) {
    List<Object> reversed = new ArrayList<>((List<?>) list);
    Collections.reverse(reversed);
    return reversed;
  }

  private static List<?> lastOnly(List<?> run) {
    return run.subList(Math.max(0, run.size() - 1), run.size());
  }

  private static boolean hasSnapshot(TableMetadata metadata, LoggedChange logged) {
    Long to = logged.change().toSnapshotId();
    return to != null && metadata.snapshot(to) != null;
  }

  /** What a head holds for a table, whatever has been applied of it. */
  private static List<LoggedChange> changes(TableMetadata metadata, Head head) {
    return head.state().changes(metadata.uuid(), 0, head.upper());
  }

  private static TxnException conflict(String txnId) {
    TableIdentifier nowhere = TableIdentifier.of("txns", "commits");
    return TxnException.conflict(nowhere, txnId, Winner.NOBODY, 0, "no answer");
  }

  private static String butForWrittenOver(String reason) {
    boolean over = reason != null && reason.startsWith("a table that it wrote over was written");
    return over ? null : reason;
  }

  /** The rows of whoever comes last, on a base that has others. */
  private static Object onTop(Original restage, Object[] a) throws Throwable {
    StagedTable staged = (StagedTable) a[0];
    if (staged.isAppendOnly()) {
      return restage.of(a);
    }
    TableMetadata newer = (TableMetadata) a[1];
    StagedTable moved = new StagedTable(staged.identifier(), staged.real(), newer, false);
    SnapshotCopy.stage(moved, staged.current().currentSnapshot(), newer.currentSnapshot());
    return moved;
  }

  private static String unlogged(Purger purger, TableIdentifier table) {
    String claimId = purger.services().clock().newTxnId();
    purger
        .services()
        .delegate()
        .loadTable(table)
        .updateProperties()
        .set(TableMark.PURGING, claimId)
        .commit();
    return claimId;
  }

  private static LoggedState withStrangers(TableMetadata metadata, LoggedState logged) {
    Snapshot main = metadata.currentSnapshot();
    return main == null ? logged : new LoggedState(main, logged.stranger());
  }

  private static Replay.Renumber withoutParents(Replay.Renumber renumber) {
    return (parent, staged, numbers) -> renumber.renumbered(null, staged, numbers);
  }

  /** An applied snapshot with the rows of {@code main} besides its own, under its own id. */
  private static Replay.Renumber onStrangersRows(TableOperations real) {
    return (parent, staged, numbers) -> {
      Snapshot main = real.current().currentSnapshot();
      long own = staged.snapshotId();
      List<ManifestFile> manifests = new ArrayList<>(staged.allManifests(real.io()));
      manifests.removeIf(manifest -> manifest.snapshotId() != own);
      manifests.addAll(main.allManifests(real.io()));
      String list = String.format("snap-%d-%s.avro", own, Replacements.randomUUID());
      return SnapshotEdit.of(staged)
          .parent(main.snapshotId())
          .listed(
              real.io(),
              real.metadataFileLocation(list),
              numbers.formatVersion(),
              numbers.sequenceNumber(),
              numbers.firstRowId(),
              manifests)
          .build();
    };
  }

  private static Object removingFiles(Original commit, Object[] a) throws Throwable {
    CommitRequest request = (CommitRequest) a[1];
    try {
      return commit.of(a);
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.COMMIT_STATE_UNKNOWN) {
        for (int waits = 0; waits < 4; waits++) { // until it lands, and is not cut off any more
          SimulatedThread.current().sleep(2000);
        }
        request.leftovers().removeAllBut(request.writes().values());
        request.writes().values().forEach(write -> StagedFiles.metadataOf(write).delete());
      }
      throw e;
    }
  }

  private static Map<?, ?> withoutApplied(Map<?, ?> properties) {
    Map<Object, Object> left = new HashMap<>(properties);
    left.remove(TableMark.APPLIED);
    return left;
  }
}
