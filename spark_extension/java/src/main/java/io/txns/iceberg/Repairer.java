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
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.types.Types;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Ends what strangers did to a table: takes it in, or puts the logged state back. */
final class Repairer {
  private static final Logger LOG = LoggerFactory.getLogger(Repairer.class);

  private final CommitLog log;
  private final DataTables tables;
  private final Applier applier;
  private final Committer committer;
  private final TxnClock clock;

  Repairer(CommitLog log, DataTables tables, Applier applier, Committer committer, TxnClock clock) {
    this.log = log;
    this.tables = tables;
    this.applier = applier;
    this.committer = committer;
    this.clock = clock;
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
      mark.putAll(Registrar.retentionProperties(base.properties()));
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
    return commit(kind, txnId, loaded, staged, marks);
  }

  private long commit(
      EntryKind kind,
      String txnId,
      DataTables.Loaded loaded,
      StagedTable staged,
      Map<String, String> marks) {
    return committer
        .commitOnce(
            new Committer.Request(
                kind,
                new CommitLoop.Key(txnId, 0, CommitLoop.Origin.DERIVED),
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
