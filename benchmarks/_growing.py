"""
Lakes in which one thing grows alone, and what a BEGIN, a read and a COMMIT cost in them.

Everything is in bytes that the protocol writes, and asserted: how much there is of it, what
`txns check` says, and each row afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from _counted import CountingIO, counted_catalog, kind
from _large_log import ROW, STUCK, add_archive, add_standing, open_lake, properties_of
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetPropertiesUpdate

import txns
from txns._admin.invariants import check_all
from txns._log import commit_table
from txns._table import mark
from txns._table.replay import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from cProfile import Profile
    from pathlib import Path

BEGIN, READ, COMMIT, TIDY = "BEGIN", "read of a table", "COMMIT", "tidy"
PARTS = (BEGIN, READ, COMMIT, TIDY)
CALLS, BYTES_READ, BYTES_WRITTEN = "catalog calls", "bytes read", "bytes written"
CPU, CLOCK = "processor time", "time"
QUANTITIES = (CALLS, BYTES_READ, BYTES_WRITTEN, CPU, CLOCK)

_CHECKED_TABLES = 1_000
"""Up to so many a lake is checked as a whole: a check reads the metadata of each."""
_CREATED_AT_ONCE = 1_000
"""Tables that one transaction may create."""
_ROWS_BEFORE = 100


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What one part of a transaction cost.

    Attributes:
        calls: Statements that the catalog's database was sent.
        read: Bytes, by what kind of file they are of.
        written: As much.
        cpu_us: Processor time of the process, in microseconds.
        clock_us: Time in microseconds.
    """

    calls: float
    read: Counter[str]
    written: Counter[str]
    cpu_us: float
    clock_us: float

    def of(self, quantity: str) -> float:
        """Give one quantity."""
        return {
            CALLS: self.calls,
            BYTES_READ: float(self.read.total()),
            BYTES_WRITTEN: float(self.written.total()),
            CPU: self.cpu_us,
            CLOCK: self.clock_us,
        }[quantity]

    def share(self, sessions: int) -> Cost:
        """Give what each of some sessions cost."""
        return Cost(
            self.calls / sessions,
            Counter({each: count // sessions for each, count in self.read.items()}),
            Counter({each: count // sessions for each, count in self.written.items()}),
            self.cpu_us / sessions,
            self.clock_us / sessions,
        )


class Session:
    """A handle as a process of its own has it, whose requests are counted."""

    def __init__(self, folder: Path) -> None:
        catalog, self.statements = counted_catalog(properties_of(folder))
        self.handle = txns.open(catalog, tidy_after=1000)  # it is measured apart


@dataclass
class Lake:
    """
    A lake, and transactions in it.

    Attributes:
        folder: Where it is.
        groups: Tables that a transaction appends a row to, by turns.
        sessions: Who they are of, by turns: each meets what another has committed.
        expected: How many rows each of these tables has to have.
    """

    folder: Path
    groups: list[list[str]]
    sessions: list[Session] = field(default_factory=list)
    expected: Counter[str] = field(default_factory=Counter)

    def opened(self) -> Lake:
        """Open two sessions."""
        self.sessions = [Session(self.folder) for _ in range(2)]
        return self

    def turn(self, number: int, profiles: dict[str, Profile] | None = None) -> dict[str, Cost]:
        """
        Run a transaction; give what its parts cost.

        Args:
            number: Of the turn.
            profiles: What to run a part under, by its name.
        """
        session = self.sessions[number % len(self.sessions)]
        names = self.groups[number % len(self.groups)]
        costs = {}

        def measured(part: str, work: Callable[[], Any]) -> Any:
            profile = profiles and profiles[part]
            did = (lambda: profile.runcall(work)) if profile else work
            found, costs[part] = _measured(did, [session])
            return found

        txn = measured(BEGIN, session.handle.begin)
        found = measured(READ, lambda: _read(session, names[0]))
        assert found == self.expected[names[0]], (names[0], found)
        for name in names:
            txn.load_table(name).append(ROW)
        measured(COMMIT, txn.commit)
        self.expected.update(names)
        left = measured(TIDY, session.handle.tidy)
        assert left == 1, left
        return costs

    def count_rows(self) -> None:
        """Hold every table that was written against what it has to have, past the protocol."""
        catalog = SqlCatalog("lake", **properties_of(self.folder))
        for name in {name for group in self.groups for name in group}:
            found = catalog.load_table(name).scan().count()
            assert found == self.expected[name], (name, found, self.expected[name])


@dataclass
class Crowd(Lake):
    """
    A lake whose sessions run transactions all at once, each in a thread: one of each table a turn.

    They share the tables, so that what is written is the same, however many they are.

    Attributes:
        outsider: Who tidies between turns, so that they meet a head that another has moved.
    """

    outsider: Session = field(kw_only=True)

    def turn(self, number: int, profiles: dict[str, Profile] | None = None) -> dict[str, Cost]:
        """Run a transaction of each table; give what the parts of one cost."""
        del number, profiles
        names = [name for [name] in self.groups]
        costs = {}
        begun: dict[str, txns.Transaction] = {}
        found: dict[str, int] = {}

        def begin(session: Session, name: str) -> None:
            begun[name] = session.handle.begin()

        def read(session: Session, name: str) -> None:
            found[name] = _read(session, name)

        def commit(_: Session, name: str) -> None:
            begun[name].commit()

        with ThreadPoolExecutor(len(self.sessions)) as pool:
            for part, work in {BEGIN: begin, READ: read, COMMIT: commit}.items():
                if part == COMMIT:
                    for name in names:
                        begun[name].load_table(name).append(ROW)
                _, cost = _measured(partial(self._each, pool, work, names), self.sessions)
                costs[part] = cost.share(len(names))
        assert found == {name: self.expected[name] for name in names}, found
        self.expected.update(names)
        left, cost = _measured(self.outsider.handle.tidy, [self.outsider])
        assert left == len(names), left
        costs[TIDY] = cost.share(len(names))
        return costs

    def _each(
        self, pool: ThreadPoolExecutor, work: Callable[[Session, str], None], names: list[str]
    ) -> None:
        """Have each session do something with each of its tables."""
        count = len(self.sessions)

        def all_of(at: int) -> None:
            for name in names[at::count]:
                work(self.sessions[at], name)

        list(pool.map(all_of, range(count)))


def _read(session: Session, name: str) -> int:
    return len(session.handle.snapshot().load_table(name).scan().to_arrow())


def _measured(work: Callable[[], Any], sessions: Sequence[Session]) -> tuple[Any, Cost]:
    for session in sessions:
        session.statements.clear()
    CountingIO.clear()
    started, used = time.perf_counter(), time.process_time()
    found = work()
    clock, cpu = time.perf_counter() - started, time.process_time() - used
    read, written = (_by_kind(seen) for seen in (CountingIO.bytes_read, CountingIO.bytes_written))
    calls = sum(len(session.statements) for session in sessions)
    return found, Cost(calls, read, written, 1e6 * cpu, 1e6 * clock)


def _by_kind(seen: Sequence[tuple[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for path, count in seen:
        found[kind(path)] += count
    return found


# ------------------------------------------------------------ what grows


def registered(folder: Path, size: int, most: int) -> Lake:
    """Give a lake with as many tables; the log's rows are as many in each of these lakes."""
    catalog, handle = open_lake(folder)
    names = _create(catalog, size)
    add_archive(handle.parts, most - size)
    assert len(catalog.list_tables("shop")) == size
    if size <= _CHECKED_TABLES:
        _check(handle, tables=size)
    _assert_archived(handle, most)
    handle.close()
    return Lake(folder, [names[:1]]).opened()


def past(folder: Path, size: int, _most: int) -> Lake:
    """Give a lake with as many transactions in its archive."""
    catalog, handle = open_lake(folder)
    names = _create(catalog, 2)
    add_archive(handle.parts, size - len(names))
    _assert_archived(handle, size)
    _check(handle, tables=2)
    handle.close()
    return Lake(folder, [names[:1]]).opened()


def at_once(folder: Path, size: int, most: int) -> Lake:
    """Give a lake whose transactions have as many tables, of those that all these lakes have."""
    catalog, handle = open_lake(folder)
    names = _create(catalog, most)
    _check(handle, tables=most)
    handle.close()
    return Lake(folder, [names[:size]]).opened()


def snapshots(folder: Path, size: int, most: int, turns: int) -> Lake:
    """
    Give a lake whose tables have as many snapshots, a table for each turn, which adds one.

    All are of entries that have left the head; the log's rows are as many in each of these lakes.
    """
    catalog, handle = open_lake(folder)
    names = _create(catalog, turns)
    for name in names:
        add_standing(handle, name, size - 1)  # its creation left it one
        _apply_at_once(catalog, handle, name)
        assert handle.tidy() == size - 1
        assert len(catalog.load_table(name).metadata.snapshots) == size
    add_archive(handle.parts, turns * (most - size))
    _assert_archived(handle, turns * most)
    _check(handle, tables=turns)
    handle.close()
    return Lake(folder, [[name] for name in names], expected=Counter(names)).opened()


def head(folder: Path, size: int, _most: int) -> Lake:
    """Give a lake with as many entries in its head, of a table that a stranger drops then."""
    catalog, handle = open_lake(folder)
    names = _create(catalog, 2)
    catalog.create_table(STUCK, ROW.schema)
    handle.register(STUCK)
    handle.tidy()
    add_archive(handle.parts, _ROWS_BEFORE)
    if size:
        add_standing(handle, STUCK, size)
    assert len(handle.parts.log.load().state.entries) == size
    _check(handle, tables=3)
    catalog.drop_table(STUCK)
    handle.close()
    return Lake(folder, [names[:1]]).opened()


def sessions(folder: Path, size: int, most: int) -> Lake:
    """Give a lake with as many sessions, each with a handle, which share its tables."""
    catalog, handle = open_lake(folder)
    names = _create(catalog, most)
    _check(handle, tables=most)
    handle.close()
    crowd = [Session(folder) for _ in range(size)]
    return Crowd(folder, [[name] for name in names], crowd, outsider=Session(folder))


def _create(catalog: SqlCatalog, count: int) -> list[str]:
    """Make tables under care, many in one transaction that moves them all; give their names."""
    names = [f"shop.t{number}" for number in range(count)]
    handle = txns.open(catalog, apply="atomic")
    for start in range(0, count, _CREATED_AT_ONCE):
        with handle.begin() as txn:
            for name in names[start : start + _CREATED_AT_ONCE]:
                txn.create_table(name, ROW.schema)
        handle.tidy()
    handle.close()
    return names


def _apply_at_once(catalog: SqlCatalog, handle: txns.Handle, name: str) -> None:
    """Apply all entries of a table in one swap, where an applier makes one for each of them."""
    base = catalog.load_table(name)
    shown = handle.snapshot().load_table(name).metadata.snapshots
    renumber = handle.parts.applier.renumber_on_storage(base)
    here = {each.snapshot_id for each in base.metadata.snapshots}
    applied = [
        renumber(each, Numbers(each.sequence_number, None))
        for each in shown
        if each.snapshot_id not in here
    ]
    updates = (
        *(AddSnapshotUpdate(snapshot=each) for each in applied),
        commit_table.main_at(applied[-1].snapshot_id),
        SetPropertiesUpdate(updates={mark.APPLIED: str(handle.upper)}),
    )
    catalog.commit_table(base, (AssertTableUUID(uuid=base.metadata.table_uuid),), updates)


def _check(handle: txns.Handle, *, tables: int) -> None:
    found = check_all(handle.parts)
    assert not found.violations, found.violations[:5]
    assert found.checked["tables"] == tables, found.checked


def _assert_archived(handle: txns.Handle, count: int) -> None:
    found = len(handle.parts.timeline.archive.rows(columns=("commit_ts",)))
    assert found == count, (found, count)
