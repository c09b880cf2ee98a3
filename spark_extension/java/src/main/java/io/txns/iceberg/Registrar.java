package io.txns.iceberg;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.types.Types;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Puts tables under care and takes them from it, and ends what strangers did to them. */
final class Registrar {
  private static final Logger LOG = LoggerFactory.getLogger(Registrar.class);
  private static final int MIN_SNAPSHOTS_TO_KEEP = 10;
  private static final long DAY_MS = 24 * 3600 * 1000L;

  private final Catalog delegate;
  private final CommitLog log;
  private final CommitLoop loop;
  private final DataTables tables;
  private final Applier applier;
  private final Committer committer;
  private final TxnClock clock;

  Registrar(
      Catalog delegate,
      CommitLog log,
      CommitLoop loop,
      DataTables tables,
      Applier applier,
      Committer committer,
      TxnClock clock) {
    this.delegate = delegate;
    this.log = log;
    this.loop = loop;
    this.tables = tables;
    this.applier = applier;
    this.committer = committer;
    this.clock = clock;
  }

  /**
   * Mark a table, then log that it is marked. The mark is the truth: a registrar that dies between
   * the two leaves a registered table, and the next one writes the entry.
   */
  long register(TableIdentifier identifier) {
    return register(identifier, null);
  }

  /**
   * The same.
   *
   * @param uuid the table that is meant, where another one may stand under the name; null for any
   * @throws NoSuchTableException where there is none, or it has another uuid
   */
  long register(TableIdentifier identifier, String uuid) {
    Head head = log.loadOrCreate();
    if (head.state().off()) {
      throw TxnException.off(); // before the table is marked
    }
    if (!applier.applyRun(head, identifier)) {
      throw TxnException.quarantined(
          identifier, "entries of the table are not applied, so it cannot be registered yet");
    }
    TableMetadata base;
    try {
      base = marked(identifier, uuid, head);
    } catch (CommitFailedException e) {
      LOG.debug("somebody else changed {} first", identifier, LoggedFailure.of(e));
      base = markedOrConflict(identifier, uuid);
    }
    Snapshot marking = markSnapshot(base);
    return marking == null ? head.upper() : logRegistration(identifier, base, marking);
  }

  /** Mark a table once more: whoever was faster may have marked it, which is as good. */
  private TableMetadata markedOrConflict(TableIdentifier identifier, String uuid) {
    Head head = log.load();
    try {
      return marked(identifier, uuid, head);
    } catch (CommitFailedException e) {
      TxnException conflict =
          TxnException.conflict(
              identifier,
              "",
              Winner.NOBODY,
              head.upper(),
              "others write the table while it is registered");
      conflict.addSuppressed(e);
      throw conflict;
    }
  }

  /** Mark a table, unless it is; give it as it is then. */
  private TableMetadata marked(TableIdentifier identifier, String uuid, Head head) {
    BaseTable table = (BaseTable) delegate.loadTable(identifier);
    TableOperations real = table.operations();
    TableMetadata base = real.current();
    if (uuid != null && !uuid.equals(base.uuid())) {
      throw new NoSuchTableException("Another table stands under the name: %s", identifier);
    }
    checkRegistrable(identifier, base);
    tables.refuseSetBack(identifier, table, head);
    if (TableMark.of(base).isPresent()) {
      return base;
    }
    Timestamps.commit(real, base, clock.nowMs(), seen -> marked(identifier, real, seen, head));
    return real.refresh();
  }

  private void checkRegistrable(TableIdentifier identifier, TableMetadata base) {
    TableMark.refuseCommitTable(identifier, base);
    TableMark mark = TableMark.of(base).orElse(null);
    if (mark != null && !mark.commitTable().equals(log.identifier())) {
      throw TxnException.unsupported(
          String.format(
              "the table is under the care of another commit table, forget it there first;"
                  + " table=`%s` commit_table=`%s`",
              identifier, mark.commitTable()));
    }
    if (base.formatVersion() < 2) {
      throw TxnException.unsupported(
          String.format(
              "a table of format version 1 cannot be registered, upgrade it with ALTER TABLE %s SET"
                  + " TBLPROPERTIES ('format-version'='2'); table=`%s`",
              identifier, identifier));
    }
  }

  /**
   * Take a table from care, as a change like any other.
   *
   * @throws TxnException 55000 when strangers wrote it: repair it first
   */
  long forget(TableIdentifier identifier) {
    Head head = log.loadIfExists();
    if (!applier.applyRun(head, identifier)) {
      throw TxnException.quarantined(
          identifier, "entries of the table are not applied, so it cannot be forgotten yet");
    }
    DataTables.Loaded loaded = tables.load(identifier, head, head.upper());
    if (!loaded.registered()) {
      return head.upper();
    }
    if (head.state().off()) {
      throw TxnException.off(); // a stranger's write is no reason before this
    }
    refuseStrangers(loaded);
    StagedTable staged = staged(loaded);
    staged.stage(
        staged.current(),
        TableMetadata.buildFrom(staged.current()).removeProperties(TableMark.KEYS).build());
    return commit(
        EntryKind.FORGET, clock.newTxnId(), CommitLoop.Origin.FRESH, loaded, staged, Map.of());
  }

