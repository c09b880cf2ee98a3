"""
Manifest lists and manifests that pyiceberg's producers do not write.

Invariant I2 wants a list of its own for every snapshot: empty, marker, copied, restaged
and renumbered ones. Format 2 only, like all writing of pyiceberg 0.12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pydantic_core import to_json
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    clear_manifest_cache,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV1

from txns._iceberg import avro_files
from txns._iceberg.earlier_schema import schema_of
from txns._iceberg.known_json import as_json
from txns._iceberg.manifest_entries import listed, live_entries
from txns._logger import logger
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import (
        Snapshot,
    )

_LOG = logger(__name__)

WRITABLE_FORMAT: Final = 2
_READ = MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION]
_LISTS = {
    version: avro_files.AvroFile(MANIFEST_LIST_FILE_SCHEMAS[version], "manifest_file", _READ)
    for version in (1, WRITABLE_FORMAT)
}
"""How they are written, by the table's format; a list of version 3 only Spark writes."""
_FIELDS = (
    "manifest_path",
    "manifest_length",
    "partition_spec_id",
    "content",
    "sequence_number",
    "min_sequence_number",
    "added_snapshot_id",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "partitions",
    "key_metadata",
)


def check_writable(metadata: TableMetadata, table: str) -> None:
    """
    Refuse a table of a format that pyiceberg cannot write.

    Raises:
        Unsupported: For formats 1 and 3, with the reason.
    """
    check_writable_format(metadata.format_version, table)


def check_writable_format(version: int, table: str) -> None:
    """
    Refuse a format that pyiceberg cannot write.

    Raises:
        Unsupported: For formats 1 and 3, with the reason.
    """
    if version < WRITABLE_FORMAT:
        raise Unsupported(
            "a table of format version 1, whose snapshots have no sequence numbers, is written"
            " outside of transactions: create it outside, or with format-version 2;"
            f" table=`{table}`"
        )
    if version > WRITABLE_FORMAT:
        raise Unsupported(
            f"pyiceberg reads tables of format version {version} and cannot write"
            f" them (apache/iceberg-python#1551): write it with Spark; table=`{table}`"
        )


def manifests_of(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """
    Read a manifest list past pyiceberg's cache.

    The cache is by the manifest's path and would give back the sequence numbers of another
    list that names the same manifest.
    """
    return listed(io, manifest_list)


def is_gone(io: FileIO, path: str) -> bool:
    """
    Whether there is no file of a name.

    Some libraries of storage call missing whatever they cannot look at: these are asked once more.

    Raises:
        Exception: Of the storage, which does not say whether it is there.
    """
    file = io.new_input(path)
    if file.exists():
        return False
    try:
        len(file)
    except FileNotFoundError:
        return True
    return False


def is_list(io: FileIO, path: str) -> bool:
    """
    Whether a file begins as a manifest list does: an Avro file whose records have field 500.

    Raises:
        Exception: Of the storage.
    """
    with io.new_input(path).open() as stream:
        head = stream.read(_HEAD_BYTES)
    return head.startswith(b"Obj\x01") and _LISTED.search(head) is not None


_HEAD_BYTES = 1 << 16
"""In which an Avro file has its schema."""

_LISTED = re.compile(rb'"field-id"\s*:\s*500\b')
"""The path of a manifest, in the schema of a manifest list."""


@dataclass(frozen=True, slots=True)
class Listing:
    """
    What a manifest list is to have: manifests of its own, then all of another list.

    Attributes:
        own: In this order.
        rest: The path of the other list; None for nothing.
    """

    own: Sequence[ManifestFile] = ()
    rest: str | None = None


def write_list(
    io: FileIO,
    metadata: TableMetadata,
    path: str,
    *,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    listing: Listing,
) -> None:
    """
    Write a manifest list. What another list has is copied, where it is written in the same way.

    Args:
        io: Where to.
        metadata: The table's, for format and compression.
        path: The list's.
        snapshot_id: The snapshot that the list belongs to.
        parent_id: Its parent.
        sequence_number: Its number, which manifests without one take.
        listing: What to list.
    """
    version = metadata.format_version
    if version not in _LISTS:
        check_writable_format(version, metadata.location)
    codec = avro_files.codec_of(metadata)
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        **({"sequence-number": str(sequence_number)} if version > 1 else {}),
        "format-version": str(version),
    }
    own = [_numbered(each, snapshot_id, sequence_number) for each in listing.own]
    before = avro_files.read(io, listing.rest) if listing.rest else None
    data = _LISTS[version].encoded(own, codec, header, before)
    if data is None:
        assert listing.rest is not None
        data = _LISTS[version].encoded([*own, *manifests_of(io, listing.rest)], codec, header)
    assert data is not None
    avro_files.write(io, path, data)


