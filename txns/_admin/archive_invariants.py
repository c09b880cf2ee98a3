"""
The archive and its ids, held against docs/spec.md, section 12: read piece by piece.

What the checks of tables ask of the log is noted on the way.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from txns._admin.findings import Findings
from txns._identifier import dotted_name
from txns._log.archive import entries_of, time_of
from txns._log.archive_scan import ArchiveScan
from txns._log.change import Operation
from txns._log.entry import Isolation, Kind
from txns._message import said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from txns._admin.table_invariants import LoggedTables
    from txns._log.entry import Entry
    from txns._log.head import Head
    from txns._log.state import LogState
    from txns._services import Parts

_SHOWN = 10


def check_archive(found: Findings, parts: Parts, head: Head, logged: LoggedTables) -> None:
    """Check rows against each other and against the head (I1, I6, I8); note their entries."""
    name = dotted_name(parts.log.identifier)
    check = _ArchiveCheck(found, name, head, logged)
    try:
        for rows in _rows(head):
            check.add(rows)
    except Exception as error:  # noqa: BLE001 -- said, and the rest is checked
        found.add("I6", name, f"the archive cannot be read: {said(error)}")
    check.end()
    found.checked["archived entries"] = check.count
    if repeated := _repeated(check.ids):
        _check_ids(found, name, _under(head, name, repeated), head.state)


def _rows(head: Head) -> Iterator[list[dict[str, Any]]]:
    """Give the rows of this very head: a tidy that comes now moves entries from one to another."""
    assert head.table is not None
    for rows in ArchiveScan(head.table).oldest_first():
        yield rows.to_pylist()


@dataclass
class _ArchiveCheck:
    """
    The checks that need to see each row once, ascending by `commit_ts`.

    Attributes:
        found: What does not hold.
        name: Of the commit table.
        head: Its head.
        logged: What is noted of the entries.
        ids: A hash of each entry's id, those of the head included.
        count: How many entries are archived.
    """

    found: Findings
    name: str
    head: Head
    logged: LoggedTables
    ids: array[int] = field(default_factory=lambda: array("q"))
    count: int = 0
    _asked: set[int] = field(default_factory=set)
    _archived: set[int] = field(default_factory=set)
    _above: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        state = self.head.state
        self._standing = deque(state.entries)
        stands = {entry.commit_ts for entry in state.entries}
        self._asked = stands | {entry.prev_ts for entry in state.entries} | {state.tidied_upto}

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Check the next rows; those of an entry come together."""
        good = [row for row in rows if _check_row(self.found, self.name, row)]
        _check_rows(self.found, self.name, good)
        for entry in entries_of(good):
            self.count += 1
            if entry.commit_ts in self._asked:
                self._archived.add(entry.commit_ts)
            if entry.commit_ts > self.head.state.tidied_upto:
                self._above.append(entry.commit_ts)
            if not self._note_standing(entry.commit_ts):
                self._note(entry, archived=True)

    def end(self) -> None:
        """Check that head and archive are one log: nothing in both, nothing in neither."""
        self._note_standing(self.head.upper)
        found, name, state = self.found, self.name, self.head.state
        known_ts = self._archived | {entry.commit_ts for entry in state.entries}
        for entry in state.entries:
            if entry.commit_ts in self._archived:
                found.add("I6", name, f"{entry.commit_ts} is in the head and in the archive")
            known = not entry.prev_ts or entry.prev_ts in known_ts
            if entry.commit_ts <= state.tidied_upto and not known:
                words = f"the entry before {entry.commit_ts}, {entry.prev_ts}, is gone"
                found.add("I1", name, words)
        if self._above:
            more = f" and {len(self._above) - _SHOWN} more" if len(self._above) > _SHOWN else ""
            words = f"rows above tidied-upto {state.tidied_upto}: {self._above[:_SHOWN]}{more}"
            found.add("I6", name, words)
        tidied = state.tidied_upto  # where a recovery has put it, its entry may stand
        if tidied and tidied not in known_ts:
            found.add("I6", name, f"the entry at tidied-upto {tidied} has no row")

    def _note_standing(self, upto: int) -> bool:
        """Note the head's entries up to a `commit_ts` in ms; give whether one has just that."""
        last = 0
        while self._standing and self._standing[0].commit_ts <= upto:
            entry = self._standing.popleft()
            self._note(entry, archived=False)
            last = entry.commit_ts
        return last == upto

    def _note(self, entry: Entry, *, archived: bool) -> None:
        self.logged.add(entry, archived=archived)
        self.ids.append(hash(entry.txn_id))


def _check_row(found: Findings, name: str, row: dict[str, Any]) -> bool:
    """Check one row of the archive on its own; give whether it can be used."""
    where = f"{name} row {row['commit_ts']}"
    try:
        Kind(row["kind"])
        Isolation(row["isolation"])
        if row["operation"] is not None:
            Operation(row["operation"])
    except ValueError as error:
        found.add("3.1", where, said(error))
        return False
    if row["committed_at"] != time_of(row["commit_ts"]):
        found.add("3.1", where, f"committed_at is {row['committed_at']}")
    if row["read_ts"] >= row["commit_ts"]:
        found.add("I1", where, f"read_ts {row['read_ts']} is not below it")
    return True


def _check_rows(found: Findings, name: str, rows: list[dict[str, Any]]) -> None:
    """Check that one `commit_ts` is one id, and that a row is there once."""
    pairs = {(row["txn_id"], row["commit_ts"]) for row in rows}
    for commit_ts, count in Counter(commit_ts for _, commit_ts in pairs).items():
        if count > 1:
            found.add("I1", name, f"{commit_ts} is of {count} entries")
    twice = Counter((row["commit_ts"], row["txn_id"], row["table_name"]) for row in rows)
    for (commit_ts, _, table), count in twice.items():
        if count > 1:
            found.add("I6", name, f"the row of {commit_ts} and {table} is there {count} times")


def _repeated(hashes: array[int]) -> frozenset[int]:
    """Give the hashes that are there twice: ids that several entries have, or seem to."""
    return frozenset(one for one, other in pairwise(sorted(hashes)) if one == other)


def _under(head: Head, name: str, hashes: frozenset[int]) -> Iterator[Entry]:
    """Give the entries whose ids have such a hash, archived ones first."""
    for rows in _rows(head):
        good = [row for row in rows if hash(row["txn_id"]) in hashes]
        yield from entries_of(row for row in good if _check_row(Findings(), name, row))
    yield from (entry for entry in head.state.entries if hash(entry.txn_id) in hashes)


def _check_ids(found: Findings, name: str, entries: Iterable[Entry], state: LogState) -> None:
    """
    Check each id over head and archive; it may come again when it is not looked for any more.

    Rows of the archive do not say what the log was set to below its settings of today.
    """
    retention_ms = state.settings.id_retention_ms
    since_ts = state.settings_entry.commit_ts if state.settings_entry else 0
    under: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda each: each.commit_ts):
        txn_id, before = entry.txn_id, under.get(entry.txn_id)
        under[txn_id] = entry
        if before is None or entry.commit_ts < since_ts:
            continue
        if entry.commit_ts - before.commit_ts > retention_ms:
            continue
        if not before.is_abort:
            found.add("I8", name, f"the id {txn_id} stands above its entry {before.commit_ts}")
        elif not entry.is_abort and entry.read_ts < before.commit_ts:
            found.add("I8", name, f"the id {txn_id} has committed from before its abort")
