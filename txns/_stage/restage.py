"""
Rebuilds staged appends on a newer base, without rewriting their data files.

Snapshots get new ids: a change of another entry may already stand on the old ones
(schedule 3 of the protocol's races).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestEntryStatus, clear_manifest_cache
from pyiceberg.table.update import AddSnapshotUpdate

from txns._iceberg import manifests as _manifests
from txns._iceberg import snapshots, what_helps
from txns._iceberg.manifest_entries import inherits_snapshot_id, live_entries
from txns._stage.change_builder import main_at
from txns._stage.staged_table import StagedTable
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from txns._clock import Clock
    from txns.errors import Winner

_TOTALS = {
    "total-data-files": "added-data-files",
    "total-records": "added-records",
    "total-files-size": "added-files-size",
}


def restage(
    staged: StagedTable,
    newer: TableMetadata,
    clock: Clock,
    *,
    txn_id: str,
    winner: Winner,
    least_ts: int,
) -> StagedTable:
    """
    Put the same appends on `newer`.

    Args:
        staged: Only appends (`StagedTable.append_only`).
        newer: The table as it is now.
        clock: For the new snapshots' ids.
        txn_id: The transaction, for messages.
        winner: The one that came first, for messages.
        least_ts: The least `read_ts` in ms at which it would not clash.

    Raises:
        Conflict: The table's schema, partition spec or uuid is another one now.
    """
    if not same_shape(staged.base, newer):
        raise Conflict(
            "the table that it appends to has another schema or partitioning now"
            + what_helps.words(what_helps.Clash.ALTERED),
            table=staged.identifier,
            txn_id=txn_id,
            winner=winner,
            least_ts=least_ts,
        )
    restaged = StagedTable(staged.identifier, staged.io.inner, newer)
    with whole_or_gone(restaged):
        for snapshot in staged.snapshots():
            _append(restaged, snapshot, staged.inheriting.get(snapshot.snapshot_id), clock)
    clear_manifest_cache()  # it would give the manifests their old sequence numbers back
    return restaged


@contextmanager
def whole_or_gone(restaged: StagedTable) -> Iterator[None]:
    """Delete what was written for a table that is made again, where that comes to no end."""
    try:
        yield
    except BaseException:
        restaged.io.delete_created()
        raise


def same_shape(base: TableMetadata, newer: TableMetadata) -> bool:
    """Whether files and filters of a table mean the same in a newer state of it."""
    return (
        base.table_uuid == newer.table_uuid
        and base.schema().as_struct() == newer.schema().as_struct()
        and base.spec() == newer.spec()
        and base.format_version == newer.format_version
    )


def _append(
    restaged: StagedTable,
    snapshot: Snapshot,
    inheriting: Sequence[ManifestFile] | None,
    clock: Clock,
) -> None:
    """Stage one append again; `inheriting` are its manifests, where it is known that they do."""
    base = restaged.current
    main = base.current_snapshot()
    snapshot_id, was = clock.new_snapshot_id(), snapshot.snapshot_id
    own: list[ManifestFile] = []
    if inheriting is None:
        for manifest in _manifests.manifests_of(restaged.io, snapshot.manifest_list):
            if manifest.added_snapshot_id == was:
                own.extend(_taken_over(restaged, manifest, snapshot, snapshot_id, clock))
    else:
        own = [_manifests.owned_by(manifest, snapshot_id, was=was) for manifest in inheriting]
        restaged.inheriting[snapshot_id] = own
    restaged.replaced.append(snapshot.manifest_list)
    path = restaged.metadata_path(f"snap-{snapshot_id}-0-{clock.new_uuid()}.avro")
    again = snapshots.new_snapshot(
        restaged.io,
        base,
        path,
        snapshot_id=snapshot_id,
        parent=main,
        operation=snapshots.APPEND,
        summary=_summary(snapshot, main),
        listing=_manifests.Listing(own, main.manifest_list if main else None),
        now_ms=clock.now_ms(),
    )
    added = AddSnapshotUpdate(snapshot=again)
    restaged.stage((added, main_at(base, snapshot_id)), appended=True)


def _taken_over(
    restaged: StagedTable,
    manifest: ManifestFile,
    snapshot: Snapshot,
    snapshot_id: int,
    clock: Clock,
) -> list[ManifestFile]:
    """
    Give a manifest of a staged append as its new snapshot lists it.

    Its entries may name the old snapshot, or be merged with older ones: then the added files
    are written into a new manifest. Entries that inherit the id are left as they are.
    """
    if inherits_snapshot_id(restaged.io, manifest):
        return [_manifests.owned_by(manifest, snapshot_id, was=snapshot.snapshot_id)]
    restaged.replaced.append(manifest.manifest_path)
    files = [
        entry.data_file
        for entry in live_entries(restaged.io, manifest)
        if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
    ]
    if not files:
        return []
    path = restaged.metadata_path(f"{clock.new_uuid()}-m0.avro")
    return [_manifests.write_added(restaged.io, restaged.current, path, snapshot_id, files)]


def _summary(snapshot: Snapshot, main: Snapshot | None) -> dict[str, str]:
    """Give the append's own keys, with the totals of its new place."""
    own = snapshot.summary.additional_properties if snapshot.summary else {}
    summary = {key: value for key, value in own.items() if not key.startswith("total-")}
    for key, value in snapshots.totals_of(main).items():
        added = int(snapshots.summary_value(snapshot, _TOTALS.get(key, "")) or 0)
        summary[key] = str(int(value) + added)
    return summary