  /**
   * Make what strangers wrote an entry of its own: after it, readers see it.
   *
   * @throws TxnException 0A000 when there is nothing to adopt, or other changes have been logged
   *     since that it does not fit on
   */
  long adopt(TableIdentifier identifier) {
    DataTables.Loaded loaded = newest(identifier);
    if (loaded.registered() && loaded.view().dropped()) {
      throw TxnException.unsupported(
          String.format(
              "the log has dropped the table, so nothing is adopted into it: use action =>"
                  + " 'reject', which keeps what was written on a branch; table=`%s`",
              identifier));
    }
    StagedTable staged = markedAgain(loaded);
    Stranger stranger = onBranch(loaded, staged);
    if (stranger == null) {
      stranger = strangerOf(loaded);
    }
    if (stranger.adoptable()) {
      append(staged, loaded, stranger);
    } else {
      copyState(staged, loaded, stranger);
    }
    EntryKind kind = stranger.adoptable() ? EntryKind.ADOPT : EntryKind.REPAIR;
    return repair(kind, "adopt", loaded, staged, stranger, adopted(stranger));
  }

  /** Put the logged state back on main; what strangers wrote stays on a branch. */
  long reject(TableIdentifier identifier) {
    DataTables.Loaded loaded = newest(identifier);
    Stranger stranger = strangerOf(loaded);
    if (stranger.lost() != null) {
      throw TxnException.unsupported(
          String.format(
              "what the log has is in no snapshot of the table: register its newest metadata in the"
                  + " catalog again, or use action => 'adopt', which takes the table as it stands;"
                  + " table=`%s`",
              identifier));
    }
    StagedTable staged = markedAgain(loaded);
    if (loaded.view().dropped()) {
      // A copy of the marker would not be one.
      staged.stage(staged.current(), TableDrop.marked(staged.current(), staged.real()));
    }
    return repair(EntryKind.REPAIR, "reject", loaded, staged, stranger, Map.of());
  }

  /** A table staged for its repair, with the mark that a stranger took. */
  private StagedTable markedAgain(DataTables.Loaded loaded) {
    StagedTable staged = staged(loaded);
    TableMetadata base = staged.current();
    if (loaded.registered() && TableMark.of(base).isEmpty()) {
      Map<String, String> mark =
          new HashMap<>(TableMark.properties(log.identifier(), log.load().uuid(), base.uuid()));
      mark.putAll(retentionProperties(base.properties()));
      staged.stage(base, TableMetadata.buildFrom(base).setProperties(mark).build());
    }
    return staged;
  }

  /**
   * A stranger that apply has kept on a branch; the branch goes when its rows are taken in.
   *
   * @return null where a stranger stands on main, or none is left
   */
  private static Stranger onBranch(DataTables.Loaded loaded, StagedTable staged) {
    if (!loaded.registered() || loaded.view().stranger().isPresent()) {
      return null;
    }
    TableMetadata metadata = staged.current();
    for (Map.Entry<String, SnapshotRef> ref : metadata.refs().entrySet()) {
      if (ref.getKey().startsWith(TableMark.FOREIGN_BRANCH)) {
        Stranger stranger = Stranger.above(metadata, ref.getValue().snapshotId()).orElse(null);
        if (stranger == null) {
          continue;
        }
        if (!stranger.adoptable()) {
          throw TxnException.unsupported(
              String.format(
                  "what the branch %s holds does more than append: put it back by hand and drop"
                      + " the branch; table=`%s`",
                  ref.getKey(), loaded.identifier()));
        }
        staged.stage(metadata, TableMetadata.buildFrom(metadata).removeRef(ref.getKey()).build());
        return stranger;
      }
    }
    return null;
  }

  private long repair(
      EntryKind kind,
      String deed,
      DataTables.Loaded loaded,
      StagedTable staged,
      Stranger stranger,
      Map<String, String> marks) {
    // Of the table, not of the view: whoever comes before a repair is applied makes the same.
    // It may be set back twice to the same metadata, from another place each time.
    long applied = loaded.table() == null ? 0 : TableMark.applied(loaded.real().current());
    applied = stranger.lost() == null ? applied : stranger.lost().upto();
    long head = stranger.headSnapshotId() == null ? 0 : stranger.headSnapshotId();
    String txnId = Entry.derivedId(deed, staged.base().uuid(), head + ":" + applied);
    return commit(kind, txnId, CommitLoop.Origin.DERIVED, loaded, staged, marks);
  }

