"""
What must hold of row ids whenever a table of format 3 is swapped.

Each row has an id for life: a snapshot takes the next ones of its table for the rows that it adds
(Iceberg's specification, "Row Lineage"). So what a transaction has staged gets others when
somebody else was first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table.metadata import TableMetadataV3

from tests.simulation.contents import is_copy
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from tests.simulation.contents import Contents

Identifier = tuple[str, ...]


def check(
    name: Identifier, old: TableMetadata | None, new: TableMetadata, contents: Contents
) -> None:
    """Judge the ids that new snapshots of a table give to its rows."""
    if not isinstance(new, TableMetadataV3):
        return
    next_id = (old.next_row_id or 0) if isinstance(old, TableMetadataV3) else 0
    known = {one.snapshot_id for one in old.snapshots} if old else set()
    for snapshot in new.snapshots:
        if snapshot.snapshot_id in known:
            continue
        first, added = snapshot.first_row_id, snapshot.added_rows
        if first is None or added is None or first < next_id:
            raise Violation("row ids", f"{name}: {added} rows from {first}, the next is {next_id}")
        next_id += added  # it may span ids that nobody took
        if not is_copy(snapshot):  # whose list has ids that others may have by now
            _judge_files(name, snapshot, next_id, contents)
    if (new.next_row_id or 0) < next_id:
        raise Violation("row ids", f"{name}: the next is {new.next_row_id}, given were {next_id}")
    if old is not None:
        nothing_is_renamed(name, _newest_of_ours(old), new.current_snapshot(), contents)


def _newest_of_ours(metadata: TableMetadata) -> Snapshot | None:
    """Give what `main` has of the log: whoever adopts strangers' rows appends them once more."""
    at = metadata.current_snapshot()
    while at is not None and not _is_ours(at):
        at = metadata.snapshot_by_id(at.parent_snapshot_id or -1)
    return at


def _is_ours(snapshot: Snapshot) -> bool:
    return bool(snapshot.summary and "txns.commit-ts" in snapshot.summary.additional_properties)


def _judge_files(name: Identifier, snapshot: Snapshot, end: int, contents: Contents) -> None:
    """Judge that each row of a snapshot has one id, which no other has."""
    for manifest in contents.manifests(snapshot.manifest_list):
        if manifest.content == ManifestContent.DATA and manifest.row_id is None:
            raise Violation("row ids", f"{name}: the manifest {manifest.path} has none")
    ranges = sorted(
        (file.row_id, file.row_id + file.records, file.path)
        for file in contents.live(snapshot.manifest_list)
        if file.content == DataFileContent.DATA and file.row_id is not None
    )
    for (_first, after, path), (following, _after, other) in pairwise((*ranges, (end, end, ""))):
        if after > following:
            raise Violation("row ids", f"{name}: {path} ends at {after}, {other} is {following}")


def nothing_is_renamed(
    name: Identifier, old: Snapshot | None, new: Snapshot | None, contents: Contents
) -> None:
    """Judge that files that stay keep the ids of their rows."""
    before, after = ({}, {}) if old is None or new is None else map(contents.row_ids, (old, new))
    for path in before.keys() & after.keys():
        if before[path] is not None and before[path] != after[path]:
            raise Violation("row ids", f"{name}: {path} had {before[path]}, has {after[path]}")
