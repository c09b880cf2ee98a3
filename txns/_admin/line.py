"""
What `main` of a table has gone through, by which an entry passes the table over.

Docs/spec.md 9.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from txns._iceberg.snapshots import History
from txns._log.entry import APPLIED_KINDS, Kind
from txns._log.limits import is_late
from txns._table import mark as _mark
from txns._table.logged_state import logged_state

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from txns._log.change import Change
    from txns._log.entry import Entry


@dataclass(frozen=True)
class Line:
    """
    What `main` of a table has gone through.

    Attributes:
        uuid: The table's.
        oldest_ts: The `commit_ts` in ms of the oldest entry that is left on it, or of the newest
            registration.
        applied_ts: `txns.applied` in ms.
        snapshot_ids: All that is left on it, since then.
        below: What of that lies below the newest entry.
        given_up: Above which `commit_ts` in ms and below which nothing is left of the table.
    """

    uuid: str
    oldest_ts: int
    applied_ts: int
    snapshot_ids: frozenset[int]
    below: frozenset[int]
    given_up: tuple[tuple[int, int], ...]

    @staticmethod
    def of(metadata: TableMetadata, mark: _mark.TableMark) -> Line:
        """Walk it."""
        main = logged_state(metadata, mark).snapshot
        line = list(History(metadata).ancestors(main))
        marks = [at for at in line if _mark.is_ours(at) and _mark.marks(metadata, at)]
        if marks:  # below it another log may have cared for the table
            line = [*takewhile(lambda at: at is not marks[0], line), marks[0]]
        ours = [at for at in line if _mark.is_ours(at)]
        in_time = [ts for ts in map(_mark.commit_ts_of, ours) if not is_late(ts)]
        newest = next((at for at in ours[:1] if at not in marks), None)
        return Line(
            str(metadata.table_uuid),
            in_time[-1] if in_time else mark.applied,
            mark.applied,
            frozenset(at.snapshot_id for at in line),
            frozenset(at.snapshot_id for at in (line[line.index(newest) + 1 :] if newest else ())),
            tuple(
                (above, _mark.commit_ts_of(at))
                for at in ours
                if (above := _mark.lost_above(at)) is not None
            ),
        )

    def has_given_up(self, ts: int) -> bool:
        """Whether nothing is left of what it was at a `commit_ts` in ms."""
        return any(above < ts < adopted for above, adopted in self.given_up)

    def passes_over(self, entry: Entry, change: Change) -> bool:
        """Whether a change of an entry is not on it, and can be carried out no more."""
        ts, kind = entry.commit_ts, entry.kind
        if change.uuid != self.uuid or kind not in APPLIED_KINDS or ts <= self.oldest_ts:
            return False
        if self.has_given_up(ts):
            return False
        if change.to_snapshot_id in self.snapshot_ids:
            return False  # it is on it, at another `commit_ts` where a recovery has moved it
        if ts <= self.applied_ts:
            return True
        return kind not in {Kind.REPAIR, Kind.FORGET} and change.from_snapshot_id in self.below
