"""
The entries of manifests, read by known headers.

pyiceberg makes a schema and a reader of each manifest's header, which costs more than the entries
of a small one; manifests of one table and partition spec have equal headers.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
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


class _EntriesFile(AvroFile[ManifestEntry]):
    """A manifest, read by what was made of an equal header: that costs more than a few entries."""

    def __enter__(self) -> Self:
        with self.input_file.open() as stream:
            self.decoder = new_decoder(stream.read())
        self.header = self._read_header()
        self.reader = _reader_of(self.header.meta["avro.schema"])
        return self


@lru_cache(maxsize=256)
def _reader_of(avro_schema: str) -> Reader:
    return resolve_reader(
        AvroSchemaConversion().avro_to_iceberg(json.loads(avro_schema)),
        MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )
