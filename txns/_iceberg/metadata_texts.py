"""
Files of table metadata, written from what is known of the version before.

Most of such a file are the table's snapshots, of which a new version has one more. pyiceberg
serializes them all, each by Python code: here each is once, and only the rest again.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.utils.config import Config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_BYTES = 16 * 1024 * 1024


class _Texts:
    """The snapshots of one version, and each of them as JSON."""

    def __init__(self, snapshots: Sequence[Snapshot], before: _Texts | None) -> None:
        known: Mapping[int, bytes] = before.by_id if before else {}
        self.snapshots = snapshots  # as long as they are here, their ids are nobody else's
        self.by_id: dict[int, bytes] = {
            id(each): known.get(id(each)) or _json(each) for each in snapshots
        }
        self.size = sum(map(len, self.by_id.values()))


def _json(snapshot: Snapshot) -> bytes:
    return snapshot.model_dump_json(exclude_none=True).encode()


class MetadataTexts:
    """What the newest versions of tables are as JSON. Threads may share it."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: LRUCache[str, _Texts] = LRUCache(_BYTES, getsizeof=lambda each: each.size)
        self._lock = Lock()
        self._legacy = Config().get_bool("legacy-current-snapshot-id")

    def write(self, io: FileIO, location: str, metadata: TableMetadata, before: str | None) -> None:
        """
        Write a version; the same text as pyiceberg's, its keys in another order.

        Args:
            io: Where to.
            location: Of the file.
            metadata: The version.
            before: The file of the one before; None for none.
        """
        output = io.new_output(location)
        if self._legacy:
            ToOutputFile.table_metadata(metadata, output)
            return
        texts = _Texts(metadata.snapshots, self._of(before))
        rest = metadata.model_dump_json(exclude={"snapshots"}, exclude_none=True).encode()
        snapshots = b",".join(texts.by_id[id(each)] for each in metadata.snapshots)
        whole = b'%s,"snapshots":[%s]}' % (rest[:-1], snapshots)
        with output.create() as stream:
            stream.write(Compressor.get_compressor(location).bytes_compressor()(whole))
        with self._lock:
            if before is not None:
                self._known.pop(before, None)  # who stands on it has lost
            if texts.size <= self._known.maxsize:
                self._known[location] = texts

    def _of(self, location: str | None) -> _Texts | None:
        with self._lock:
            return None if location is None else self._known.get(location)
