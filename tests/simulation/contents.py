"""
What snapshots hold, read from their manifests without steps.

A delete file takes rows away from what is older than it: by position also from what came with it.
So a snapshot holds other rows where a sequence number is wrong.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)

from tests.simulation.rows import rows_of
from tests.simulation.scheduler import Violation

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from tests.simulation.rows import Row, Rows
    from tests.simulation.storage import Storage

_FORMAT = 3
"""The newest format, whose schemas read files of those before."""

_LISTED_ROW_ID = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[_FORMAT].fields].index(
    "first_row_id"
)
_OF_FILES = [field.name for field in DATA_FILE_TYPE[_FORMAT].fields]
_FILES_ROW_ID = _OF_FILES.index("first_row_id")
_FILES_MARKED = _OF_FILES.index("referenced_data_file")


@dataclass(frozen=True)
class File:
    """
    A file as a manifest of a snapshot has it.

    Attributes:
        number: Its data sequence number.
        row_id: The id of its first row, where the table's format has such.
        marks: The only data file whose rows it takes away by position; None where none is said.
    """

    path: str
    content: DataFileContent
    number: int
    row_id: int | None
    records: int
    is_live: bool
    marks: str | None = None


@dataclass(frozen=True)
class Manifest:
    """
    A manifest as a manifest list has it, with its files.

    Attributes:
        added_by: The snapshot that has brought it.
        number: Its sequence number.
        row_id: The id of the first row of its files that have none of their own.
    """

    path: str
    content: ManifestContent
    added_by: int
    number: int
    row_id: int | None
    files: tuple[File, ...]


def is_copy(snapshot: Snapshot) -> bool:
    """Whether a snapshot has the list of one that cannot be applied (spec 8.5)."""
    return bool(snapshot.summary and "txns.copy-of" in snapshot.summary.additional_properties)


class Contents:
    """What snapshots hold."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lists: dict[str, tuple[Manifest, ...]] = {}
        self._files: dict[tuple[str, int, int | None], tuple[File, ...]] = {}

    def manifest_paths(self, manifest_list: str) -> tuple[str, ...]:
        """Give the manifests of a manifest list, all of which must exist."""
        return tuple(one.path for one in self.manifests(manifest_list))

    def manifests(self, manifest_list: str) -> tuple[Manifest, ...]:
        """Give the manifests of a manifest list, all of which must exist, with their files."""
        self._must_exist(manifest_list)
        if manifest_list not in self._lists:
            listed = self._listed(manifest_list)
            self._lists[manifest_list] = tuple(self._manifest(one) for one in listed)
        for each in self._lists[manifest_list]:
            self._must_exist(each.path)
        return self._lists[manifest_list]

    def _must_exist(self, path: str) -> None:
        if path not in self._storage.files:
            raise Violation("files", f"a file that a snapshot needs was deleted: {path}")

    def _listed(self, manifest_list: str) -> list[ManifestFile]:
        with AvroFile[ManifestFile](
            _Quiet(self._storage, manifest_list),
            MANIFEST_LIST_FILE_SCHEMAS[_FORMAT],
            read_types={-1: ManifestFile, 508: PartitionFieldSummary},
            read_enums={517: ManifestContent},
        ) as reader:
            return list(reader)

    def _manifest(self, listed: ManifestFile) -> Manifest:
        path, number, row_id = (
            listed.manifest_path,
            listed.sequence_number,
            listed._data[_LISTED_ROW_ID],
        )
        if (path, number, row_id) not in self._files:
            self._must_exist(path)
            self._files[path, number, row_id] = self._read(path, number, row_id)
        return Manifest(
            path,
            listed.content,
            listed.added_snapshot_id or 0,
            number,
            row_id,
            self._files[path, number, row_id],
        )

    def _read(self, path: str, number: int, row_id: int | None) -> tuple[File, ...]:
        """
        Read a manifest; what its entries do not say themselves is its own.

        Source of the ids of rows: `ManifestReader.idAssigner` of Iceberg 1.12.
        """
        with AvroFile[ManifestEntry](
            _Quiet(self._storage, path),
            MANIFEST_ENTRY_SCHEMAS[_FORMAT],
            read_types={-1: ManifestEntry, 2: DataFile},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as reader:
            entries = list(reader)
        files = []
        for entry in entries:
            file, is_live = entry.data_file, entry.status != ManifestEntryStatus.DELETED
            own_row_id = file._data[_FILES_ROW_ID]
            if own_row_id is None and row_id is not None and is_live:
                own_row_id, row_id = row_id, row_id + file.record_count
            files.append(
                File(
                    file.file_path,
                    file.content,
                    number if entry.sequence_number is None else entry.sequence_number,
                    own_row_id,
                    file.record_count,
                    is_live,
                    file._data[_FILES_MARKED],
                )
            )
        return tuple(files)

    # ------------------------------------------------------------ snapshots

    def live(self, manifest_list: str) -> list[File]:
        """Give the files that are live in a manifest list, repeated if they are there twice."""
        return [file for one in self.manifests(manifest_list) for file in one.files if file.is_live]

    def files(self, snapshot: Snapshot | None) -> list[str]:
        """Give the paths of the files that are live in a snapshot."""
        return [] if snapshot is None else [file.path for file in self.live(snapshot.manifest_list)]

    def removed(self, snapshot: Snapshot) -> set[str]:
        """Give the files that a snapshot marks as deleted, in manifests of its own."""
        return {
            file.path
            for one in self.manifests(snapshot.manifest_list)
            if one.added_by == snapshot.snapshot_id
            for file in one.files
            if not file.is_live
        }

    def row_ids(self, snapshot: Snapshot) -> dict[str, int | None]:
        """Give the id of the first row of each data file of a snapshot."""
        live = self.live(snapshot.manifest_list)
        return {file.path: file.row_id for file in live if file.content == DataFileContent.DATA}

    def has_equality_deletes(self, snapshot: Snapshot | None) -> bool:
        """Whether pyiceberg cannot tell which rows a snapshot holds."""
        live = [] if snapshot is None else self.live(snapshot.manifest_list)
        return any(file.content == DataFileContent.EQUALITY_DELETES for file in live)

    def rows(self, snapshot: Snapshot | None) -> Rows:
        """Give the rows that a snapshot holds; a row twice is a violation."""
        return frozenset() if snapshot is None else self.rows_of_list(snapshot.manifest_list)

    def rows_of_list(self, manifest_list: str) -> Rows:
        """Give the rows that a manifest list leads to; a row twice is a violation."""
        live = self.live(manifest_list)
        if expired := self._storage.expired_data.intersection(file.path for file in live):
            raise Violation("files", f"data that a snapshot needs was expired: {sorted(expired)}")
        _judge_vectors([file for file in live if file.path.endswith(".puffin")])
        by_position = _newest(live, DataFileContent.POSITION_DELETES)
        by_value = _newest(live, DataFileContent.EQUALITY_DELETES)
        left = Counter(
            row
            for file in live
            if file.content == DataFileContent.DATA
            for row in rows_of(file.path)
            if max(by_position.get((row, at), -1) for at in (file.path, None)) < file.number
            and by_value.get((row, None), -1) <= file.number
        )
        if twice := [row for row, count in left.items() if count > 1]:
            raise Violation("exactly once", f"rows {twice} stand twice in one snapshot")
        return frozenset(left)


def _newest(live: list[File], content: DataFileContent) -> dict[tuple[Row, str | None], int]:
    """Give the greatest sequence number of what takes each row away, from which data file."""
    found: dict[tuple[Row, str | None], int] = {}
    for file in live:
        for row in rows_of(file.path) if file.content == content else ():
            at = row, file.marks
            found[at] = max(file.number, found.get(at, -1))
    return found


def _judge_vectors(vectors: list[File]) -> None:
    """Judge that no data file has two deletion vectors: engines read one of them."""
    counts = Counter(row for file in vectors for row in rows_of(file.path))
    if twice := [row for row, count in counts.items() if count > 1]:
        raise Violation("vectors", f"two deletion vectors take away the rows {twice}")


class _Quiet:
    """An input file that is opened without a step."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._storage = storage
        self.location = location

    def open(self, seekable: bool = True) -> Any:  # noqa: FBT001, FBT002 -- pyiceberg's
        del seekable
        return io.BytesIO(self._storage.bytes_of(self.location))
