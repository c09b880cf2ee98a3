"""
The text of table metadata, read and written by what is known of the version before.

Most of it are the table's snapshots, and where `main` has been, of which a new version has one more
each, and schemas, which seldom change. pyiceberg reads and writes them all, each by Python code:
here that is done once for each, and for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from pydantic_core import from_json, to_json
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.utils.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_SNAPSHOTS = 10_000
"""How many are known of all tables: each is some 4 KB."""

_SNAPSHOT_BYTES = 4 * 1024
_COLUMN_BYTES = 1024


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
    What a version had in one of its lists, and the texts of it.

    Attributes:
        parts: The objects, which nobody changes.
        texts: Theirs.
    """

    parts: Sequence[object] = ()
    texts: tuple[bytes, ...] = ()

    def left_in(self, now: Sequence[object]) -> int | None:
        """Give which parts a later version has still, as the first of its own; None for none."""
        first = next((at for at, each in enumerate(self.parts) if now and each is now[0]), None)
        if first is None or len(self.parts) - first > len(now):
            return None
        return first if all(map(is_, self.parts[first:], now)) else None

    def then(
        self, now: Sequence[Any], written: Callable[[Sequence[Any]], Iterable[bytes]]
    ) -> _Written:
        """Give a later version's parts with their texts, of which those that are new are made."""
        first = self.left_in(now)
        had = () if first is None else self.texts[first:]
        if first == 0 and len(had) == len(now):
            return self
        return _Written(tuple(now), (*had, *written(now[len(had) :])))

    @property
    def text(self) -> bytes:
        """Give the texts of all, with commas between."""
        return b",".join(self.texts)


_NOTHING = _Written()

_LISTS = {
    "schemas": b"schemas",
    "snapshots": b"snapshots",
    "snapshot_log": b"snapshot-log",
    "metadata_log": b"metadata-log",
}
"""What grows, or is large and stays, by its name in pyiceberg and in the text."""


@dataclass(frozen=True, slots=True)
class _Read:
    """
    One of the lists of a version, most of which the next one has as well.

    Attributes:
        parsed: The JSON of it.
        parts: What was read as that, which nobody changes.
    """

    parsed: Sequence[Any] = ()
    parts: Sequence[Any] = ()

    def shared(self, now: Sequence[Any]) -> Sequence[Any]:
        """Give a later version's JSON, in which what it has still is what was read before."""
        first = next((at for at, each in enumerate(self.parsed) if now and each == now[0]), None)
        if first is None or (left := self.parsed[first:]) != now[: len(left)]:
            return now
        return [*self.parts[first:], *now[len(left) :]]


_UNREAD = _Read()

_READ = {"schemas": "schemas", "snapshot-log": "snapshot_log", "metadata-log": "metadata_log"}
"""What stays, or grows at its end and loses what is at its beginning, by its name in the text."""


@dataclass(frozen=True, slots=True)
class _Version:
    """What is known of a table's newest version: its snapshots, schemas, and each list's texts."""

    by_id: Mapping[int, _Known]
    lists: Mapping[str, _Written]
    read: Mapping[str, _Read] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """What it counts for, in snapshots: its schemas may be larger than all of them."""
        others = (each.texts for name, each in self.lists.items() if name != "snapshots")
        schemas = self.read.get("schemas", _UNREAD).parts
        size = _COLUMN_BYTES * sum(len(each.fields) for each in schemas)
        size += sum(map(len, chain.from_iterable(others)))
        return 1 + len(self.by_id) + size // _SNAPSHOT_BYTES


