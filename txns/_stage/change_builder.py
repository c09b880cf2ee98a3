"""
Turns what was staged on a table into the change that its entry logs.

Invariants I2 and I7 are made true here: every change moves `main` once, to one new
snapshot, and every snapshot of it is stamped (docs/spec.md 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation as SnapshotOperation
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from txns._iceberg import manifests as _manifests
from txns._iceberg import snapshots, timestamps
from txns._iceberg.free_ids import naming_all
from txns._iceberg.manifests import Listing
from txns._iceberg.snapshots import APPEND, REPLACE
from txns._identifier import dotted_name
from txns._log.change import Change, Operation
from txns._table import mark
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from txns._clock import Clock
    from txns._stage.staged_table import StagedTable


def complete(staged: StagedTable, clock: Clock) -> None:
    """
    Add an empty snapshot where nothing that was staged moves `main`, or shows its columns.

    So a change of metadata is a swap on every catalog, and who reads its `commit_ts` later sees
    the columns that it left. To be called once, before `build`.
    """
    main = snapshots.main_of(staged.current)
    if not staged.moves_main or main is None or staged.main_has_other_columns:
        stage_copy(staged, clock, source=main, parent=main, operation=APPEND)
    elif not staged.has_new_main:
        # A rollback: main is to stand on a snapshot that was there before.
        stage_copy(staged, clock, source=main, parent=snapshots.main_of(staged.base))


def stage_copy(
    staged: StagedTable,
    clock: Clock,
    *,
    source: Snapshot | None,
    parent: Snapshot | None,
    operation: str = "overwrite",
) -> None:
    """
    Stage a snapshot of ours on `main` with the rows of another one, and a list of its own.

    Args:
        staged: The table.
        clock: For the snapshot's id and time.
        source: Whose manifests are listed; None for no rows.
        parent: What `main` stands on in the log.
        operation: `append` for an empty snapshot, `overwrite` where rows change.
    """
    summary = snapshots.totals_of(source)
    if source and source is not parent:
        summary[mark.SNAPSHOT_RESTORED] = str(source.snapshot_id)
    _stage_listing(
        staged,
        clock,
        listing=Listing(rest=source.manifest_list if source else None),
        parent=parent,
        operation=operation,
        summary=summary,
    )


def footing(staged: StagedTable, clock: Clock) -> Snapshot:
    """
    Stage a copy of `main` on `main`, for an adoption to stand on (docs/spec.md 9.4).

    It has the rows that are there, as a compaction has; without a `main` it is no compaction of
    anything, and strangers' as the state is.
    """
    main = snapshots.main_of(staged.current)
    restored = {mark.SNAPSHOT_RESTORED: str(main.snapshot_id if main else mark.NO_SNAPSHOT)}
    return _stage_listing(
        staged,
        clock,
        listing=Listing(rest=main.manifest_list if main else None),
        parent=main,
        operation=REPLACE if main else "overwrite",
        summary=snapshots.totals_of(main) | restored,
    )


def put_footing(
    staged: StagedTable, clock: Clock, stamp: Mapping[str, str] | None = None
) -> tuple[int, tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """
    Give the id of a footing, and the swap that puts it on `main` where that was loaded.

    Args:
        staged: The table.
        clock: For its id and time.
        stamp: What its summary says besides, where it is one of ours.
    """
    base, copy = staged.base, footing(staged, clock)
    now_ms = clock.now_ms()
    here = (
        AssertTableUUID(uuid=base.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=base.current_snapshot_id),
    )
    stamp = stamp or {}
    wanted_ms = int(stamp.get(mark.SNAPSHOT_COMMIT_TS, now_ms))
    time_ms = timestamps.acceptable_ts(base, wanted_ms, now_ms)
    stood = AddSnapshotUpdate(snapshot=stamped(copy, stamp, time_ms))
    return copy.snapshot_id, here, (stood, main_at(base, copy.snapshot_id))


def stage_append(
    staged: StagedTable,
    clock: Clock,
    files: list[DataFile],
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """
    Stage an append of data files on `main` by hand: one list, no metadata copies.

    There is a manifest for each spec that files have: another thread may have set another one
    since they were written.

    Source: what pyiceberg's fast append writes, whose producer copies the table's metadata
    about eighteen times.
    """
    base = staged.current
    parent = snapshots.main_of(base)
    snapshot_id = clock.new_snapshot_id()
    own: list[ManifestFile] = []
    for number, of_spec in enumerate(_by_spec(base, files)):
        path = staged.metadata_path(f"{clock.new_uuid()}-m{number}.avro")
        own.insert(0, _manifests.write_added(staged.io, base, path, snapshot_id, of_spec))
    staged.inheriting[snapshot_id] = own
    return _stage_listing(
        staged,
        clock,
        listing=Listing(own, parent.manifest_list if parent else None),
        parent=parent,
        operation=APPEND,
        summary=snapshots.append_summary(base, files) | dict(properties or {}),
        snapshot_id=snapshot_id,
        appended=True,
    )


def _by_spec(base: TableMetadata, files: list[DataFile]) -> list[list[DataFile]]:
    """Give files in groups of one partition spec, which a manifest has."""
    known = base.specs()
    groups: dict[int, list[DataFile]] = {}
    for file in files:
        if file.spec_id not in known:
            raise Unsupported(
                "files are of a partition spec that the log does not have: reject them, and write"
                f" their rows again; spec=`{file.spec_id}`"
            )
        groups.setdefault(file.spec_id, []).append(file)
    return list(groups.values())


def stage_drop(staged: StagedTable, clock: Clock) -> None:
    """Stage the marker of a drop: an empty snapshot that hides the table (docs/spec.md 6.5)."""
    _stage_listing(
        staged,
        clock,
        listing=Listing(),
        parent=snapshots.main_of(staged.current),
        operation="delete",
        summary={mark.SNAPSHOT_DROPPED: "true"},
    )


def _stage_listing(
    staged: StagedTable,
    clock: Clock,
    *,
    listing: Listing,
    parent: Snapshot | None,
    operation: str,
    summary: dict[str, str],
    snapshot_id: int | None = None,
    appended: bool = False,
) -> Snapshot:
    base = staged.current
    snapshot_id = snapshot_id or clock.new_snapshot_id()
    path = staged.metadata_path(f"snap-{snapshot_id}-0-{clock.new_uuid()}.avro")
    snapshot = snapshots.new_snapshot(
        staged.io,
        base,
        path,
        snapshot_id=snapshot_id,
        parent=parent,
        operation=operation,
        summary=summary,
        listing=listing,
        now_ms=clock.now_ms(),
    )
    added = AddSnapshotUpdate(snapshot=snapshot)
    staged.stage((added, main_at(base, snapshot_id)), appended=appended)
    return snapshot


def main_at(metadata: TableMetadata, snapshot_id: int) -> SetSnapshotRefUpdate:
    """Give the update that moves `main`, with at least the retention of a table under care."""
    main = metadata.refs.get(MAIN_BRANCH)
    keep = (main.min_snapshots_to_keep if main else None) or 0
    age_ms = (main.max_snapshot_age_ms if main else None) or 0
    return SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        min_snapshots_to_keep=max(keep, mark.MIN_SNAPSHOTS_TO_KEEP),
        max_snapshot_age_ms=max(age_ms, mark.MAX_SNAPSHOT_AGE_MS),
        max_ref_age_ms=main.max_ref_age_ms if main else None,
    )


def build(
    staged: StagedTable, txn_id: str, commit_ts: int, marks: Mapping[str, str]
) -> tuple[Change, CommitTableRequest]:
    """
    Give the change to log, and the request that carries it out.

    Args:
        staged: Completed (`complete`).
        txn_id: The entry's.
        commit_ts: The entry's, in ms; stamped into every staged snapshot.
        marks: Summary keys for every staged snapshot, besides the stamp.
    """
    main = staged.base.current_snapshot_id
    source = None if staged.create else main
    stamp = {
        **marks,
        mark.SNAPSHOT_COMMIT_TS: str(commit_ts),
        mark.SNAPSHOT_TXN_ID: txn_id,
    }
    updates, refs = _split(staged, source, commit_ts, stamp)
    if not staged.create:
        updates = [mark.without_unchanged(staged.base, update) for update in updates]
    if staged.create or staged.recreates:
        updates.append(SetPropertiesUpdate(updates={mark.CREATED: str(commit_ts)}))
    updates.extend(refs)
    requirements: tuple[TableRequirement, ...] = (
        (AssertCreate(),) if staged.create else _requirements(staged.base, updates)
    )
    identifier = TableIdentifier(
        namespace=Namespace(list(staged.identifier[:-1])), name=staged.identifier[-1]
    )
    _refuse_spec_ids_given_again(staged, updates)
    named = tuple(updates) if staged.create else naming_all(staged.base, requirements, updates)
    request = CommitTableRequest(identifier=identifier, requirements=requirements, updates=named)
    return _change(staged, source), request


def _refuse_spec_ids_given_again(staged: StagedTable, updates: list[TableUpdate]) -> None:
    """
    Refuse a partition spec under the id of one that the same change removes.

    Iceberg's Java, and so a server, does not give an id again that it has taken away in a commit.
    """
    gone: set[int] = set()
    for update in updates:
        if isinstance(update, RemovePartitionSpecsUpdate):
            gone.update(update.spec_ids)
        elif isinstance(update, AddPartitionSpecUpdate) and update.spec.spec_id in gone:
            raise Unsupported(
                "a transaction that removes a partition spec cannot add another one under its id:"
                f" commit the removal first; spec=`{update.spec.spec_id}`"
                f" table=`{dotted_name(staged.identifier)}`"
            )


def _split(
    staged: StagedTable, source: int | None, commit_ts: int, stamp: Mapping[str, str]
) -> tuple[list[TableUpdate], Iterable[TableUpdate]]:
    """Stamp the staged updates; give those of refs apart, one of each ref: the last."""
    root = staged.root_of_main
    updates: list[TableUpdate] = []
    refs: dict[str, TableUpdate] = {}
    for update in staged.updates:
        if isinstance(update, AddSnapshotUpdate):
            rolls_back = staged.rolls_back
            root_id = root.snapshot_id if root else None
            passes = update.snapshot.snapshot_id != staged.current.current_snapshot_id
            own = {**stamp, mark.SNAPSHOT_PASSING: "true"} if passes else stamp
            stamped = _stamped(update, root_id, source, commit_ts, own, rolls_back=rolls_back)
            updates.append(AddSnapshotUpdate(snapshot=stamped))
        elif isinstance(update, SetSnapshotRefUpdate):
            refs.pop(update.ref_name, None)
            refs[update.ref_name] = _retained(staged.base, update)
        elif isinstance(update, RemoveSnapshotRefUpdate):
            refs.pop(update.ref_name, None)
            if update.ref_name != MAIN_BRANCH:
                refs[update.ref_name] = update
        else:
            updates.append(update)
    return updates, refs.values()


def stamped(snapshot: Snapshot, stamp: Mapping[str, str], time_ms: int) -> Snapshot:
    """Give a snapshot with more keys in its summary, and a time in ms."""
    assert snapshot.summary is not None
    known = snapshot.summary.additional_properties
    summary = Summary(snapshot.summary.operation, **{**known, **stamp})
    return snapshot.model_copy(update={"summary": summary, "timestamp_ms": time_ms})


def _stamped(
    update: AddSnapshotUpdate,
    root: int | None,
    source: int | None,
    commit_ts: int,
    stamp: Mapping[str, str],
    *,
    rolls_back: bool,
) -> Snapshot:
    snapshot = update.snapshot
    before = snapshot.summary
    known = {} if before is None else before.additional_properties
    operation = SnapshotOperation.OVERWRITE if before is None else before.operation
    changes = {
        "timestamp_ms": commit_ts,
        "summary": Summary(operation, **{**known, **stamp}),
    }
    if snapshot.snapshot_id == root:
        # Also after a replacement or a rollback: main's history has no gap.
        changes["parent_snapshot_id"] = source
        if rolls_back:
            changes["summary"] = Summary(SnapshotOperation.OVERWRITE, **{**known, **stamp})
    return snapshot.model_copy(update=changes)


def _retained(base: TableMetadata, update: SetSnapshotRefUpdate) -> SetSnapshotRefUpdate:
    """Repeat the retention of a ref: pyiceberg's producers leave it out, which would drop it."""
    before = base.refs.get(update.ref_name)
    kept = {
        "min_snapshots_to_keep": update.min_snapshots_to_keep
        or (before.min_snapshots_to_keep if before else None),
        "max_snapshot_age_ms": update.max_snapshot_age_ms
        or (before.max_snapshot_age_ms if before else None),
        "max_ref_age_ms": update.max_ref_age_ms or (before.max_ref_age_ms if before else None),
    }
    if update.ref_name == MAIN_BRANCH:
        keep, age_ms = kept["min_snapshots_to_keep"] or 0, kept["max_snapshot_age_ms"] or 0
        kept["min_snapshots_to_keep"] = max(keep, mark.MIN_SNAPSHOTS_TO_KEEP)
        kept["max_snapshot_age_ms"] = max(age_ms, mark.MAX_SNAPSHOT_AGE_MS)
    return update.model_copy(update=kept)


