package io.txns.iceberg.commit;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Puts tables under care, and takes them from it. */
public final class Registrar {
  private static final TxnLogger LOG = TxnLogger.of(Registrar.class);

  private final Catalog delegate;
  private final CommitLog log;
  private final CommitLoop loop;
  private final DataTables tables;
  private final WriteChecks checks;
  private final Applier applier;
  private final Committer committer;
  private final TxnClock clock;

  public Registrar(
      Catalog delegate,
      CommitLog log,
      CommitLoop loop,
      DataTables tables,
      WriteChecks checks,
      Applier applier,
      Committer committer,
      TxnClock clock) {
    this.delegate = delegate;
    this.log = log;
    this.loop = loop;
    this.tables = tables;
    this.checks = checks;
    this.applier = applier;
    this.committer = committer;
    this.clock = clock;
  }

  /**
   * Mark a table, then log that it is marked. The mark is the truth: a registrar that dies between
   * the two leaves a registered table, and the next one writes the entry.
   */
  public long register(TableIdentifier identifier) {
    checks.refuseWithoutNamespace(identifier);
    return register(identifier, null);
  }

  /**
   * The same.
   *
   * @param uuid the table that is meant, where another one may stand under the name; null for any
   * @throws NoSuchTableException where there is none, or it has another uuid
   */
  public long register(TableIdentifier identifier, String uuid) {
    Head head = log.loadOrCreate();
    if (head.state().off()) {
      throw TxnException.off(); // before the table is marked
    }
    if (!applier.applyRun(head, identifier)) {
      throw TxnException.notApplied(identifier, "registered");
    }
    TableMetadata base;
    try {
      base = marked(identifier, uuid, head);
    } catch (CommitFailedException e) {
      LOG.debug(LogFields.of(identifier), "somebody else changed the table first", e);
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
    TableOperations real = tables.whole(identifier, head).operations();
    TableMetadata base = real.current();
    if (uuid != null && !uuid.equals(TableNames.uuid(base))) {
      throw new NoSuchTableException("Another table stands under the name: %s", identifier);
    }
    checkRegistrable(identifier, base);
    Optional<TableMark> mark = TableMark.of(base);
    if (mark.isPresent()) {
      tables.checkMark(identifier, base, mark.get(), head);
      return base;
    }
    Head newest = log.load(); // after the table: it has the forget that the table may show
    refuseOutstanding(identifier, base, newest);
    Timestamps.commit(real, base, clock.nowMs(), seen -> marked(identifier, real, seen, newest));
    return real.current(); // the swap's answer: who asks again may get a replica's
  }

  /**
   * Refuse to mark a table to which something of the log is still to be applied: a mark denies
   * that.
   *
   * @throws CommitFailedException where it is another one since it was loaded, before the head
   */
  private void refuseOutstanding(TableIdentifier identifier, TableMetadata base, Head head) {
    if (TableMark.outstanding(base, head).isEmpty()) {
      return;
    }
    TableMetadata newest =
        ((BaseTable) LocalPermissions.load(delegate, identifier)).operations().current();
    if (TableMark.of(newest).isEmpty() && !TableMark.outstanding(newest, head).isEmpty()) {
      throw TxnException.notApplied(identifier, "registered");
    }
    throw new CommitFailedException("somebody has registered the table: %s", identifier);
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
  public long forget(TableIdentifier identifier) {
    Head head = log.loadIfEver();
    if (!applier.applyRun(head, identifier)) {
      throw TxnException.notApplied(identifier, "forgotten");
    }
    Loaded loaded = tables.load(identifier, head, head.upper());
    if (!loaded.registered()) {
      return head.upper();
    }
    if (head.state().off()) {
      throw TxnException.off(); // a stranger's write is no reason before this
    }
    refuseStrangers(loaded);
    StagedTable staged = StagedTable.of(loaded);
    staged.stage(
        staged.current(),
        TableMetadata.buildFrom(staged.current()).removeProperties(TableMark.KEYS).build());
    return committer
        .commitOnce(
            new CommitRequest(
                EntryKind.FORGET,
                CommitGroup.Key.fresh(clock.newTxnId()),
                loaded.readTs(),
                clock.nowMs(),
                Isolation.SNAPSHOT,
                "",
                new ReadSet(),
                false,
                Map.of(identifier, staged),
                Map.of(),
                new Leftovers(log),
                CommitRequest.ALLOWED),
            List.of())
        .commitTs();
  }

  private TableMetadata marked(
      TableIdentifier identifier, TableOperations real, TableMetadata base, Head head) {
    StagedTable staged =
        StagedTable.withEmptySnapshot(identifier, real, listingItsOrder(base).build());
    Map<String, String> properties =
        registrationProperties(
            log.identifier(), head.logId(), TableNames.uuid(base), head.upper(), base.properties());
    Snapshot empty = staged.current().currentSnapshot();
    Snapshot marking =
        SnapshotEdit.of(empty)
            .timestampMs(Timestamps.acceptableMs(base, clock.nowMs(), clock.nowMs()))
            .summary(
                Map.of(
                    TableMark.SNAPSHOT_COMMIT_TS,
                    Long.toString(head.upper()),
                    TableMark.SNAPSHOT_TXN_ID,
                    OurSnapshots.registrationId(base, empty)))
            .build();
    SnapshotRef main = staged.current().ref(SnapshotRef.MAIN_BRANCH);
    return listingItsOrder(base)
        .setProperties(properties)
        .removeProperties(TableMark.copiedKeys(base))
        .addSnapshot(marking)
        .setRef(SnapshotRef.MAIN_BRANCH, Retention.of(main))
        .build();
  }

  /** A table of others may not list that it has no order: Iceberg builds nothing on it so. */
  private static TableMetadata.Builder listingItsOrder(TableMetadata base) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    boolean isUnlisted = base.sortOrder() == null && base.defaultSortOrderId() == 0;
    return isUnlisted ? builder.addSortOrder(SortOrder.unsorted()) : builder;
  }

  /** The properties that the swap of a registration sets (docs/spec.md, 6.1 and 6.2). */
  public static Map<String, String> registrationProperties(
      TableIdentifier commitTable,
      String logId,
      String tableUuid,
      long upper,
      Map<String, String> before) {
    Map<String, String> properties =
        new HashMap<>(TableMark.properties(commitTable, logId, tableUuid));
    properties.put(TableMark.APPLIED, Long.toString(upper));
    properties.putAll(Retention.properties(before));
    return properties;
  }

  /** The snapshot that marked the table; null for one that was created under care, or expired. */
  private static Snapshot markSnapshot(TableMetadata metadata) {
    Snapshot newest = null; // a table may have been registered, and forgotten, before
    for (Snapshot at : metadata.snapshots()) {
      if (OurSnapshots.marks(metadata, at)
          && OurSnapshots.commitTs(at) <= TableMark.applied(metadata)) {
        newest = at;
      }
    }
    return newest;
  }

  private long logRegistration(
      TableIdentifier identifier, TableMetadata metadata, Snapshot snapshot) {
    String txnId = OurSnapshots.registrationId(metadata, snapshot);
    Change change =
        new Change(
            identifier,
            TableNames.uuid(metadata),
            Operation.ALTER,
            snapshot.parentId(),
            snapshot.snapshotId(),
            0,
            0);
    Entry entry =
        loop.append(
            new CommitGroup.Key(txnId, 0, CommitGroup.Origin.DERIVED),
            (head, commitTs) -> {
              checkInCare(head, change, OurSnapshots.commitTs(snapshot));
              return head.entry(EntryKind.REGISTER, commitTs, txnId, List.of(change));
            });
    return entry.commitTs();
  }

  /** Refuse to log a registration whose mark somebody's forget has taken meanwhile, or will. */
  private void checkInCare(Head head, Change change, long markTs) {
    boolean archived = head.state().tidiedUpto() > markTs;
    if (head.state().forgottenTs(change.uuid()) > markTs
        || archived && tables.forgetAbove(markTs, change.uuid()).isPresent()) {
      throw TxnException.conflict(
          change.table(),
          "",
          Winner.NOBODY,
          head.upper(),
          "somebody has taken the table from care since it was marked");
    }
  }

  private static void refuseStrangers(Loaded loaded) {
    loaded
        .stranger()
        .ifPresent(
            stranger -> {
              throw TxnException.foreignWrite(loaded.identifier(), stranger.reason());
            });
  }
}
