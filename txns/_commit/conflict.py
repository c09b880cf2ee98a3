"""
Validates a transaction once, from its `read_ts` to the head.

Never statement by statement: replaying the checks of single operations loses updates
(schedule 13 of the protocol's races). Docs/isolation.md. Pure at the level of tables; where files
tell whether two really clash, they are asked (`file_conflicts`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from txns._iceberg import filter_words, what_helps
from txns._iceberg.what_helps import Clash
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Isolation, Kind
from txns._log.permitted import CONFLICTS
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from txns._commit.file_conflicts import FileConflicts
    from txns._identifier import Identifier
    from txns._stage.read_set import ReadSet, RowFilter
    from txns._stage.staged_table import StagedTable


@dataclass(frozen=True, slots=True)
class ConflictChecker:
    """
    What one transaction read and wrote, to be held against others.

    Attributes:
        txn_id: The transaction.
        isolation: What is validated.
        reads: What it read.
        writes: What it staged.
        files: Tells clashes from meetings in one table; None where tables alone count.
    """

    txn_id: str
    isolation: Isolation
    reads: ReadSet
    writes: Mapping[Identifier, StagedTable]
    files: FileConflicts | None = None

    def validate(self, newer: Sequence[Entry]) -> None:
        """
        Check against everything that committed since.

        Args:
            newer: The entries above `read_ts`, ascending.

        Raises:
            Conflict: Naming the table, the other transaction and the least `read_ts`.
        """
        least_ts = newer[-1].commit_ts if newer else 0
        first: Conflict | None = None
        for entry in newer:
            for change in entry.changes:
                reason = self._clash(entry, change)
                if not reason:
                    continue
                only_read = self.isolation.validates_reads and not self._loses_at_snapshot(newer)
                conflict = Conflict(
                    reason + self._what_helps(entry, change, only_read=only_read),
                    table=change.table,
                    txn_id=self.txn_id,
                    winner=entry.winner,
                    least_ts=least_ts,
                )
                if not self._may_be_anothers(entry, change):
                    raise conflict
                first = first or conflict
        if first is not None:
            raise first

    def _may_be_anothers(self, entry: Entry, change: Change) -> bool:
        """Whether what was met is not known to be of an entry: who came first may stand later."""
        return (
            self.files is not None
            and self._goes_by_files(entry, change)
            and self.files.met_anybodys(entry, change)
        )

    def _clash(self, entry: Entry, change: Change) -> str | None:
        """Say why a committed change clashes with the transaction; None when it does not."""
        write = self.writes.get(change.table) or self._write_of(change.uuid)
        if write is None:
            reason = self._unwritten_clash(entry, change)
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
        return self._rows_clash("a table that it read was written", entry, change)

    def _rows_clash(self, words: str, entry: Entry, change: Change) -> str | None:
        """Hold what was read of a table against an entry; say what was met, after some words."""
        names = self.reads.known_as(change.table, change.uuid)
        filters = self.reads.filters_of(names)
        if not filters or _is_same_rows(entry, change):
            return None
        met = f"filter {filter_words.words(*(each.expression for each in filters))}"
        if self._goes_by_files(entry, change):
            assert self.files is not None
            met_file = self.files.met(entry, change)
            if met_file is None:
                return None
            met = met_file.words
        return f"{words} ({met})"

    def _goes_by_files(self, entry: Entry, change: Change) -> bool:
        """
        Whether files tell what an entry has done to a table: it has no other shape since.

        An adoption that takes a branch away alters the table by its word, and has only appended.
        """
        base = self.reads.bases.get(change.uuid)
        return (
            self.files is not None
            and entry.kind in _OF_ROWS
            and (change.operation in OF_FILES or entry.kind is Kind.ADOPT)
            and (base is None or base.properties.get(CONFLICTS) != _BY_TABLE)
        )

    def _write_of(self, uuid: str) -> StagedTable | None:
        """Give what it wrote of a table under another name, or the same in other letters."""
        writes = self.writes.values()
        return next((one for one in writes if str(one.base.table_uuid) == uuid), None)

    def _write_clash(self, write: StagedTable, entry: Entry, change: Change) -> str | None:
        if entry.kind in {Kind.FORGET, Kind.REPAIR}:
            return "a table that it wrote was taken out of care or repaired"
        if entry.kind is Kind.REGISTER and change.to_snapshot_id == write.base.current_snapshot_id:
            return None  # it came under care for this very transaction
        if change.table not in self.writes or write.create:
            done = "creates was created" if write.create else "wrote was renamed and written"
            return f"a table that it {done}"
        by_rows = self.reads.wrote_by_rows(change.table, change.uuid)
        if not by_rows and write.append_only:
            return self._append_clash(entry, change)
        words = "a table that it wrote over was written"
        if by_rows and write.changes_only_files and self._goes_by_files(entry, change):
            return self._rows_clash(words, entry, change)  # its own files restaging looks at
        return words

    def _append_clash(self, entry: Entry, change: Change) -> str | None:
        if change.operation in {Operation.CREATE, Operation.DROP}:
            return "a table that it appended to was created or dropped"
        # Rows made from what was there: the update that is lost is of all that it has read.
        words = "a table that it read and appended to was written"
        return self._rows_clash(words, entry, change)

    def _what_helps(self, entry: Entry, change: Change, *, only_read: bool) -> str:
        """Say what would keep the transaction apart from a change that clashes with it."""
        clash = self._kind(entry, change)
        base = self.reads.bases.get(change.uuid)
        by_table = ["transaction"] if self.files is None else []
        if base is not None and base.properties.get(CONFLICTS) == _BY_TABLE:
            by_table.append("table")
        filters = self._met(entry, change) if clash is Clash.ROWS else []
        met = [(each.within(base) if base else each).expression for each in filters]
        return what_helps.words(clash, base, met, by_table=by_table, only_read=only_read)

    def _loses_at_snapshot(self, newer: Sequence[Entry]) -> bool:
        """Whether any of what committed since would clash there as well."""
        there = replace(self, isolation=Isolation.SNAPSHOT)
        changes = ((entry, change) for entry in newer for change in entry.changes)
        return any(there._clash(*each) for each in changes)  # noqa: SLF001 -- its own

    def _kind(self, entry: Entry, change: Change) -> Clash:
        write = self.writes.get(change.table)
        if write is not None and write.create:
            return Clash.CREATED
        renamed = write is None and self._write_of(change.uuid) is not None
        if entry.kind not in _OF_ROWS or renamed:
            return Clash.OTHER
        if change.operation not in OF_FILES and entry.kind is not Kind.ADOPT:
            return Clash.ALTERED if change.operation is Operation.ALTER else Clash.OTHER
        if write is None or write.append_only:
            return Clash.ROWS
        if write.changes_only_files:
            by_rows = self.reads.wrote_by_rows(change.table, change.uuid)
            return Clash.ROWS if by_rows else Clash.OTHER
        return Clash.ALTERS if write.alters else Clash.OTHER

    def _met(self, entry: Entry, change: Change) -> list[RowFilter]:
        """Give the filter that has met a change; where tables decide, all of them."""
        filters = self.reads.filters_of(self.reads.known_as(change.table, change.uuid))
        if _is_same_rows(entry, change):
            return []
        if not (filters and self._goes_by_files(entry, change)):
            return filters
        assert self.files is not None
        met = self.files.met(entry, change)
        return [met.row_filter] if met is not None and met.row_filter is not None else []

    def _unwritten_clash(self, entry: Entry, change: Change) -> str | None:
        """Hold what found nothing to change against others: it has looked all the same."""
        if not self.reads.wrote_by_rows(change.table, change.uuid):
            return None
        words = "a table that it looked through for rows to change was written"
        return self._rows_clash(words, entry, change)


_BY_TABLE = "table"
_OF_ROWS = frozenset({Kind.COMMIT, Kind.ADOPT})
OF_FILES = frozenset({Operation.APPEND, Operation.OVERWRITE, Operation.DELETE, Operation.REPLACE})
"""What adds and removes files, and leaves a table's shape as it is."""


def _is_same_rows(entry: Entry, change: Change) -> bool:
    """Whether an entry has left the rows of a table as they were."""
    return change.operation is Operation.REPLACE or entry.kind is Kind.REGISTER