def _numbered(manifest: ManifestFile, snapshot_id: int, sequence_number: int) -> ManifestFile:
    """Give a manifest as a list has it: one that the list's snapshot wrote takes its number."""
    changes = {
        name: sequence_number
        for name in ("sequence_number", "min_sequence_number")
        if getattr(manifest, name) == UNASSIGNED_SEQ
    }
    if changes and manifest.added_snapshot_id != snapshot_id:
        raise ValueError(
            "a manifest of another snapshot has no sequence number:"
            f" snapshot=`{manifest.added_snapshot_id}` path=`{manifest.manifest_path}`"
        )
    return _changed(manifest, **changes) if changes else manifest


def owned_by(manifest: ManifestFile, snapshot_id: int, *, was: int) -> ManifestFile:
    """
    Give a manifest as a snapshot lists it that takes it over from another one, or renumbers.

    What `was` added gets `snapshot_id` and a number to be assigned by the list's writer.
    """
    if manifest.added_snapshot_id != was:
        return _changed(manifest)
    only_added = not manifest.existing_files_count and not manifest.deleted_files_count
    return _changed(
        manifest,
        added_snapshot_id=snapshot_id,
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=UNASSIGNED_SEQ if only_added else manifest.min_sequence_number,
    )


def renumbered(
    io: FileIO, metadata: TableMetadata, snapshot: Snapshot, path: str, sequence_number: int
) -> Snapshot:
    """
    Give a staged snapshot a new sequence number, in storage: a list of its own at `path`.

    The staged list stays untouched; somebody else may be reading or renumbering it.
    """
    own = snapshot.snapshot_id
    listed = manifests_of(io, snapshot.manifest_list)
    write_list(
        io,
        metadata,
        path,
        snapshot_id=own,
        parent_id=snapshot.parent_snapshot_id,
        sequence_number=sequence_number,
        listing=Listing([owned_by(manifest, own, was=own) for manifest in listed]),
    )
    clear_manifest_cache()  # it would give the manifests their old numbers back
    return snapshot.model_copy(update={"sequence_number": sequence_number, "manifest_list": path})


def added_files(io: FileIO, snapshot: Snapshot) -> list[DataFile]:
    """Give the data files that a snapshot added."""
    files: list[DataFile] = []
    for manifest in manifests_of(io, snapshot.manifest_list):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            files.extend(
                entry.data_file
                for entry in live_entries(io, manifest)
                if entry.status == ManifestEntryStatus.ADDED
            )
    return files


def files_of(io: FileIO, snapshot: Snapshot) -> list[str]:
    """Give what a snapshot wrote: its list, its own manifests, the files that they add."""
    files = [snapshot.manifest_list]
    try:
        for manifest in manifests_of(io, snapshot.manifest_list):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                files.append(manifest.manifest_path)
                files += [
                    entry.data_file.file_path
                    for entry in live_entries(io, manifest)
                    if entry.status == ManifestEntryStatus.ADDED
                ]
    except Exception:  # noqa: BLE001 -- files that stay harm nobody
        _LOG.warning("files of a staged snapshot stay: %s", snapshot.manifest_list, exc_info=True)
    return files