def _change(staged: StagedTable, source: int | None) -> Change:
    return Change(
        table=staged.identifier,
        uuid=str(staged.base.table_uuid),
        operation=operation_of(staged),
        from_snapshot_id=source,
        to_snapshot_id=staged.current.current_snapshot_id,
        added_records=_count(staged, "added-records"),
        deleted_records=_count(staged, "deleted-records"),
    )


def _count(staged: StagedTable, key: str) -> int:
    return sum(int(snapshots.summary_value(each, key) or 0) for each in staged.snapshots())


def operation_of(staged: StagedTable) -> Operation:
    """Say what the staged updates amount to: the strongest of them decides."""
    if staged.create or staged.recreates:
        return Operation.CREATE
    if staged.dropped:
        return Operation.DROP
    if staged.drops_main:
        return Operation.OVERWRITE
    for update in staged.updates:
        moves_main = isinstance(update, SetSnapshotRefUpdate) and update.ref_name == MAIN_BRANCH
        if not isinstance(update, AddSnapshotUpdate) and not moves_main:
            return Operation.ALTER
    operations = {snapshots.operation_of(snapshot) for snapshot in staged.snapshots()}
    one_kind = operations in ({"append"}, {"delete"}, {"replace"})
    # After a rollback rows are gone, whatever was appended since.
    if one_kind and not staged.rolls_back:
        return Operation(operations.pop())
    return Operation.OVERWRITE


