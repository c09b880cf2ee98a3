"""
Data files of which delete files mark rows, looked up in manifests by their paths.

What a delete file says of itself is its partition and, where it marks rows of one file alone, that
file's path. Which rows these may be, the data file's own statistics tell. As few manifests are
opened as their lists allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, And, EqualTo, IsNull, Reference
from pyiceberg.expressions.visitors import manifest_evaluator
from pyiceberg.manifest import ManifestContent

from txns._iceberg.file_changes import gone_is_a_gap, marked_file
from txns._iceberg.manifest_entries import files_at, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Record

_MOST_BYTES = 256 << 20
"""Of manifests that are read for it: whoever has more has other troubles than a conflict."""


def looked_up(
    io: FileIO,
    metadata: TableMetadata,
    deletes: Iterable[DataFile],
    snapshots: Iterable[Snapshot | None],
) -> dict[str, DataFile]:
    """
    Give the data files of which delete files mark rows, by their paths.

    Args:
        io: Where they are.
        metadata: Of their table.
        deletes: Each marks rows of one data file alone (`file_changes.marked_file`).
        snapshots: In which these may stand, the likeliest first.

    Returns:
        Those that stand in one, in a manifest where their delete files' partitions may be.

    Raises:
        HistoryGap: Files of a snapshot are gone.
    """
    found: dict[str, DataFile] = {}
    missing = {path for each in deletes if (path := marked_file(each)) is not None}
    with gone_is_a_gap():
        for manifest in _manifests(io, metadata, deletes, snapshots):
            if not missing:
                break
            found |= {file.file_path: file for file in files_at(io, manifest, missing)}
            missing -= found.keys()
    return found


def _manifests(
    io: FileIO,
    metadata: TableMetadata,
    deletes: Iterable[DataFile],
    snapshots: Iterable[Snapshot | None],
) -> Iterator[ManifestFile]:
    """Give each manifest of data files once that may have the partition of a delete file."""
    may_have = _evaluators(metadata, deletes)
    seen: set[str] = set()
    left = _MOST_BYTES
    for snapshot in filter(None, snapshots):
        for manifest in listed(io, snapshot.manifest_list):
            if manifest.manifest_path in seen or not _has_files(manifest):
                continue
            seen.add(manifest.manifest_path)
            if any(each(manifest) for each in may_have.get(manifest.partition_spec_id, ())):
                left -= manifest.manifest_length
                if left < 0:
                    return
                yield manifest


def _has_files(manifest: ManifestFile) -> bool:
    """Whether a manifest has data files that are not deleted."""
    live = manifest.has_added_files() or manifest.has_existing_files()
    return live and manifest.content == ManifestContent.DATA


def _evaluators(
    metadata: TableMetadata, deletes: Iterable[DataFile]
) -> dict[int, list[Callable[[ManifestFile], bool]]]:
    """Say of a manifest whether it may have a partition, by the spec of that."""
    found: dict[int, list[Callable[[ManifestFile], bool]]] = {}
    specs, schema = metadata.specs(), metadata.schema()
    for spec_id, partition in {(each.spec_id, each.partition) for each in deletes}:
        try:
            within = _within(specs[spec_id], partition)
            evaluator = manifest_evaluator(specs[spec_id], schema, within)
        except (TypeError, ValueError):  # of a column that is gone, or a value without words
            evaluator = _anything
        found.setdefault(spec_id, []).append(evaluator)
    return found


def _anything(_manifest: ManifestFile) -> bool:
    return True


def _within(spec: PartitionSpec, partition: Record) -> BooleanExpression:
    """Give the condition on partitions that holds for one, or for more where it has no words."""
    within: BooleanExpression = AlwaysTrue()
    for at, field in enumerate(spec.fields):
        value = partition[at]
        if value is None:
            within = And(within, IsNull(term=Reference(field.name)))
        elif value == value:  # a NaN has no words  # noqa: PLR0124
            within = And(within, EqualTo(term=Reference(field.name), value=value))
    return within
