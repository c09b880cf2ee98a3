"""
The text of table metadata, read and written by what is known of the version before.

Most of it are the table's snapshots, of which a new version has one more. pyiceberg reads and
writes them all, each by Python code: here that is done once for each, and for the rest.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from pydantic_core import from_json
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.utils.config import Config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_SNAPSHOTS = 10_000
"""How many are known of all tables: each is some 4 KB."""


class _Known:
    """A snapshot, and its text."""

    __slots__ = ("_parsed", "snapshot", "text")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.text = snapshot.model_dump_json(exclude_none=True).encode()
        self._parsed: Any = None

    def reads_as(self, parsed: Any) -> bool:
        """Whether a text says the same."""
        if self._parsed is None:
            self._parsed = from_json(self.text)
        return bool(self._parsed == parsed)


class MetadataText:
    """Reads and writes table metadata. Threads may share it."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._tables: LRUCache[str, Mapping[int, _Known]] = LRUCache(
            _SNAPSHOTS, getsizeof=lambda known: 1 + len(known)
        )
        self._lock = Lock()
        self._legacy = Config().get_bool("legacy-current-snapshot-id")

    def read(self, io: FileIO, location: str) -> TableMetadata:
        """
        Read a version; one of its snapshots that is known is the same object.

        Raises:
            ValidationError: It is none, in pyiceberg's words.
        """
        plain = Compressor.get_compressor(location).stream_decompressor
        with io.new_input(location).open() as stream, plain(stream) as text:
            whole = text.read()
        try:
            return self._read(from_json(whole))
        except (ValueError, TypeError, LookupError, AttributeError):
            return TableMetadataUtil.parse_raw(whole.decode())

    def _read(self, parsed: Any) -> TableMetadata:
        known = self._of(parsed["table-uuid"])
        found = [_same(known, each) or each for each in parsed.get("snapshots", ())]
        metadata = TableMetadataUtil.parse_obj({**parsed, "snapshots": found})
        self._keep(metadata, known)
        return metadata

    def write(self, io: FileIO, location: str, metadata: TableMetadata) -> None:
        """Write a version; the same text as pyiceberg's, its keys in another order."""
        output = io.new_output(location)
        # The snapshots of format 1 are written without their numbers.
        if self._legacy or metadata.format_version == 1:
            ToOutputFile.table_metadata(metadata, output)
            return
        known = self._keep(metadata, self._of(str(metadata.table_uuid)))
        rest = metadata.model_dump_json(exclude={"snapshots"}, exclude_none=True).encode()
        snapshots = b",".join(known[each.snapshot_id].text for each in metadata.snapshots)
        whole = b'%s,"snapshots":[%s]}' % (rest[:-1], snapshots)
        with output.create(overwrite=False) as stream:
            stream.write(Compressor.get_compressor(location).bytes_compressor()(whole))

    def _of(self, uuid: str) -> Mapping[int, _Known]:
        with self._lock:
            return self._tables.get(uuid, {})

    def _keep(self, metadata: TableMetadata, before: Mapping[int, _Known]) -> Mapping[int, _Known]:
        known: dict[int, _Known] = {}
        for each in metadata.snapshots:
            earlier = before.get(each.snapshot_id)
            same = earlier is not None and earlier.snapshot is each
            known[each.snapshot_id] = earlier if earlier and same else _Known(each)
        if len(known) <= self._tables.maxsize:
            with self._lock:
                self._tables[str(metadata.table_uuid)] = known
        return known


def _same(known: Mapping[int, _Known], parsed: Any) -> Snapshot | None:
    """Give the snapshot that a text of one says, where it is known."""
    found = known.get(parsed["snapshot-id"])
    return found.snapshot if found and found.reads_as(parsed) else None