def _requirements(base: TableMetadata, updates: list[TableUpdate]) -> tuple[TableRequirement, ...]:
    """Give what Iceberg's `UpdateRequirements.forUpdateTable` derives for updates."""
    found: dict[object, TableRequirement] = {}
    for update in updates:
        match update:
            case SetSnapshotRefUpdate() | RemoveSnapshotRefUpdate():
                found[update.ref_name] = _ref_requirement(base, update.ref_name)
            case AddSchemaUpdate():
                found[type(update)] = AssertLastAssignedFieldId(
                    last_assigned_field_id=base.last_column_id
                )
            case SetCurrentSchemaUpdate() | RemoveSchemasUpdate():
                found[AssertCurrentSchemaId] = AssertCurrentSchemaId(
                    current_schema_id=base.current_schema_id
                )
            case AddPartitionSpecUpdate():
                found[type(update)] = AssertLastAssignedPartitionId(
                    last_assigned_partition_id=base.last_partition_id
                )
            case SetDefaultSpecUpdate() | RemovePartitionSpecsUpdate():
                found[AssertDefaultSpecId] = AssertDefaultSpecId(
                    default_spec_id=base.default_spec_id
                )
            case SetDefaultSortOrderUpdate():
                found[type(update)] = AssertDefaultSortOrderId(
                    default_sort_order_id=base.default_sort_order_id
                )
    return (AssertTableUUID(uuid=base.table_uuid), *found.values())


def _ref_requirement(base: TableMetadata, name: str) -> AssertRefSnapshotId:
    ref = base.refs.get(name)
    return AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id if ref else None)
