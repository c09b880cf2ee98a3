"""
The versions of a commit table that storage has, whatever the catalog says of them.

Docs/spec.md 9.6. A version is made on top of one that the catalog has given as its table: so one
that another one stands on was committed, whoever made that, and whatever became of it.
"""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.serializers import FromInputFile

from txns._admin.listing import plain
from txns._iceberg.metadata_text import stored_uuid
from txns._iceberg.snapshots import summary_value
from txns._log import commit_table
from txns._log import entry as _entry
from txns._log.entry import Entry, Kind
from txns._logger import logger
from txns.errors import CorruptLog, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

_LOG = logger(__name__)

EPOCH = 1_000_000_000
"""
What a recovery adds to the log's sequence numbers.

Who has loaded a head that was lost since sees a newer one then, of another epoch, and no older one,
as a replica's is.
"""

_AT_ONCE = 8
"""Files that are read at once: each is far away, and there are thousands."""

_OTHERS = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
"""What comes of reading something as a version that is none."""

EntryId = tuple[int, str]
"""What tells an entry from all others: its `commit_ts` in ms, and its transaction id."""


@dataclass(frozen=True, slots=True)
class Version:
    """
    One metadata file of a commit table: as much of it as thousands of them can be kept of.

    Attributes:
        path: Where it is.
        sequence_number: It grows from each version to those that stand on it.
        log_id: Of its epoch.
        before: The path of what it was made from; empty for the first one.
        entries: Which ones it holds, ascending.
        upper: In ms.
        lists: The manifest lists that it names.
        named: What it names besides, but for versions.
    """

    path: str
    sequence_number: int
    log_id: str
    before: str
    entries: tuple[EntryId, ...]
    upper: int
    lists: frozenset[str]
    named: frozenset[str]

    @property
    def stands_on(self) -> str:
        """The path, without its scheme, of what it was made from; empty for the first one."""
        return plain(self.before) if self.before else ""


