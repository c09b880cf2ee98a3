"""
Manifest lists, and the entries of manifests, read by known headers.

pyiceberg makes a schema and a reader of each file's header, and a reader of the header, which costs
more than the entries of a small one; manifests of one table and partition spec have equal headers.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader, Block, D
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DEFAULT_READ_VERSION,
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
    _inherit_from_manifest,
)
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.typedef import TableVersion

_NEWEST_FORMAT: TableVersion = 3
_REFERENCED_DATA_FILE = [field.field_id for field in DATA_FILE_TYPE[_NEWEST_FORMAT].fields].index(
    143
)


def inherits_snapshot_id(io: FileIO, manifest: ManifestFile) -> bool:
    """Whether no entry of a manifest names a snapshot: then another one may take it over."""
    with _EntriesFile(io.new_input(manifest.manifest_path)) as reader:
        return all(entry.snapshot_id is None for entry in reader)


def live_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Give the entries of files that are not deleted, as `ManifestFile.fetch_manifest_entry`."""
    with _EntriesFile(io.new_input(manifest.manifest_path)) as reader:
        return [
            _inherit_from_manifest(entry, manifest)
            for entry in reader
            if entry.status != ManifestEntryStatus.DELETED
        ]


def live_files(io: FileIO, manifest: ManifestFile) -> list[DataFile]:
    """Give the files that are not deleted, with all that the newest format says of them."""
    with _WholeEntriesFile(io.new_input(manifest.manifest_path)) as reader:
        return [
            _inherit_from_manifest(entry, manifest).data_file
            for entry in reader
            if entry.status != ManifestEntryStatus.DELETED
        ]


def files_at(io: FileIO, manifest: ManifestFile, paths: Collection[str]) -> list[DataFile]:
    """
    Give those of the files that are not deleted that have one of some paths.

    Of a manifest with many others little is decoded: a block that has none of the paths is passed
    over.
    """
    with _SearchedFile(io.new_input(manifest.manifest_path), paths) as reader:
        return [
            _inherit_from_manifest(entry, manifest).data_file
            for entry in reader
            if entry.status != ManifestEntryStatus.DELETED and entry.data_file.file_path in paths
        ]


def referenced_data_file(deletes: DataFile) -> str | None:
    """Give the data file that a delete file of `live_files` says it is of; None for several."""
    if len(deletes) <= _REFERENCED_DATA_FILE:
        return None  # made in an older format
    path: str | None = deletes[_REFERENCED_DATA_FILE]
    return path or None


def listed(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """Give what a manifest list has, as pyiceberg's `read_manifest_list`."""
    with _ListFile(io.new_input(manifest_list)) as reader:
        return list(reader)


class _KnownFile(AvroFile[D], ABC):
    """An Avro file, read by what was made of an equal header."""

    def __enter__(self) -> Self:
        with self.input_file.open() as stream:
            self.decoder = new_decoder(stream.read())
        self.header = _HEADER.read(self.decoder)
        schema = self.header.meta.get("avro.schema")
        if schema is None:
            raise ValueError("No schema found in Avro file headers")  # as pyiceberg says
        self.reader = self._reader_of(schema)
        return self

    @staticmethod
    @abstractmethod
    def _reader_of(avro_schema: str) -> Reader:
        """Give what reads the records of a schema, which is JSON."""


_HEADER = construct_reader(META_SCHEMA, {-1: AvroFileHeader})


class _EntriesFile(_KnownFile[ManifestEntry]):
    """A manifest."""

    @staticmethod
    @lru_cache(maxsize=256)
    def _reader_of(avro_schema: str) -> Reader:
        return _entries_reader(avro_schema, DEFAULT_READ_VERSION)


class _WholeEntriesFile(_EntriesFile):
    """A manifest, with the fields that pyiceberg passes over."""

    @staticmethod
    @lru_cache(maxsize=256)
    def _reader_of(avro_schema: str) -> Reader:
        return _entries_reader(avro_schema, _NEWEST_FORMAT)


class _SearchedFile(_EntriesFile):
    """A manifest, of which only blocks are read that have one of some paths."""

    def __init__(self, input_file: InputFile, paths: Collection[str]) -> None:
        super().__init__(input_file)
        self._paths = re.compile(b"|".join(re.escape(each.encode()) for each in paths))

    def _read_block(self) -> int:
        codec = self.header.compression_codec()
        passed = self.block is not None
        while True:
            if passed and self.decoder.read(len(self.header.sync)) != self.header.sync:
                raise ValueError("Expected the sync bytes of the header")  # as pyiceberg says
            count, data = self.decoder.read_int(), self.decoder.read_bytes()
            if codec is not None:
                data = codec.decompress(data)
            if self._paths.search(data):
                self.block = Block(self.reader, count, new_decoder(data))
                return count
            passed = True


def _entries_reader(avro_schema: str, version: TableVersion) -> Reader:
    return resolve_reader(
        AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema)),
        MANIFEST_ENTRY_SCHEMAS[version],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )


class _ListFile(_KnownFile[ManifestFile]):
    """A manifest list."""

    @staticmethod
    @lru_cache(maxsize=64)
    def _reader_of(avro_schema: str) -> Reader:
        return resolve_reader(
            AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema)),
            MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION],
            read_types={-1: ManifestFile, 508: PartitionFieldSummary},
            read_enums={517: ManifestContent},
        )
