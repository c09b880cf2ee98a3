"""
Rows without data files: a file's path says which rows it holds.

`.../data/7+9-3.parquet` holds the rows 7 and 9. So what a snapshot holds follows from its
manifests, a compaction writes other files with the same rows, and no parquet is needed.
"""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntryStatus,
    read_manifest_list,
)
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import Record

from tests.simulation.scheduler import Violation
from tests.simulation.storage import SimulatedFileIO, Storage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_DELETES = "deletes"
"""The folder of delete files, whose names say which rows they take away."""

Row = int
Rows = frozenset[Row]


def data_file(metadata: TableMetadata, rows: Iterable[Row], version: int) -> DataFile:
    """Make a data file that holds rows; `version` tells files with the same rows apart."""
    held = sorted(rows)
    name = "+".join(map(str, held))
    return real_file(f"{metadata.location}/data/{name}-{version}.parquet", metadata, len(held))


def real_file(path: str, metadata: TableMetadata, record_count: int) -> DataFile:
    """Give a data file as manifests have it, whatever it holds."""
    spec = metadata.spec()
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*[None] * len(spec.fields)),
        record_count=record_count,
        file_size_in_bytes=100,
        sort_order_id=None,
        spec_id=spec.spec_id,
        equality_ids=None,
        key_metadata=None,
        split_offsets=None,
    )
    file.spec_id = spec.spec_id
    return file


def rows_of(path: str) -> list[Row]:
    """Give the rows that a file holds."""
    return [int(row) for row in path.rsplit("/", 1)[1].rsplit("-", 1)[0].split("+")]


def held(tasks: Iterable[Any]) -> Rows:
    """Give the rows that files of a scan hold, without those that its delete files take away."""
    return frozenset(
        row
        for task in tasks
        for row in set(rows_of(task.file.file_path)).difference(
            *(rows_of(each.file_path) for each in task.delete_files)
        )
    )


def delete_path(table: Any, row: Row, version: int) -> str:
    """Give the path of a delete file that takes a row away."""
    return f"{table.metadata.location}/data/{_DELETES}/{row}-{version}.parquet"


def _is_delete(path: str) -> bool:
    return f"/{_DELETES}/" in path


class Contents:
    """What snapshots hold, read from their manifests without steps."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._io = SimulatedFileIO(storage)
        self._manifests: dict[str, tuple[tuple[str, bool], ...]] = {}
        self._lists: dict[str, tuple[str, ...]] = {}
        self.sequence_numbers: dict[str, list[tuple[int, int]]] = {}

    def manifest_paths(self, manifest_list: str) -> tuple[str, ...]:
        """Give the manifests of a manifest list, all of which must exist."""
        known = self._lists.get(manifest_list)
        if known is None:
            self._must_exist(manifest_list)
            found = list(read_manifest_list(_Quiet(self._storage, manifest_list)))
            known = tuple(one.manifest_path for one in found)
            self.sequence_numbers[manifest_list] = [
                (one.added_snapshot_id, one.sequence_number) for one in found
            ]
            self._lists[manifest_list] = known
            for manifest in found:
                self._read(manifest)
        self._must_exist(manifest_list)
        for path in known:
            self._must_exist(path)
        return known

    def _must_exist(self, path: str) -> None:
        if path not in self._storage.files:
            raise Violation("files", f"a file that a snapshot needs was deleted: {path}")

    def _read(self, manifest: Any) -> None:
        path = manifest.manifest_path
        if path in self._manifests:
            return
        self._must_exist(path)
        entries = manifest.fetch_manifest_entry(_QuietIO(self._storage), discard_deleted=False)
        self._manifests[path] = tuple(
            (entry.data_file.file_path, entry.status != ManifestEntryStatus.DELETED)
            for entry in entries
        )

    def files(self, snapshot: Snapshot | None) -> list[str]:
        """Give the files that are live in a snapshot, repeated if they are there twice."""
        return [] if snapshot is None else self._files_of_list(snapshot.manifest_list)

    def removed(self, snapshot: Snapshot) -> set[str]:
        """Give the data files that a snapshot marks as deleted, in manifests of its own."""
        paths = self.manifest_paths(snapshot.manifest_list)
        numbers = self.sequence_numbers[snapshot.manifest_list]
        return {
            file
            for path, (added_by, _) in zip(paths, numbers, strict=True)
            if added_by == snapshot.snapshot_id
            for file, live in self._manifests[path]
            if not live
        }

    def _files_of_list(self, manifest_list: str) -> list[str]:
        paths = self.manifest_paths(manifest_list)
        return [file for path in paths for file, live in self._manifests[path] if live]

    def rows(self, snapshot: Snapshot | None) -> Rows:
        """Give the rows that a snapshot holds; a row twice is a violation."""
        return frozenset() if snapshot is None else self.rows_of_list(snapshot.manifest_list)

    def rows_of_list(self, manifest_list: str) -> Rows:
        """Give the rows that a manifest list leads to; a row twice is a violation."""
        files = self._files_of_list(manifest_list)
        if expired := self._storage.expired_data.intersection(files):
            raise Violation("files", f"data that a snapshot needs was expired: {sorted(expired)}")
        counts = Counter(row for file in files if not _is_delete(file) for row in rows_of(file))
        gone = {row for file in files if _is_delete(file) for row in rows_of(file)}
        if twice := [row for row, count in counts.items() if count > 1]:
            raise Violation("exactly once", f"rows {twice} stand twice in one snapshot")
        return frozenset(counts.keys() - gone)


class _Quiet:
    """An input file that is opened without a step."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._storage = storage
        self.location = location

    def open(self, seekable: bool = True) -> Any:  # noqa: FBT001, FBT002 -- pyiceberg's
        del seekable
        return io.BytesIO(self._storage.bytes_of(self.location))


class _QuietIO(SimulatedFileIO):
    def new_input(self, location: str) -> Any:
        return _Quiet(self.storage, location)


class Compaction(_OverwriteFiles):
    """A `replace` snapshot: other files, same rows."""

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        summary = super()._summary(snapshot_properties or {})
        return Summary(operation=Operation.REPLACE, **summary.additional_properties)


def compact(table: Table, tasks: list[Any], version: int, branch: str = "main") -> None:
    """Rewrite data files into one, as compaction services do."""
    files, made = [task.file for task in tasks], data_file(table.metadata, held(tasks), version)
    if hasattr(table, "rewrite"):  # of Java's core, which has an operation for it
        table.rewrite(files, made)
    else:
        replace_files(table, files, made, branch)


def replace_files(
    table: Table, files: list[DataFile], file: DataFile, branch: str = "main"
) -> None:
    """Put one data file in the place of others that hold the same."""
    with (
        table.transaction() as changes,
        Compaction(Operation.OVERWRITE, changes, table.io, branch=branch) as producer,
    ):
        for each in files:
            producer.delete_data_file(each)
        producer.append_data_file(file)