@dataclass(frozen=True)
class Versions:
    """
    All versions of one commit table that storage has.

    Attributes:
        io: Its files.
        by_path: The versions, by their paths without schemes.
    """

    io: FileIO
    by_path: dict[str, Version]

    @staticmethod
    def of(io: FileIO, paths: Iterable[str], uuid: str, known: Versions | None = None) -> Versions:
        """
        Read the metadata files of the table of a uuid; whatever is none of its is left out.

        Args:
            io: Its files.
            paths: Files that there are.
            uuid: The table's.
            known: Those that were read before: what is written to its end does not change.
        """
        names = [path for path in paths if path.endswith(".metadata.json")]
        found = {} if known is None else {plain(at): known.by_path.get(plain(at)) for at in names}
        unread = [path for path in names if found.get(plain(path)) is None]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found |= {
                plain(path): version
                for path, version in zip(
                    unread, threads.map(lambda at: _read(io, at, uuid), unread), strict=True
                )
            }
        ids: dict[EntryId, EntryId] = {}  # thousands of versions hold the same
        return Versions(
            io,
            {
                path: replace(one, entries=tuple(ids.setdefault(id_, id_) for id_ in one.entries))
                for path, one in found.items()
                if one is not None
            },
        )

    @cached_property
    def _above(self) -> dict[str, list[Version]]:
        above: dict[str, list[Version]] = {}
        for version in self.by_path.values():
            above.setdefault(version.stands_on, []).append(version)
        return above

    @cached_property
    def _furthest(self) -> dict[str, int]:
        """Give the greatest sequence number that stands on each version, its own included."""
        furthest: dict[str, int] = {}
        for version in sorted(self.by_path.values(), key=lambda one: -one.sequence_number):
            here = max(version.sequence_number, furthest.get(plain(version.path), 0))
            furthest[plain(version.path)] = here
            furthest[version.stands_on] = max(here, furthest.get(version.stands_on, 0))
        return furthest

    @cached_property
    def _set_back_to(self) -> set[str]:
        """Give the paths of the versions that a recovery has gone on from."""
        pairs = ((self.by_path.get(each.stands_on), each) for each in self.by_path.values())
        return {plain(at.path) for at, each in pairs if at and at.log_id != each.log_id}

    def is_stood_on(self, version: Version) -> bool:
        """Whether another version was made from one, which the catalog has given then."""
        return plain(version.path) in self._above

    def standing_on(self, version: Version) -> list[Version]:
        """Give the versions that were made from one."""
        return self._above.get(plain(version.path), [])

    def is_committed(self, version: Version, shown: Collection[EntryId]) -> bool:
        """
        Whether a version was the catalog's table for certain.

        Args:
            version: Another one stands on it; or what it has more than the one before has been
                applied to a table. Of one whose one before is gone that is its newest entry.
            shown: What tables show.
        """
        is_known = version.stands_on in self.by_path
        more = self.more_than_before(version) if is_known else version.entries[-1:]
        return self.is_stood_on(version) or any(each in shown for each in more)

    def more_than_before(self, version: Version) -> list[EntryId]:
        """Give the entries that a version has, and the one that it stands on has not."""
        before = self.by_path.get(version.stands_on)
        upper = before.entries[-1][0] if before and before.entries else 0
        return [each for each in version.entries if each[0] > upper]

    def committed_above(
        self, path: str, shown: Collection[EntryId]
    ) -> tuple[list[Version], list[Version]]:
        """
        Give the versions that were committed on top of one, and those of which nobody can tell.

        Returns:
            The former in their order, each on the one before; the latter all stand on the last.
        """
        committed: list[Version] = []
        while True:
            above = self._above.get(plain(committed[-1].path if committed else path), [])
            certain = [each for each in above if self.is_committed(each, shown)]
            if not certain:
                return committed, above
            # Of several, which a log has that was set back before, the one that goes on furthest.
            committed.append(max(certain, key=lambda one: self._furthest[plain(one.path)]))

    def newest(self, shown: Collection[EntryId]) -> Version | None:
        """
        Give the newest version that was committed for certain; None where there is none.

        The first one of a table that nobody has written is that, too.
        """
        all_ = self.by_path.values()
        certain = [each for each in all_ if self.is_committed(each, shown) or not each.stands_on]
        return max(certain, key=lambda one: one.sequence_number, default=None)

    def beyond_gap(self, sequence_number: int, shown: Collection[EntryId]) -> Version | None:
        """
        Give the newest committed version where some between it and a number's are gone.

        Only the last version of each minute is kept: what that stands on is gone. None where it is
        known what the newest one stands on, and no version above the number is.
        """
        newest = self.newest(shown)
        first = newest
        while first and (before := self.by_path.get(first.stands_on)):
            if before.sequence_number >= first.sequence_number:
                return None  # nobody has written that
            first = before
        return newest if first and first.sequence_number > sequence_number else None

    def left_behind(
        self, path: str, shown: Collection[EntryId]
    ) -> tuple[list[Version], list[Version]]:
        """
        Give what was committed, and is not what one version stands on, nor of an earlier epoch.

        Returns:
            The former, ascending, and what stands on them, of which nobody can tell. Of what stands
            alone nothing is told, since most often it is of a swap that was lost; but beside what
            has begun an epoch, which may have been set back to where it stands.
        """
        at = self.by_path.get(plain(path))
        epoch = at.sequence_number // EPOCH if at else 0
        line: set[str] = set()
        while at and at.path not in line:
            line.add(at.path)
            at = self.by_path.get(at.stands_on)
        others = [
            each
            for each in sorted(self.by_path.values(), key=lambda one: one.sequence_number)
            if each.path not in line and each.sequence_number // EPOCH >= epoch
        ]
        certain = [each for each in others if self.is_committed(each, shown)]
        stood_on = {plain(each.path) for each in certain} | self._set_back_to
        leaves = [each for each in others if each.stands_on in stood_on]
        return certain, [each for each in leaves if each not in certain]

    def not_before(self, path: str, log_ids: Collection[str]) -> list[Version]:
        """
        Give the versions that were made after one whose file is gone, by names; ascending.

        Of some epochs alone, where there are any: another one counts from a moment of its own.
        """
        number = _number(path)
        of_these = [each for each in self.by_path.values() if each.log_id in log_ids]
        return sorted(
            (
                each
                for each in of_these or self.by_path.values()
                if each.stands_on == plain(path) or 0 <= number <= _number(each.path)
            ),
            key=lambda one: one.sequence_number,
        )

    def tidied(self, leaves: list[Version]) -> Version | None:
        """
        Give a version of those that stand on one, which has the same entries in other files.

        A tidy says nothing new. So it may stand where files of the one before are gone, whatever
        has become of its swap: a tidier removes them when it has won.
        """
        silent = [each for each in leaves if not self.more_than_before(each)]
        return max(silent, key=lambda one: one.sequence_number, default=None)

    def metadata(self, version: Version) -> TableMetadata:
        """Load a version whole."""
        return FromInputFile.table_metadata(self.io.new_input(version.path))


