package io.txns.iceberg.table;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.meta.Timestamps;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Table metadata plus logged changes: what readers see before an entry is applied; pure.
 *
 * <p>Each change is laid over it by {@link Replay}, as an applier does.
 */
public final class Overlay {
  private Overlay() {}

  /**
   * The metadata of a registered data table as of {@code readTs}.
   *
   * @param table its identifier, for messages
   * @param stored its metadata, loaded after the head that {@code run} is from
   * @param mark its mark
   * @param run what has been logged and not applied to it, up to {@code readTs}, ascending
   * @param requests the request of a logged change
   * @param readTs in ms
   * @param nowMs wall-clock time in ms
   * @throws TxnException 40001 when {@code readTs} lies before all that is left of the table;
   *     Quarantined when the logged state cannot be rebuilt
   */
  public static TableView asOf(
      TableIdentifier table,
      TableMetadata stored,
      TableMark mark,
      List<LoggedChange> run,
      Requests requests,
      long readTs,
      long nowMs) {
    TableMetadata loaded = Timestamps.notAhead(stored, nowMs);
    LoggedState logged = LoggedState.of(loaded, mark, run);
    if (mark.created() > readTs) {
      throw TxnException.tooOld(table, readTs, mark.created(), "the table was created later");
    }
    if (logged.snapshot() == null && run.isEmpty()) {
      throw TxnException.expired(table);
    }
    TableMetadata view =
        mark.applied() <= readTs
            ? Rewound.withMain(loaded, logged.snapshot())
            : earlier(table, loaded, mark, logged.snapshot(), readTs);
    checkChain(table, run);
    Optional<Stranger> stranger = logged.stranger();
    Optional<String> altered = Optional.empty();
    for (LoggedChange change : run) {
      UpdateTableRequest request = requests.of(change);
      UpdateTableRequest here = Replay.byIdsOf(view, change, request);
      Map<UpdateRequirement, String> unmet = Rewound.unmet(view, here.requirements());
      TableMetadata before = view;
      if (unmet.isEmpty()) {
        altered = altered.or(() -> FittingDefaults.misfit(before, here.updates()));
      } else {
        altered = altered.or(() -> Optional.of(Replay.reason(unmet)));
        // Readers stay on the logged state (I10): what the change was staged on, and the change.
        view =
            Rewound.of(view, unmet.keySet(), here.updates())
                .orElseThrow(() -> Replay.unfit(change, Replay.reason(unmet)));
      }
      view = Replay.replay(view, change, request, nowMs);
      // It is ended when it is applied.
      if (change.entry().kind() == EntryKind.REPAIR) {
        stranger = Optional.empty();
        altered = Optional.empty();
      } else if (change.entry().kind() == EntryKind.ADOPT) {
        stranger = stranger.flatMap(one -> one.without(ForeignBranches.adopted(request)));
      }
    }
    Optional<Stranger> found =
        altered.isPresent() ? Optional.of(altered(loaded, stranger, altered.get())) : stranger;
    return new TableView(inMemory(view, loaded.metadataFileLocation()), readTs, found);
  }

  /**
   * A table that has left care as of a {@code readTs} at which it was under care.
   *
   * @param stored its metadata; strangers may have written it since
   * @param forget the change that took it from care, above {@code readTs}
   * @throws TxnException 40001 when what it was has been expired
   */
  static TableView beforeForget(
      TableIdentifier table,
      TableMetadata stored,
      TableMark mark,
      Change forget,
      long readTs,
      long nowMs) {
    TableMetadata loaded = Timestamps.notAhead(stored, nowMs);
    Snapshot left = loaded.snapshot(forget.toSnapshotId());
    if (left == null && forget.fromSnapshotId() != null) {
      left = loaded.snapshot(forget.fromSnapshotId());
    }
    TableMetadata view = earlier(table, loaded, mark, left, readTs);
    return new TableView(inMemory(view, loaded.metadataFileLocation()), readTs, Optional.empty());
  }

  /** Where the request of a logged change comes from: the entry's payload. */
  public interface Requests {
    UpdateTableRequest of(LoggedChange change);
  }

  /**
   * Somebody who made a logged change impossible. Where they appended as well, to adopt the rows
   * would not end that.
   */
  private static Stranger altered(
      TableMetadata loaded, Optional<Stranger> stranger, String reason) {
    return stranger
        .map(one -> one.adoptable() ? one.impossible(Replay.misfit(reason)) : one)
        .orElseGet(
            () -> new Stranger(History.mainId(loaded), List.of(), false, Replay.misfit(reason)));
  }