  private long commit(
      EntryKind kind,
      String txnId,
      CommitLoop.Origin origin,
      DataTables.Loaded loaded,
      StagedTable staged,
      Map<String, String> marks) {
    return committer
        .commitOnce(
            new Committer.Request(
                kind,
                new CommitLoop.Key(txnId, 0, origin),
                loaded.view().readTs(),
                clock.nowMs(),
                Isolation.SNAPSHOT,
                "",
                new ReadSet(),
                Map.of(loaded.identifier(), staged),
                marks,
                new Leftovers(log)),
            List.of())
        .commitTs();
  }

  private TableMetadata marked(
      TableIdentifier identifier, TableOperations real, TableMetadata base, Head head) {
    StagedTable staged = StagedTable.withEmptySnapshot(identifier, real, base);
    Map<String, String> properties =
        registrationProperties(
            log.identifier(), head.uuid(), base.uuid(), head.upper(), base.properties());
    Snapshot empty = staged.current().currentSnapshot();
    Snapshot marking =
        SnapshotEdit.of(empty)
            .timestampMs(Timestamps.acceptableMs(base, clock.nowMs(), clock.nowMs()))
            .summary(
                Map.of(
                    TableMark.SNAPSHOT_COMMIT_TS,
                    Long.toString(head.upper()),
                    TableMark.SNAPSHOT_TXN_ID,
                    LoggedState.registrationId(base, empty)))
            .build();
    SnapshotRef main = staged.current().ref(SnapshotRef.MAIN_BRANCH);
    return TableMetadata.buildFrom(base)
        .setProperties(properties)
        .addSnapshot(marking)
        .setRef(SnapshotRef.MAIN_BRANCH, retention(main))
        .build();
  }

  /** The properties that the swap of a registration sets (docs/spec.md, 6.1 and 6.2). */
  static Map<String, String> registrationProperties(
      TableIdentifier commitTable,
      String commitTableUuid,
      String tableUuid,
      long upper,
      Map<String, String> before) {
    Map<String, String> properties =
        new HashMap<>(TableMark.properties(commitTable, commitTableUuid, tableUuid));
    properties.put(TableMark.APPLIED, Long.toString(upper));
    properties.putAll(retentionProperties(before));
    return properties;
  }

  /** At least ten snapshots and a day: what an overwrite that is not applied yet may need. */
  static SnapshotRef retention(SnapshotRef main) {
    int keep = main.minSnapshotsToKeep() == null ? 0 : main.minSnapshotsToKeep();
    long ageMs = main.maxSnapshotAgeMs() == null ? 0 : main.maxSnapshotAgeMs();
    return SnapshotRef.builderFrom(main)
        .minSnapshotsToKeep(Math.max(keep, MIN_SNAPSHOTS_TO_KEEP))
        .maxSnapshotAgeMs(Math.max(ageMs, DAY_MS))
        .build();
  }

  /**
   * Table properties that must change for expiry to leave the same: they count where a stranger has
   * set main without its retention, as pyiceberg does.
   */
  static Map<String, String> retentionProperties(Map<String, String> properties) {
    Map<String, String> raised = new HashMap<>();
    if (number(properties, TableProperties.MIN_SNAPSHOTS_TO_KEEP, 0) < MIN_SNAPSHOTS_TO_KEEP) {
      raised.put(TableProperties.MIN_SNAPSHOTS_TO_KEEP, Integer.toString(MIN_SNAPSHOTS_TO_KEEP));
    }
    if (number(properties, TableProperties.MAX_SNAPSHOT_AGE_MS, DAY_MS) < DAY_MS) {
      raised.put(TableProperties.MAX_SNAPSHOT_AGE_MS, Long.toString(DAY_MS));
    }
    return raised;
  }

  private static long number(Map<String, String> properties, String key, long otherwise) {
    try {
      return Long.parseLong(properties.getOrDefault(key, Long.toString(otherwise)));
    } catch (NumberFormatException e) {
      return 0; // somebody's slip: no expiry can read it either
    }
  }

  /** The snapshot that marked the table; null for one that was created under care, or expired. */
  private static Snapshot markSnapshot(TableMetadata metadata) {
    Snapshot newest = null; // a table may have been registered, and forgotten, before
    for (Snapshot at : metadata.snapshots()) {
      if (LoggedState.marks(metadata, at)
          && LoggedState.commitTs(at) <= TableMark.applied(metadata)) {
        newest = at;
      }
    }
    return newest;
  }

