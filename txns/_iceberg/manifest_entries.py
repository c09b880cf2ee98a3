"""
Manifest lists, and the entries of manifests, read by known headers.

pyiceberg makes a schema and a reader of each file's header, and a reader of the header, which costs
more than the entries of a small one; manifests of one table and partition spec have equal headers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import META_SCHEMA, AvroFile, AvroFileHeader, D
from pyiceberg.avro.resolver import construct_reader, resolve_reader
from pyiceberg.manifest import (
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
    from typing import Self

    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO


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
        return resolve_reader(
            AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema)),
            MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION],
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