def entries_of(metadata: TableMetadata) -> list[Entry]:
    """Give the entries that a version holds, ascending, but for those that cannot be read."""
    found = []
    for snapshot in metadata.snapshots:
        if snapshot.summary is None or summary_value(snapshot, _entry.KIND) is None:
            continue
        try:
            record = _entry.from_summary(snapshot.summary.additional_properties)
        except (CorruptLog, Unsupported) as error:
            _LOG.warning("a record cannot be read: %s; snapshot=%s", error, snapshot.snapshot_id)
            continue
        if record.kind is not Kind.TIDY:
            found.append(record)
    return sorted(found, key=lambda one: one.commit_ts)


def _read(io: FileIO, path: str, uuid: str) -> Version | None:
    try:
        stored = _stored(io, path)
        return _version(path, stored) if stored_uuid(stored) == uuid else None
    except (FileNotFoundError, *_OTHERS):
        return None  # removed meanwhile, never written to its end, or none of ours


def _number(path: str) -> int:
    """Give how often a table was written, as catalogs count it in names of files; or -1."""
    found = re.search(r"(?:^|/)([0-9]{1,18})-[^/]*\.metadata\.json$", path, re.ASCII)
    return int(found[1]) if found else -1


def version_at(io: FileIO, path: str) -> Version:
    """Read a version that the log has had."""
    return _version(path, _stored(io, path))


def _stored(io: FileIO, path: str) -> dict[str, Any]:
    with io.new_input(path).open() as file:
        stored: dict[str, Any] = json.loads(file.read())
    return stored


def _version(path: str, stored: dict[str, Any]) -> Version:
    before = stored.get("metadata-log") or []
    snapshots = stored.get("snapshots") or []
    summaries = [each.get("summary") or {} for each in snapshots]
    ids = ((each.get(_entry.COMMIT_TS), each.get(_entry.TXN_ID)) for each in summaries)
    entries = sorted((int(ts), txn_id) for ts, txn_id in ids if ts and txn_id and ts.isdecimal())
    uppers = (each.get(_entry.UPPER) or "" for each in summaries)
    statistics = (stored.get("statistics") or []) + (stored.get("partition-statistics") or [])
    payloads = (each.get(_entry.PAYLOAD_LOCATION) for each in summaries)
    return Version(
        path,
        int(stored["last-sequence-number"]),
        commit_table.log_id(stored_uuid(stored), stored.get("properties") or {}),
        str(before[-1]["metadata-file"]) if before else "",
        tuple(entries),
        max((int(each) for each in uppers if each.isdecimal()), default=0),
        _paths(each.get("manifest-list") for each in snapshots),
        _paths([*(each.get("statistics-path") for each in statistics), *payloads]),
    )


def _paths(found: Iterable[Any]) -> frozenset[str]:
    """Give paths, of which thousands of versions have the same."""
    return frozenset(sys.intern(each) for each in found if isinstance(each, str) and each)
