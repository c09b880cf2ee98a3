package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.NamedIds;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.UpdateRequirements;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Turns what was staged on a table into the change that its entry logs.
 *
 * <p>Invariants I2 and I7 are made true here: every change moves {@code main} once, to one new
 * snapshot, and every snapshot of it is stamped.
 */
public final class ChangeBuilder {
  /** A change, and the request that carries it out. */
  public record Built(Change change, UpdateTableRequest request) {}

  private ChangeBuilder() {}

  /**
   * Add an empty snapshot where nothing that was staged moves {@code main}, or shows its columns.
   *
   * <p>So a change of metadata is a swap on every catalog, and who reads its {@code commit_ts}
   * later sees the columns that it left. To be called once, before {@link #build}.
   */
  public static void complete(StagedTable staged) {
    if (!staged.movesMain() || endsWithoutMain(staged) || staged.mainHasOtherColumns()) {
      new BaseTable(staged.operations(), staged.identifier().toString()).newFastAppend().commit();
    } else if (!staged.hasNewMain()) {
      // a rollback or a fast-forward: main is to stand on a snapshot that was there before
      SnapshotCopy.stage(
          staged, staged.current().currentSnapshot(), staged.base().currentSnapshot());
    }
  }

  /**
   * The change to log.
   *
   * @param commitTs the entry's, in ms; stamped into every staged snapshot
   * @param marks summary keys and values for every staged snapshot, besides the stamp
   */
  public static Built build(
      StagedTable staged, String txnId, long commitTs, Map<String, String> marks) {
    List<MetadataUpdate> updates = new ArrayList<>();
    Map<String, MetadataUpdate> refs = new LinkedHashMap<>();
    Snapshot main = staged.base().currentSnapshot();
    Long from = staged.isCreate() || main == null ? null : main.snapshotId();
    Snapshot root = staged.rootOfMain();
    Map<String, String> stamp = new LinkedHashMap<>(marks);
    stamp.put(TableMark.SNAPSHOT_COMMIT_TS, Long.toString(commitTs));
    stamp.put(TableMark.SNAPSHOT_TXN_ID, txnId);
    for (MetadataUpdate update : staged.changes()) {
      if (update instanceof MetadataUpdate.AddSnapshot add) {
        SnapshotEdit edit = SnapshotEdit.of(add.snapshot()).timestampMs(commitTs).summary(stamp);
        if (!Objects.equals(History.mainId(staged.current()), add.snapshot().snapshotId())) {
          edit.summary(Map.of(TableMark.SNAPSHOT_PASSING, "true"));
        }
        if (root != null && add.snapshot().snapshotId() == root.snapshotId()) {
          edit.parent(from); // also after a replace or a rollback: main's history has no gap
          if (staged.rollsBack()) {
            edit.operation(DataOperations.OVERWRITE);
          }
        }
        updates.add(new MetadataUpdate.AddSnapshot(edit.build()));
      } else if (update instanceof MetadataUpdate.SetSnapshotRef ref) {
        refs.remove(ref.name());
        refs.put(ref.name(), ref);
      } else if (update instanceof MetadataUpdate.RemoveSnapshotRef ref) {
        refs.remove(ref.name());
        if (!SnapshotRef.MAIN_BRANCH.equals(ref.name())) {
          refs.put(ref.name(), ref);
        }
      } else {
        updates.add(update);
      }
    }
    if (staged.isCreate() || recreates(staged)) {
      updates.add(
          new MetadataUpdate.SetProperties(Map.of(TableMark.CREATED, Long.toString(commitTs))));
    }
    refs.computeIfPresent(
        SnapshotRef.MAIN_BRANCH,
        (name, ref) -> retained(staged, (MetadataUpdate.SetSnapshotRef) ref));
    updates.addAll(refs.values());
    refuseSpecIdsGivenAgain(staged, updates);
    List<UpdateRequirement> requirements =
        staged.isCreate()
            ? UpdateRequirements.forCreateTable(updates)
            : UpdateRequirements.forUpdateTable(staged.base(), updates);
    return new Built(
        change(staged, from),
        UpdateTableRequest.create(
            staged.identifier(),
            requirements,
            staged.isCreate() ? updates : NamedIds.added(staged.base(), requirements, updates)));
  }