class MetadataText:
    """Reads and writes table metadata. Threads may share it."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._tables: LRUCache[str, _Version] = LRUCache(_SNAPSHOTS, getsizeof=lambda it: it.size)
        self._lock = Lock()
        self._legacy = Config().get_bool("legacy-current-snapshot-id")

    @property
    def size(self) -> int:
        """How much is known of all tables, in snapshots."""
        return int(self._tables.currsize)

    def read(self, io: FileIO, location: str) -> TableMetadata:
        """
        Read a version; one of its snapshots that is known is the same object, and so are schemas.

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
        known = self._of(stored_uuid(parsed))
        shared: dict[str, Any] = {
            name: known.read.get(name, _UNREAD).shared(parsed[name])
            for name in _READ
            if isinstance(parsed.get(name), list)
        }
        found = [_same(known.by_id, each) or each for each in parsed.get("snapshots", ())]
        metadata = TableMetadataUtil.parse_obj({**parsed, **shared, "snapshots": found})
        read = {name: _Read(parsed[name], getattr(metadata, _READ[name])) for name in shared}
        self._keep(metadata, replace(known, read=read), ("snapshots",))
        return metadata

    def write(self, io: FileIO, location: str, metadata: TableMetadata) -> None:
        """Write a version; the same text as pyiceberg's, its keys in another order."""
        output = io.new_output(location)
        # The snapshots of format 1 are written without their numbers.
        if self._legacy or metadata.format_version == 1:
            ToOutputFile.table_metadata(metadata, output)
            return
        known = self._keep(metadata, self._of(str(metadata.table_uuid)), _LISTS)
        rest = metadata.model_dump_json(exclude={*_LISTS}, exclude_none=True)
        parts = [rest[:-1].encode()]  # joined once: the whole may be megabytes
        for name, key in _LISTS.items():
            parts += (b',"%s":[' % key, known.lists[name].text, b"]")
        whole = b"".join((*parts, b"}"))
        with output.create(overwrite=False) as stream:
            stream.write(Compressor.get_compressor(location).bytes_compressor()(whole))

    def _of(self, uuid: str) -> _Version:
        with self._lock:
            return self._tables.get(uuid) or _Version({}, {})

    def _keep(self, metadata: TableMetadata, before: _Version, names: Iterable[str]) -> _Version:
        known = _after(before, metadata, names)
        if known.size <= self._tables.maxsize:
            with self._lock:
                self._tables[str(metadata.table_uuid)] = known
        return known


def stored_uuid(stored: Mapping[str, Any]) -> str:
    """Give the uuid that a metadata file has in small letters, as pyiceberg reads it; or `none`."""
    return str(stored.get("table-uuid")).lower()


def _after(before: _Version, metadata: TableMetadata, names: Iterable[str]) -> _Version:
    """Give what is known of a version, by what was of the one before; lists by their names."""
    added: dict[int, _Known] = {}

    def of_snapshots(new: Sequence[Snapshot]) -> Iterator[bytes]:
        made = [_known(before.by_id, each) for each in new]  # two may have one id
        added.update((each.snapshot.snapshot_id, each) for each in made)
        return (each.text for each in made)

    lists = dict(before.lists)
    for name in names:
        written = of_snapshots if name == "snapshots" else _each_as_text
        lists[name] = lists.get(name, _NOTHING).then(getattr(metadata, name), written)
    by_id = {**before.by_id, **added} if added else before.by_id
    if len(by_id) != len(metadata.snapshots):  # some have been expired
        by_id = {each.snapshot_id: by_id[each.snapshot_id] for each in metadata.snapshots}
    return _Version(by_id, lists, before.read)


def _each_as_text(parts: Iterable[object]) -> Iterator[bytes]:
    return (to_json(each, by_alias=True, exclude_none=True) for each in parts)


def _known(before: Mapping[int, _Known], snapshot: Snapshot) -> _Known:
    earlier = before.get(snapshot.snapshot_id)
    return earlier if earlier and earlier.snapshot is snapshot else _Known(snapshot)


def _same(known: Mapping[int, _Known], parsed: Any) -> Snapshot | None:
    """Give the snapshot that a text of one says, where it is known."""
    found = known.get(parsed["snapshot-id"])
    return found.snapshot if found and found.reads_as(parsed) else None
