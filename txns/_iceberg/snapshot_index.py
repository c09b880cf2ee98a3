"""
What is asked of all snapshots of a table, found without a walk of them all.

A new version of a table has the snapshots of the one before, and a few more: what is known of a
beginning of the list is known of both. Objects are told apart by identity, which a compiled loop
does; nobody changes a snapshot in place.
"""

from __future__ import annotations

from functools import cached_property
from operator import is_
from threading import Lock
from typing import TYPE_CHECKING

from cachetools import LRUCache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot, Summary

_SNAPSHOTS = 10_000
"""How many are known of all tables: each is some 3 KB, if its table is not kept anyway."""

_REST = 4
"""How many snapshots stand above what is known before they are known, too."""


class _Known:
    """What is known of the first snapshots of a table."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self.snapshots = tuple(snapshots)
        self._with_key: dict[str, tuple[Snapshot, ...]] = {}

    @cached_property
    def by_id(self) -> dict[int, Snapshot]:
        return {each.snapshot_id: each for each in self.snapshots}

    @cached_property
    def parents(self) -> set[int | None]:
        return {each.parent_snapshot_id for each in self.snapshots}

    def get(self, snapshot_id: int) -> Snapshot | None:
        """Give one, of the newest ones without a walk of all: of large tables nothing is kept."""
        for each in () if "by_id" in self.__dict__ else self.snapshots[: -_REST - 1 : -1]:
            if each.snapshot_id == snapshot_id:
                return each
        return self.by_id.get(snapshot_id)

    def begins(self, snapshots: Sequence[Snapshot]) -> bool:
        had = self.snapshots
        return len(had) <= len(snapshots) and all(map(is_, had, snapshots))

    def with_key(self, key: str) -> tuple[Snapshot, ...]:
        found = self._with_key.get(key)
        if found is None:
            found = self._with_key[key] = tuple(_with_key(self.snapshots, key))
        return found


class SnapshotIndex:
    """The snapshots of one version of a table: of most it is known where they are."""

    __slots__ = ("_known", "_rest")

    def __init__(self, known: _Known, rest: Sequence[Snapshot]) -> None:
        """Have what is known of the first ones, and the others."""
        self._known = known
        self._rest = rest

    def get(self, snapshot_id: int) -> Snapshot | None:
        """Give a snapshot by its id, of two the later one; None for one that is not there."""
        for each in reversed(self._rest):
            if each.snapshot_id == snapshot_id:
                return each
        return self._known.get(snapshot_id)

    def is_stood_on(self, snapshot_id: int) -> bool:
        """Whether a snapshot has this one as its parent, be it there or not."""
        return snapshot_id in self._known.parents or any(
            each.parent_snapshot_id == snapshot_id for each in self._rest
        )

    def with_key(self, key: str) -> list[Snapshot]:
        """Give those whose summary has a key, whatever stands there, in the table's order."""
        return [*self._known.with_key(key), *_with_key(self._rest, key)]


def _size(known: _Known) -> int:
    return 1 + len(known.snapshots)


def _size_of_seen(seen: tuple[Sequence[Snapshot], SnapshotIndex]) -> int:
    return 1 + len(seen[0])


_KNOWN: LRUCache[UUID, _Known] = LRUCache(_SNAPSHOTS, getsizeof=_size)
_SEEN: LRUCache[int, tuple[Sequence[Snapshot], SnapshotIndex]] = LRUCache(
    _SNAPSHOTS, getsizeof=_size_of_seen
)
_LOCK = Lock()


def index_of(metadata: TableMetadata) -> SnapshotIndex:
    """Give where a table's snapshots are. Threads may ask at once."""
    snapshots = metadata.snapshots
    with _LOCK:  # one version is asked many times: its list is the same object
        seen = _SEEN.get(id(snapshots))
        if seen and seen[0] is snapshots:
            return seen[1]
        known = _KNOWN.get(metadata.table_uuid)
    if not (known and known.begins(snapshots) and len(snapshots) - len(known.snapshots) <= _REST):
        known = _Known(snapshots)
    index = SnapshotIndex(known, snapshots[len(known.snapshots) :])
    if len(snapshots) < _SNAPSHOTS:
        with _LOCK:
            _KNOWN[metadata.table_uuid] = known
            _SEEN[id(snapshots)] = snapshots, index
    return index


def keys_of(summary: Summary) -> Mapping[str, object]:
    """Give its `additional_properties`, of which every snapshot of a table is asked: in a tenth."""
    private = summary.__pydantic_private__
    return summary.additional_properties if private is None else private["_additional_properties"]


def _with_key(snapshots: Sequence[Snapshot], key: str) -> list[Snapshot]:
    return [each for each in snapshots if each.summary is not None and key in keys_of(each.summary)]