  /**
   * Iceberg's builder, and so a server, does not give an id again that it has taken away in a
   * commit.
   */
  private static void refuseSpecIdsGivenAgain(StagedTable staged, List<MetadataUpdate> updates) {
    Set<Integer> gone = new HashSet<>();
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.RemovePartitionSpecs removal) {
        gone.addAll(removal.specIds());
      } else if (update instanceof MetadataUpdate.AddPartitionSpec add
          && gone.contains(add.spec().specId())) {
        throw TxnException.unsupported(
            String.format(
                "a transaction that removes a partition spec cannot add another one under its id:"
                    + " commit the removal first; spec=`%s` table=`%s`",
                add.spec().specId(), staged.identifier()));
      }
    }
  }

  /** Iceberg's create and replace set a new main without the retention that tables of ours have. */
  private static MetadataUpdate retained(
      StagedTable staged, MetadataUpdate.SetSnapshotRef staging) {
    SnapshotRef before = staged.base().ref(SnapshotRef.MAIN_BRANCH);
    SnapshotRef main =
        before == null || staging.minSnapshotsToKeep() != null
            ? SnapshotRef.branchBuilder(staging.snapshotId())
                .minSnapshotsToKeep(staging.minSnapshotsToKeep())
                .maxSnapshotAgeMs(staging.maxSnapshotAgeMs())
                .build()
            : SnapshotRef.builderFrom(before, staging.snapshotId()).build();
    SnapshotRef kept = Retention.of(main);
    return new MetadataUpdate.SetSnapshotRef(
        SnapshotRef.MAIN_BRANCH,
        kept.snapshotId(),
        kept.type(),
        kept.minSnapshotsToKeep(),
        kept.maxSnapshotAgeMs(),
        kept.maxRefAgeMs());
  }

  private static Change change(StagedTable staged, Long from) {
    long added = 0;
    long deleted = 0;
    for (Snapshot snapshot : staged.snapshots()) {
      added += count(snapshot, SnapshotSummary.ADDED_RECORDS_PROP);
      deleted += count(snapshot, SnapshotSummary.DELETED_RECORDS_PROP);
    }
    return new Change(
        staged.identifier(),
        TableNames.uuid(staged.base()),
        operation(staged),
        from,
        staged.current().currentSnapshot().snapshotId(),
        added,
        deleted);
  }

  /** What the staged updates amount to: the strongest of them decides. */
  static Operation operation(StagedTable staged) {
    if (staged.isCreate() || recreates(staged)) {
      return Operation.CREATE;
    }
    Snapshot head = staged.current().currentSnapshot();
    if (TableMark.isDropped(head)) {
      return Operation.DROP;
    }
    if (dropsMain(staged)) {
      return Operation.OVERWRITE;
    }
    // After a rollback rows are gone, whatever was appended since.
    boolean rollsBack = staged.rollsBack();
    for (MetadataUpdate update : staged.changes()) {
      boolean rows = update instanceof MetadataUpdate.AddSnapshot;
      boolean main =
          update instanceof MetadataUpdate.SetSnapshotRef ref
              && SnapshotRef.MAIN_BRANCH.equals(ref.name());
      if (!rows && !main) {
        return Operation.ALTER;
      }
    }
    Set<String> operations =
        staged.snapshots().stream().map(Snapshot::operation).collect(Collectors.toSet());
    if (rollsBack) {
      return Operation.OVERWRITE;
    }
    if (operations.equals(Set.of(DataOperations.APPEND))) {
      return Operation.APPEND;
    }
    if (operations.equals(Set.of(DataOperations.DELETE))) {
      return Operation.DELETE;
    }
    return operations.equals(Set.of(DataOperations.REPLACE))
        ? Operation.REPLACE
        : Operation.OVERWRITE;
  }

  /** Whether a dropped table is created again, on the same physical one. */
  public static boolean recreates(StagedTable staged) {
    Snapshot main = staged.base().currentSnapshot();
    return !staged.isCreate() && TableMark.isDropped(main) && dropsMain(staged);
  }

  /** Iceberg's replace takes {@code main} away; here the old main becomes the parent instead. */
  private static boolean dropsMain(StagedTable staged) {
    return staged.changes().stream()
        .anyMatch(
            update ->
                update instanceof MetadataUpdate.RemoveSnapshotRef ref
                    && SnapshotRef.MAIN_BRANCH.equals(ref.name()));
  }

  private static boolean endsWithoutMain(StagedTable staged) {
    return staged.current().currentSnapshot() == null;
  }

  private static long count(Snapshot snapshot, String key) {
    String value = snapshot.summary() == null ? null : snapshot.summary().get(key);
    return value == null ? 0 : Long.parseLong(value);
  }
}
