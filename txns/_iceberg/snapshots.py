"""
Snapshots of a table: what they say, where they stand, and how a new one is made.

No I/O, but for the manifest list of a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyiceberg.table import TableProperties
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.utils.properties import property_as_int

from txns._iceberg import manifests as _manifests
from txns._iceberg.snapshot_index import index_of, keys_of
from txns.errors import CorruptLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from txns._iceberg.manifests import Listing


REPLACE = "replace"


APPEND = "append"

_COMPUTED = (
    *("added-", "changed-", "deleted-", "entries-", "manifests-", "removed-", "total-"),
    *("partition-summaries-included", "partitions."),
)
"""How the keys of a summary begin that every snapshot computes for itself."""


def find(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """Give a snapshot by its id, of two the later one; None for one that is not there."""
    newest = metadata.snapshots[-1] if metadata.snapshots else None
    if newest is not None and newest.snapshot_id == snapshot_id:
        return newest  # which is asked for most often
    return index_of(metadata).get(snapshot_id)


def main_of(metadata: TableMetadata) -> Snapshot | None:
    """Give the snapshot that `main` stands on, as `current_snapshot` does, without a walk."""
    main = metadata.current_snapshot_id
    return None if main is None else find(metadata, main)


class History:
    """The snapshots of one table by id: walks are linear in their length, not its square."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._index = index_of(metadata)

    def get(self, snapshot_id: int | None) -> Snapshot | None:
        """Give a snapshot by its id; None for one that is not, or no longer, there."""
        return None if snapshot_id is None else self._index.get(snapshot_id)

    def parent(self, snapshot: Snapshot) -> Snapshot | None:
        """Give a snapshot's parent; None where there is none, or it has been expired."""
        return self.get(snapshot.parent_snapshot_id)

    def ancestors(self, snapshot: Snapshot | None) -> Iterator[Snapshot]:
        """
        Give a snapshot and its ancestors, newest first.

        Raises:
            CorruptLog: A snapshot is its own ancestor: nobody would come to an end.
        """
        seen: set[int] = set()
        while snapshot is not None:
            if snapshot.snapshot_id in seen:
                raise CorruptLog(
                    "a snapshot stands on itself: the history of its table goes in a circle;"
                    f" snapshot=`{snapshot.snapshot_id}`"
                )
            seen.add(snapshot.snapshot_id)
            yield snapshot
            snapshot = self.parent(snapshot)


def adds_files(snapshot: Snapshot) -> bool:
    """Whether a snapshot says that it adds data or delete files."""
    added = ("added-data-files", "added-delete-files")
    return any(int(summary_value(snapshot, key) or 0) for key in added)


def summary_value(snapshot: Snapshot | None, key: str) -> str | None:
    """Give a key of a snapshot's summary, but for `operation`."""
    if snapshot is None or snapshot.summary is None:
        return None
    value = keys_of(snapshot.summary).get(key)
    if value is not None and not isinstance(value, str):  # pyiceberg takes what Iceberg does not
        raise CorruptLog(f"a snapshot's summary holds texts; {key}=`{value}`")
    return value


def own_words(snapshot: Snapshot) -> dict[str, str]:
    """Give the keys of a snapshot's summary that programs have set."""
    own = snapshot.summary.additional_properties if snapshot.summary else {}
    return {key: value for key, value in own.items() if not key.startswith(_COMPUTED)}


def operation_of(snapshot: Snapshot) -> str | None:
    """Give a snapshot's operation; None for one without a summary."""
    return None if snapshot.summary is None else snapshot.summary.operation.value


def new_snapshot(
    io: FileIO,
    metadata: TableMetadata,
    path: str,
    *,
    snapshot_id: int,
    parent: Snapshot | None,
    operation: str,
    summary: dict[str, str],
    listing: Listing,
    now_ms: int,
) -> Snapshot:
    """
    Write the manifest list of a table's next snapshot; give the snapshot.

    Args:
        io: Where the list is written.
        metadata: The table that it is the next snapshot of.
        path: The list's.
        snapshot_id: Its id.
        parent: What it stands on; None for nothing.
        operation: Its operation, as Iceberg names it.
        summary: The other keys of its summary.
        listing: What it lists; manifests without a sequence number take the snapshot's.
        now_ms: Its time, which may have to be moved to follow the table's.
    """
    parent_id = parent.snapshot_id if parent else None
    sequence_number = metadata.next_sequence_number()
    _manifests.write_list(
        io,
        metadata,
        path,
        snapshot_id=snapshot_id,
        parent_id=parent_id,
        sequence_number=sequence_number,
        listing=listing,
    )
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent_id,
        sequence_number=sequence_number,
        timestamp_ms=now_ms,
        manifest_list=path,
        summary=Summary(Operation(operation), **summary),
        schema_id=metadata.current_schema_id,
    )


def append_summary(metadata: TableMetadata, files: Sequence[DataFile]) -> dict[str, str]:
    """Give the keys of an append's summary, as pyiceberg's producers compute them."""
    limit = property_as_int(
        metadata.properties,
        TableProperties.WRITE_PARTITION_SUMMARY_LIMIT,
        TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT,
    )
    collector = SnapshotSummaryCollector(limit or 0)
    for file in files:
        collector.add_file(file, metadata.schema(), metadata.specs()[file.spec_id])
    main = main_of(metadata)
    before = main.summary if main else None
    keys = _Keys(collector.build())
    # One without keys says something else to pyiceberg than none at all.
    known = (keys_of(before) or before) if before else None
    update_snapshot_summaries(cast("Summary", keys), cast("Mapping[str, str] | None", known))
    return dict(keys)


class _Keys(dict[str, str]):
    """The keys of an append's summary, which a model of pyiceberg gives in ten times as long."""

    operation = Operation.APPEND


def branch_at(
    name: str,
    snapshot_id: int,
    *,
    min_snapshots_to_keep: int | None = None,
    max_snapshot_age_ms: int | None = None,
    max_ref_age_ms: int | None = None,
) -> SetSnapshotRefUpdate:
    """Give the update that moves a branch, with its retention."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        min_snapshots_to_keep=min_snapshots_to_keep,
        max_snapshot_age_ms=max_snapshot_age_ms,
        max_ref_age_ms=max_ref_age_ms,
    )


def totals_of(snapshot: Snapshot | None) -> dict[str, str]:
    """Give the `total-*` keys of a snapshot's summary; zeros for none."""
    if snapshot is None or snapshot.summary is None:
        return dict.fromkeys(
            (
                "total-data-files",
                "total-delete-files",
                "total-records",
                "total-files-size",
                "total-position-deletes",
                "total-equality-deletes",
            ),
            "0",
        )
    properties = snapshot.summary.additional_properties
    return {key: value for key, value in properties.items() if key.startswith("total-")}
