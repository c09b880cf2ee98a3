"""
What a log has of what its tables show, and where it stands.

Docs/spec.md 9.6. Of one transaction a log has one entry, whichever attempts its tables show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from txns._log.limits import is_late
from txns._log.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from txns._admin.log_versions import EntryId

_ANY = 2**63 - 1


@dataclass(frozen=True)
class Known:
    """
    Entries that a log has: of its archive those that were asked for, by `commit_ts` or by id.

    Attributes:
        tables: By entry the uuids of the tables that its archive has of it; None: all.
        aborts: Which of them are aborts.
        id_retention_ms: An id that comes again within this is that of one transaction.
    """

    tables: dict[EntryId, frozenset[str] | None] = field(default_factory=dict)
    aborts: frozenset[EntryId] = frozenset()
    id_retention_ms: int = Settings().id_retention_ms

    @cached_property
    def taken(self) -> set[int]:
        """Every `commit_ts` in ms at which there is one."""
        return {ts for ts, _ in self.tables}

    @cached_property
    def _committed(self) -> dict[str, list[int]]:
        return by_id(self.tables.keys() - self.aborts)

    @cached_property
    def _aborted(self) -> dict[str, list[int]]:
        return by_id(self.aborts)

    def has(self, entry: EntryId) -> bool:
        """Whether the log has what a table shows, there or at another `commit_ts`."""
        return entry in self.tables or self.stands_at(entry) is not None

    def stands_at(self, entry: EntryId, most_ts: int = _ANY) -> int | None:
        """Give the `commit_ts` in ms at which it has the transaction that a table shows."""
        return self.same(self._committed, entry, most_ts)

    def aborted_above(self, entry: EntryId) -> bool:
        """Whether it has an abort of the id above what a table shows."""
        ts, txn_id = entry
        return any(abort > ts for abort in self._aborted.get(txn_id, ()))

    def same(self, stamps: dict[str, list[int]], entry: EntryId, most_ts: int = _ANY) -> int | None:
        """
        Give the newest `commit_ts` in ms of the transaction that a table shows; None for none.

        Args:
            stamps: By id where transactions stand, in ms.
            entry: What the table shows. An id that was last used long before is used again.
            most_ts: What the answer is at most, in ms.
        """
        ts, txn_id = entry
        least_ts = 0 if is_late(ts) else ts - self.id_retention_ms
        found = (at for at in stamps.get(txn_id, ()) if least_ts <= at <= most_ts)
        return max(found, default=None)


def by_id(entries: Iterable[EntryId]) -> dict[str, list[int]]:
    """Give each id's `commit_ts` in ms."""
    found: dict[str, list[int]] = {}
    for ts, txn_id in entries:
        found.setdefault(txn_id, []).append(ts)
    return found
