"""
Head and archive as one sequence: every entry once, ascending by `commit_ts`.

An entry leaves the head when every table shows it (docs/spec.md 10, I6); who reads both meets it in
both, or in an archive that is newer than its head.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING

from txns._log.change import Operation
from txns._log.state import committed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from txns._log.archive import Archive, Wanted
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.state import LogState


@dataclass(frozen=True, slots=True)
class Timeline:
    """What was committed to one log."""

    archive: Archive

    def above(self, state: LogState, ts: int) -> list[Entry]:
        """Give every entry above a timestamp in ms: of a head, and what has left it since."""
        entries = {entry.commit_ts: entry for entry in state.after(ts)}
        if state.tidied_upto > ts:
            for entry in self.archive.between(ts, state.tidied_upto):
                entries.setdefault(entry.commit_ts, entry)
        return [entries[at] for at in sorted(entries)]

    def under(self, state: LogState, txn_id: str, since_ts: int) -> list[Entry]:
        """
        Give the entries under an id: once one has committed there is no abort.

        Args:
            state: Of a head.
            txn_id: The id.
            since_ts: The archive is asked for what has left the head above it, in ms.
        """
        standing = state.under(txn_id)
        if committed(standing) or state.tidied_upto <= since_ts:
            return standing
        return [*self.archive.under(txn_id, since_ts), *standing]

    def has(self, head: Head, uuid: str, commit_ts: int, txn_id: str) -> bool:
        """
        Say whether a change that a table shows is the log's: it stands in the head, or has left it.

        Args:
            head: Its upper is not below the change.
            uuid: The table's.
            commit_ts: Of the change, in ms.
            txn_id: Of the change.
        """
        for entry in head.state.entries:
            if entry.commit_ts == commit_ts:
                return entry.txn_id == txn_id
        if commit_ts > head.state.tidied_upto:
            return False  # above it the head is complete
        return self.archive.has_applied(head, uuid, commit_ts, txn_id)

    def was_dropped(self, state: LogState, uuid: str, ts: int) -> bool:
        """Say whether a table had been dropped, and not created again, at a timestamp in ms."""
        standing = [entry for entry in state.entries if entry.commit_ts <= ts]
        deeds = {
            entry.commit_ts: change.operation
            for entry in (*self.archive.lives_of_table(uuid, ts), *standing)
            for change in entry.changes
            if change.uuid == uuid and change.operation in {Operation.CREATE, Operation.DROP}
        }
        return bool(deeds) and deeds[max(deeds)] is Operation.DROP

    def newest_first(self, head: Head, wanted: Wanted) -> Iterator[Entry]:
        """Give entries from the newest on; the archive is read as far as somebody asks."""
        upto = head.state.tidied_upto
        standing = [entry for entry in reversed(head.state.entries) if wanted.has(entry)]
        yield from (entry for entry in standing if entry.commit_ts > upto)
        below = [entry for entry in standing if entry.commit_ts <= upto]
        archived = self.archive.newest_first(head, wanted)
        yield from _once(merge(below, archived, key=lambda entry: -entry.commit_ts))

    def oldest_first(self, head: Head, wanted: Wanted) -> Iterator[Entry]:
        """Give entries from the oldest on, piece by piece; the archive only where it has any."""
        standing = [entry for entry in head.state.entries if wanted.has(entry)]
        if wanted.after >= head.state.tidied_upto:
            yield from standing
            return
        archived = self.archive.oldest_first(head, wanted)
        yield from _once(merge(standing, archived, key=lambda entry: entry.commit_ts))


def _once(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Give entries in order, of two with one `commit_ts` the first."""
    last = -1
    for entry in entries:
        if entry.commit_ts != last:
            yield entry
        last = entry.commit_ts
