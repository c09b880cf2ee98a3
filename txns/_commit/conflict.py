"""
Validates a transaction once, from its `read_ts` to the head, at the level of tables.

Never statement by statement: replaying the checks of single operations loses updates
(schedule 13 of the protocol's races). Docs/isolation.md. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from txns._log.change import Change, Operation
from txns._log.entry import Entry, Isolation, Kind
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from txns._identifier import Identifier
    from txns._stage.read_set import ReadSet
    from txns._stage.staged_table import StagedTable


@dataclass(frozen=True, slots=True)
class ConflictChecker:
    """What one transaction read and wrote, to be held against others."""

    txn_id: str
    isolation: Isolation
    reads: ReadSet
    writes: Mapping[Identifier, StagedTable]

    def validate(self, newer: Sequence[Entry]) -> None:
        """
        Check against everything that committed since.

        Args:
            newer: The entries above `read_ts`, ascending.

        Raises:
            Conflict: Naming the table, the other transaction and the least `read_ts`.
        """
        least_ts = newer[-1].commit_ts if newer else 0
        for entry in newer:
            for change in entry.changes:
                reason = self._clash(entry, change)
                if reason:
                    raise Conflict(
                        reason,
                        table=change.table,
                        txn_id=self.txn_id,
                        winner=entry.winner,
                        least_ts=least_ts,
                    )

    def _clash(self, entry: Entry, change: Change) -> str | None:
        """Say why a committed change clashes with the transaction; None when it does not."""
        write = self.writes.get(change.table) or self._write_of(change.uuid)
        if write is None:
            reason = _unwritten_clash(entry, change, self.reads)
        else:
            reason = self._write_clash(write, entry, change)
        if reason:
            return reason
        appears = change.operation is Operation.CREATE or entry.kind is Kind.REGISTER
        if appears and self.reads.was_absent(change.table):
            return "a table that it found absent was created, or came under care"
        if not self.isolation.validates_reads:
            return None
        # What came under care for this very transaction was there before.
        comes_or_goes = change.operation in {Operation.CREATE, Operation.DROP} or (
            entry.kind in {Kind.REGISTER, Kind.FORGET} and write is None
        )
        if comes_or_goes and self.reads.was_listed(change.table[:-1]):
            return "the tables of a namespace that it listed have changed"
        return self._read_clash(entry, change)

    def _read_clash(self, entry: Entry, change: Change) -> str | None:
        names = self.reads.known_as(change.table, change.uuid)
        if change.operation is Operation.DROP and names & self.reads.present:
            return "a table that it found was dropped"
        if names & self.reads.tables.keys() and not _is_same_rows(entry, change):
            return f"a table that it read was written (filter {self.reads.filter_of(names)})"
        return None

    def _write_of(self, uuid: str) -> StagedTable | None:
        """Give what it wrote of a table under another name, or the same in other letters."""
        writes = self.writes.values()
        return next((one for one in writes if str(one.base.table_uuid) == uuid), None)

    def _write_clash(self, write: StagedTable, entry: Entry, change: Change) -> str | None:
        if entry.kind in {Kind.FORGET, Kind.REPAIR}:
            return "a table that it wrote was taken out of care or repaired"
        if entry.kind is Kind.REGISTER and change.to_snapshot_id == write.base.current_snapshot_id:
            return None  # it came under care for this very transaction
        if change.table not in self.writes:
            return "a table that it wrote was renamed and written"
        if write.create:
            return "a table that it creates was created"
        if self.reads.wrote_by_rows(change.table, change.uuid) or not write.append_only:
            return "a table that it wrote over was written"
        return _append_clash(entry, change, self.reads)


def _unwritten_clash(entry: Entry, change: Change, reads: ReadSet) -> str | None:
    """Hold against others what found nothing to change: it has looked at the table all the same."""
    if reads.wrote_by_rows(change.table, change.uuid) and not _is_same_rows(entry, change):
        return "a table that it found nothing to change in was written"
    return None


def _append_clash(entry: Entry, change: Change, reads: ReadSet) -> str | None:
    if change.operation in {Operation.CREATE, Operation.DROP}:
        return "a table that it appended to was created or dropped"
    # Rows that were made from what was there: the update that is lost is of the table as a whole.
    names = reads.known_as(change.table, change.uuid)
    if names & reads.tables.keys() and not _is_same_rows(entry, change):
        return f"a table that it read and appended to was written (filter {reads.filter_of(names)})"
    return None


def _is_same_rows(entry: Entry, change: Change) -> bool:
    """Whether an entry has left the rows of a table as they were."""
    return change.operation is Operation.REPLACE or entry.kind is Kind.REGISTER
