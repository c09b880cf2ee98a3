"""
Which files came to a table, and left it, between two of its snapshots.

By the paths in their manifests, not by what anybody says of them: a stranger's compaction is no
entry of a log, and removes files all the same. A manifest that both have is not opened.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent
from pyiceberg.table.delete_file_index import _referenced_data_file_path

from txns._iceberg import snapshots
from txns._iceberg.manifest_entries import listed, live_files, referenced_data_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


class HistoryGap(Exception):
    """What a table was is no ancestor of what it is, or its files are gone: nobody knows more."""


@contextmanager
def gone_is_a_gap() -> Iterator[None]:
    """
    Read files of a table's past.

    Raises:
        HistoryGap: One is gone.
    """
    try:
        yield
    except FileNotFoundError as error:  # expiry has taken them
        raise HistoryGap from error


@dataclass(slots=True)
class FileChanges:
    """
    Files that came and left, by their paths; delete files apart.

    Attributes:
        added: Data files that came: one may come more than once.
        removed: Data files that left.
        added_deletes: Delete files that came: one of deletion vectors may come in several pieces.
        removed_deletes: Delete files that left.
        shared: The manifests that both states list, by path: what came or left is in none of them.
    """

    added: list[DataFile] = field(default_factory=list)
    removed: dict[str, DataFile] = field(default_factory=dict)
    added_deletes: list[DataFile] = field(default_factory=list)
    removed_deletes: list[DataFile] = field(default_factory=list)
    shared: frozenset[str] = frozenset()

    def come(self, file: DataFile) -> None:
        """Note a file that came."""
        if file.content == DataFileContent.DATA:
            self.added.append(file)
        else:
            self.added_deletes.append(file)

    def leave(self, file: DataFile) -> None:
        """Note a file that left."""
        if file.content == DataFileContent.DATA:
            self.removed[file.file_path] = file
        else:
            self.removed_deletes.append(file)

    @property
    def files(self) -> list[DataFile]:
        """All data files that came or left."""
        return [*self.added, *self.removed.values()]

    @property
    def empty(self) -> bool:
        """Whether no file came or left."""
        return not self.files and not self.deletes

    @property
    def deletes(self) -> list[DataFile]:
        """All delete files that came or left."""
        return [*self.added_deletes, *self.removed_deletes]


def between(io: FileIO, before: Snapshot | None, after: Snapshot | None) -> FileChanges:
    """
    Give what two states of a table do not share; None is a table without a snapshot.

    Raises:
        HistoryGap: Files of one are gone.
    """
    return _difference(io, _manifests(io, before), _manifests(io, after))


def since(
    io: FileIO, metadata: TableMetadata, before: int | None
) -> Iterator[tuple[Snapshot, Callable[[], FileChanges]]]:
    """
    Give each snapshot of `main` that stands on another one, newest first, and what it changed.

    Raises:
        HistoryGap: `main` does not stand on it; the changes raise it where files are gone.
    """
    walk = snapshots.History(metadata).ancestors(snapshots.main_of(metadata))
    snapshot = next(walk, None)
    listed_at = lru_cache(maxsize=2)(partial(_listed_at, io))  # each list is one of two steps
    while snapshot is not None and snapshot.snapshot_id != before:
        parent = next(walk, None)
        if parent is None and snapshot.parent_snapshot_id is not None:
            raise HistoryGap
        yield snapshot, partial(_step, io, listed_at, parent, snapshot)
        snapshot = parent
    if snapshot is None and before is not None:
        raise HistoryGap


def marked_file(deletes: DataFile) -> str | None:
    """Give the only data file whose rows a delete file marks; None where it may be several."""
    if deletes.content != DataFileContent.POSITION_DELETES:
        return None
    return referenced_data_file(deletes) or _referenced_data_file_path(deletes)


def reaches(deletes: DataFile, file: DataFile, specs: dict[int, PartitionSpec]) -> bool:
    """Whether a delete file may hold a row of an older data file."""
    marked = marked_file(deletes)
    if marked is not None:
        return marked == file.file_path
    equality = deletes.content == DataFileContent.EQUALITY_DELETES
    if equality and specs[deletes.spec_id].is_unpartitioned():
        return True
    return deletes.spec_id == file.spec_id and deletes.partition == file.partition


_Manifests = dict[str, "ManifestFile"]


def _manifests(io: FileIO, snapshot: Snapshot | None) -> _Manifests:
    return _listed_at(io, snapshot.manifest_list) if snapshot else {}


def _listed_at(io: FileIO, manifest_list: str) -> _Manifests:
    with gone_is_a_gap():
        return {each.manifest_path: each for each in listed(io, manifest_list)}


def _step(
    io: FileIO, listed_at: Callable[[str], _Manifests], parent: Snapshot | None, snapshot: Snapshot
) -> FileChanges:
    old = listed_at(parent.manifest_list) if parent else {}
    return _difference(io, old, listed_at(snapshot.manifest_list))


def _difference(io: FileIO, old: _Manifests, new: _Manifests) -> FileChanges:
    with gone_is_a_gap():
        was = _live(io, (old[path] for path in old.keys() - new.keys()))
        now = _live(io, (new[path] for path in new.keys() - old.keys()))
    found = FileChanges(shared=frozenset(old.keys() & new.keys()))
    for key in was.keys() | now.keys():
        before, after = was.get(key, []), now.get(key, [])
        for file in before[len(after) :]:
            found.leave(file)
        for file in after[len(before) :]:
            found.come(file)
    return found


def _live(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> dict[tuple[object, ...], list[DataFile]]:
    """Give files by what tells them apart: the deletion vectors of several share one file."""
    found: dict[tuple[object, ...], list[DataFile]] = {}
    for file in (file for each in manifests for file in live_files(io, each)):
        key = file.file_path, marked_file(file), file.spec_id, file.partition
        found.setdefault(key, []).append(file)
    return found