  /** Metadata that lives in memory only; a location makes Iceberg's metadata tables work. */
  public static TableMetadata inMemory(TableMetadata metadata, String location) {
    String path =
        location != null ? location : metadata.location() + "/metadata/txns-staged.metadata.json";
    return TableMetadata.buildFrom(metadata).discardChanges().withMetadataLocation(path).build();
  }

  /**
   * The snapshots of a table whose rows have ids, format 3, that it lacks in the catalog.
   *
   * @param known as the catalog had it; null where it had none
   * @param base as the log has it; null before it is created
   */
  public static List<Snapshot> unappliedWithRowIds(TableMetadata known, TableMetadata base) {
    return base == null || base.formatVersion() < 3 ? List.of() : unapplied(known, base);
  }

  /** Those of them, of any format, with deletes, which take rows by sequence numbers. */
  public static List<Snapshot> unappliedWithDeletes(TableMetadata known, TableMetadata base) {
    return base == null
        ? List.of()
        : unapplied(known, base).stream().filter(Overlay::addsDeletes).toList();
  }

  /** Whether a table has anything that stands on the numbers of its snapshots or rows. */
  public static boolean hasNumbers(TableMetadata base) {
    return base != null
        && (base.formatVersion() >= 3 || base.snapshots().stream().anyMatch(Overlay::addsDeletes));
  }

  private static boolean addsDeletes(Snapshot one) {
    return one.summary().containsKey(SnapshotSummary.ADDED_DELETE_FILES_PROP);
  }

  private static List<Snapshot> unapplied(TableMetadata known, TableMetadata base) {
    return base.snapshots().stream()
        .filter(one -> known == null || known.snapshot(one.snapshotId()) == null)
        .toList();
  }

  /** Invariant I3: unapplied changes of one table are a chain. */
  static void checkChain(TableIdentifier table, List<LoggedChange> run) {
    for (int i = 1; i < run.size(); i++) {
      Long to = run.get(i - 1).change().toSnapshotId();
      Long from = run.get(i).change().fromSnapshotId();
      if (!to.equals(from)) {
        throw TxnException.corruptLog(
            String.format(
                "invariant I3 does not hold: the change at %d stands on snapshot %d, not on %d;"
                    + " table=`%s`",
                run.get(i).commitTs(), from, to, table));
      }
    }
  }

  /**
   * Refuse to read what a logged repair has given up, of a table that was set back.
   *
   * @param later changes above {@code readTs} that are not applied
   * @throws TxnException 40001, "too old": what was acknowledged is in no snapshot of the table
   */
  static void refuseGivenUp(
      TableIdentifier table, List<LoggedChange> later, Requests requests, long readTs) {
    later.stream()
        .filter(change -> change.entry().kind() == EntryKind.REPAIR)
        .flatMap(change -> AddedSnapshots.of(requests.of(change).updates()).stream())
        .forEach(adopting -> refuseGivenUp(table, adopting, readTs));
  }

  private static void refuseGivenUp(TableIdentifier table, Snapshot adopting, long readTs) {
    OptionalLong above = TableMark.lostAbove(adopting);
    if (above.isPresent() && readTs > above.getAsLong()) {
      throw TxnException.tooOld(
          table,
          readTs,
          OurSnapshots.commitTs(adopting),
          String.format(
              "it was set back to %d, and what it lacked above that was given up",
              above.getAsLong()));
    }
  }

  private static TableMetadata earlier(
      TableIdentifier table, TableMetadata loaded, TableMark mark, Snapshot logged, long readTs) {
    History.Walk walk = History.walk(loaded);
    Snapshot at = logged;
    while (at != null && !OurSnapshots.standsAtOrBelow(loaded, mark, at, readTs)) {
      refuseGivenUp(table, at, readTs);
      at = walk.parent(at);
    }
    if (at == null) {
      throw TxnException.tooOld(
          table, readTs, mark.applied(), "its older snapshots have been expired");
    }
    return withMain(loaded, at);
  }

  /** A table with main on an earlier snapshot, and the schema of that time. */
  private static TableMetadata withMain(TableMetadata metadata, Snapshot snapshot) {
    TableMetadata then =
        Optional.ofNullable(snapshot.schemaId())
            .map(metadata.schemasById()::get)
            .map(schema -> EarlierSchema.of(metadata, schema))
            .orElse(metadata);
    return TableMetadata.buildFrom(then)
        .setBranchSnapshot(snapshot.snapshotId(), SnapshotRef.MAIN_BRANCH)
        .build();
  }
}