  private long logRegistration(
      TableIdentifier identifier, TableMetadata metadata, Snapshot snapshot) {
    String txnId = LoggedState.registrationId(metadata, snapshot);
    Change change =
        new Change(
            identifier,
            metadata.uuid(),
            Operation.ALTER,
            snapshot.parentId(),
            snapshot.snapshotId(),
            0,
            0);
    Entry entry =
        loop.append(
            new CommitLoop.Key(txnId, 0, CommitLoop.Origin.DERIVED),
            (head, commitTs) ->
                Entry.withoutPayload(EntryKind.REGISTER, head, commitTs, txnId, List.of(change)));
    return entry.commitTs();
  }

  /** The strangers' files, appended after the newest change. */
  private void append(StagedTable staged, DataTables.Loaded loaded, Stranger stranger) {
    Table source = loaded.table();
    AppendFiles append =
        new BaseTable(staged.operations(), staged.identifier().toString()).newFastAppend();
    for (int i = stranger.snapshotIds().size() - 1; i >= 0; i--) {
      checkColumns(staged, source, source.snapshot(stranger.snapshotIds().get(i)));
      Iterable<DataFile> files =
          SnapshotChanges.builderFor(source)
              .snapshot(source.snapshot(stranger.snapshotIds().get(i)))
              .build()
              .addedDataFiles();
      files.forEach(append::appendFile);
    }
    append.commit();
  }

  /** Refuse files in which the id of a column stands for one of another name in the log. */
  private static void checkColumns(StagedTable staged, Table source, Snapshot foreign) {
    Schema theirs = foreign.schemaId() == null ? null : source.schemas().get(foreign.schemaId());
    if (theirs == null) {
      return;
    }
    for (Types.NestedField field : staged.current().schema().columns()) {
      Types.NestedField other = theirs.findField(field.fieldId());
      if (other != null && !other.name().equals(field.name())) {
        throw TxnException.unsupported(
            String.format(
                "the column `%s` of the log is `%s` in what was written: use action => 'reject',"
                    + " and put what is on the branch back by hand; table=`%s`",
                field.name(), other.name(), staged.identifier()));
      }
    }
  }

  /** The strangers' state as it is, under a snapshot of ours with a manifest list of its own. */
  private void copyState(StagedTable staged, DataTables.Loaded loaded, Stranger stranger) {
    TableMetadata base = staged.current();
    // The table's own: the view's mark counts what is only laid over it. Of a table that was set
    // back, they have nothing to stand on: the repair ends them.
    if (stranger.lost() == null
        && TableMark.applied(loaded.real().current()) < newestChange(loaded)) {
      throw TxnException.unsupported(
          String.format(
              "other transactions have committed to the table since: use action => 'reject', and"
                  + " put what is on the branch back by hand; table=`%s`",
              loaded.identifier()));
    }
    Long head = stranger.headSnapshotId();
    Snapshot theirs = head == null ? null : loaded.table().snapshot(head);
    SnapshotCopy.stage(staged, theirs, base.currentSnapshot());
  }

  private long newestChange(DataTables.Loaded loaded) {
    Head head = log.load();
    List<LoggedChange> run = head.state().changes(loaded.view().metadata().uuid(), 0, head.upper());
    return run.isEmpty() ? 0 : run.get(run.size() - 1).commitTs();
  }

  private static Map<String, String> adopted(Stranger stranger) {
    String ids = stranger.takenIn().stream().map(String::valueOf).collect(Collectors.joining(","));
    return ids.isEmpty() ? Map.of() : Map.of(TableMark.SNAPSHOT_ADOPTED, ids);
  }

  private DataTables.Loaded newest(TableIdentifier identifier) {
    Head head = log.loadIfExists();
    if (head.exists() && !applier.apply(head, identifier)) {
      LOG.info("entries of {} stay unapplied before its repair", identifier);
    }
    Head newest = log.loadIfExists();
    return tables.loadWithDropped(identifier, newest, newest.upper());
  }

  private static StagedTable staged(DataTables.Loaded loaded) {
    return new StagedTable(loaded.identifier(), loaded.real(), loaded.view().metadata(), false);
  }

  private static void refuseStrangers(DataTables.Loaded loaded) {
    loaded
        .view()
        .stranger()
        .ifPresent(
            stranger -> {
              throw TxnException.foreignWrite(loaded.identifier(), stranger.reason());
            });
  }

  private static Stranger strangerOf(DataTables.Loaded loaded) {
    if (!loaded.registered() || loaded.view().stranger().isEmpty()) {
      throw TxnException.unsupported(
          String.format(
              "there is nothing to repair: nobody wrote the table outside the protocol;"
                  + " table=`%s`",
              loaded.identifier()));
    }
    return loaded.view().stranger().get();
  }
}
