"""
The text of table metadata, read and written by what is known of the version before.

Most of it are the table's snapshots, and where `main` has been, of which a new version has one more
each. pyiceberg reads and writes them all, each by Python code: here that is done once for each, and
for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from pydantic_core import from_json, to_json
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.utils.config import Config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


@dataclass(frozen=True, slots=True)
class _Written:
    """
    What a version had of something that grows, and the text of it.

    Attributes:
        parts: The objects, which nobody changes.
        text: Theirs, with commas between.
    """

    parts: Sequence[object] = ()
    text: bytes = b""

    def new_in(self, parts: Sequence[object]) -> int | None:
        """Give from where on parts are new; None where they do not begin with these."""
        had = len(self.parts)
        return had if len(parts) >= had and all(map(is_, self.parts, parts)) else None

    def and_then(self, parts: Sequence[object], text: bytes) -> _Written:
        """Give all parts, of which some have been added, with the text of these."""
        return _Written(tuple(parts), b",".join(filter(None, (self.text, text))))


_NOTHING = _Written()


@dataclass(frozen=True, slots=True)
class _Version:
    """What is known of a table's newest version."""

    by_id: Mapping[int, _Known]
    snapshots: _Written = _NOTHING
    log: _Written = _NOTHING

    @property
    def size(self) -> int:
        return 1 + len(self.by_id)


class MetadataText:
    """Reads and writes table metadata. Threads may share it."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._tables: LRUCache[str, _Version] = LRUCache(_SNAPSHOTS, getsizeof=lambda it: it.size)
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
        found = [_same(known.by_id, each) or each for each in parsed.get("snapshots", ())]
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
        rest = metadata.model_dump_json(exclude={"snapshots", "snapshot_log"}, exclude_none=True)
        whole = b'%s,"snapshot-log":[%s],"snapshots":[%s]}' % (
            rest[:-1].encode(),
            known.log.text,
            known.snapshots.text,
        )
        with output.create(overwrite=False) as stream:
            stream.write(Compressor.get_compressor(location).bytes_compressor()(whole))

    def _of(self, uuid: str) -> _Version:
        with self._lock:
            return self._tables.get(uuid) or _Version({})

    def _keep(self, metadata: TableMetadata, before: _Version) -> _Version:
        known = _after(before, metadata)
        if known.size <= self._tables.maxsize:
            with self._lock:
                self._tables[str(metadata.table_uuid)] = known
        return known


def _after(before: _Version, metadata: TableMetadata) -> _Version:
    """Give what is known of a version, by what was of the one before."""
    log = _log_after(before.log, metadata)
    now = metadata.snapshots
    new = before.snapshots.new_in(now)
    if new == len(now):
        return _Version(before.by_id, before.snapshots, log)
    added = _by_id({} if new else before.by_id, now[new or 0 :])
    text = b",".join(added[each.snapshot_id].text for each in now[new or 0 :])
    if not new:
        return _Version(added, _NOTHING.and_then(now, text), log)
    return _Version({**before.by_id, **added}, before.snapshots.and_then(now, text), log)


def _log_after(before: _Written, metadata: TableMetadata) -> _Written:
    """Give what is known of where `main` has been."""
    now = metadata.snapshot_log
    new = before.new_in(now)
    if new == len(now):
        return before
    text = to_json(now[new or 0 :], by_alias=True)[1:-1]
    return (before if new else _NOTHING).and_then(now, text)


def _by_id(before: Mapping[int, _Known], snapshots: Sequence[Snapshot]) -> dict[int, _Known]:
    known: dict[int, _Known] = {}
    for each in snapshots:
        earlier = before.get(each.snapshot_id)
        same = earlier is not None and earlier.snapshot is each
        known[each.snapshot_id] = earlier if earlier and same else _Known(each)
    return known


def _same(known: Mapping[int, _Known], parsed: Any) -> Snapshot | None:
    """Give the snapshot that a text of one says, where it is known."""
    found = known.get(parsed["snapshot-id"])
    return found.snapshot if found and found.reads_as(parsed) else None