def only_reached_by(
    io: FileIO, gone: Iterable[str], live: Iterable[str]
) -> tuple[dict[str, list[tuple[ManifestFile, list[DataFile]]]], set[str]]:
    """
    Give the manifests that some manifest lists reach and others do not.

    A file may stand in several manifests: where one is of the first lists alone, those of the
    others are all opened, also what both have.

    Args:
        io: Where they are.
        gone: Lists that nobody names any more.
        live: Lists that somebody names.

    Returns:
        By the path of each list that is gone its manifests that are, with their files; and the
        paths of the files that others reach all the same.
    """
    before = {path: manifests_of(io, path) for path in gone}
    after = {each.manifest_path: each for path in live for each in manifests_of(io, path)}
    found = {
        path: [(each, _live_files(io, each)) for each in of_list if each.manifest_path not in after]
        for path, of_list in before.items()
    }
    has_files = any(files for of_list in found.values() for _, files in of_list)
    opened = after.values() if has_files else ()
    return found, {each.file_path for one in opened for each in _live_files(io, one)}


def _live_files(io: FileIO, manifest: ManifestFile) -> list[DataFile]:
    return [entry.data_file for entry in live_entries(io, manifest)]


def write_added(
    io: FileIO, metadata: TableMetadata, path: str, snapshot_id: int, files: Sequence[DataFile]
) -> ManifestFile:
    """
    Write a manifest of added files of one spec, whose snapshot id is inherited.

    A restage then rewrites its manifest list only. Of a column that is gone a partition has no
    type, and nothing is written by it: the manifest has the schema of before then.
    """
    spec = metadata.specs()[files[0].spec_id]
    schema = schema_of(metadata, spec)
    header = {
        "schema": as_json(schema),
        "partition-spec": to_json(spec.fields).decode(),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(metadata.format_version),
        "content": "data",
    }
    entries = [
        ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=None,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )
        for file in files
    ]
    data = _of_spec(header["schema"], as_json(spec)).encoded(
        entries, avro_files.codec_of(metadata), header
    )
    assert data is not None
    avro_files.write(io, path, data)
    return ManifestFile.from_args(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=spec.spec_id,
        content=ManifestContent.DATA,
        sequence_number=UNASSIGNED_SEQ,
        min_sequence_number=UNASSIGNED_SEQ,
        added_snapshot_id=snapshot_id,
        added_files_count=len(files),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=sum(file.record_count for file in files),
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=construct_partition_summaries(spec, schema, [file.partition for file in files]),
        key_metadata=None,
    )


@lru_cache(maxsize=256)
def _of_spec(schema: str, spec: str) -> avro_files.AvroFile:
    """Give how manifests of a spec are written; both as JSON."""
    partition = PartitionSpec.model_validate_json(spec).partition_type(
        Schema.model_validate_json(schema)
    )
    data_file = data_file_with_partition(partition, WRITABLE_FORMAT)
    entry = manifest_entry_schema_with_data_file(WRITABLE_FORMAT, data_file)
    return avro_files.AvroFile(entry, "manifest_entry")


def last_sequence_number(metadata: TableMetadata) -> int:
    """Give a table's newest sequence number; 0 for format 1, which has none."""
    return 0 if isinstance(metadata, TableMetadataV1) else metadata.last_sequence_number


def empty_metadata() -> TableMetadata:
    """Give what the updates of a new table are laid over."""
    # As pyiceberg's own catalogs start: an invalid state that the updates complete.
    return TableMetadataV1.model_construct(last_column_id=-1)  # type: ignore[call-arg]


def _changed(manifest: ManifestFile, **changes: Any) -> ManifestFile:
    """Copy a manifest: pyiceberg's own copy shares its fields with the original."""
    fields = {name: getattr(manifest, name) for name in _FIELDS}
    return ManifestFile.from_args(**{**fields, **changes})
