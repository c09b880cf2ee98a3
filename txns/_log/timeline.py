"""
Head and archive as one sequence: every entry once, ascending by `commit_ts`.

An entry leaves the head when every table shows it (docs/spec.md 10, I6); who reads both meets it in
both, or in an archive that is newer than its head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from txns._log.archive import rows_of
from txns._log.entry import Operation
from txns._log.state import committed

if TYPE_CHECKING:
    from txns._log.archive import Archive
    from txns._log.commit_log import Head
    from txns._log.entry import Change, Entry
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
            for entry in (*self.archive.of_table(uuid, ts), *standing)
            for change in entry.changes
            if change.uuid == uuid and change.operation in {Operation.CREATE, Operation.DROP}
        }
        return bool(deeds) and deeds[max(deeds)] is Operation.DROP

    def rows(self, state: LogState) -> list[tuple[dict[str, Any], Entry | None, Change | None]]:
        """Give the archive's rows for all there is; with entry and change where it stands yet."""
        rows: list[tuple[dict[str, Any], Entry | None, Change | None]] = [
            (row, None, None) for row in self.archive.rows()
        ]
        archived = {row["commit_ts"] for row, _, _ in rows}
        for entry in state.entries:
            if entry.commit_ts not in archived:
                changes = entry.changes or (None,)
                rows += [
                    (row, entry, change)
                    for row, change in zip(rows_of(entry), changes, strict=True)
                ]
        return sorted(rows, key=lambda row: row[0]["commit_ts"])
