"""The rows that a swap locks, and who else wants them (docs/spec.md 11.3)."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from tests.txns.commit.test_atomic import append, born, meanwhile
from tests.txns.lake import ids, rows
from txns._iceberg.sql_rows import SqlRows, rows_of
from txns._log.commit_log import CommitLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from txns._iceberg.locked_rows import LockedRows


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic")


def in_a_thread(deed: Callable[[], None]) -> None:
    """Wait for what another thread does; a lock of this one is another's there."""
    thread = threading.Thread(target=deed)
    thread.start()
    thread.join()


def loses_its_lock(
    monkeypatch: pytest.MonkeyPatch, then: Callable[[LockedRows], None]
) -> list[LockedRows]:
    """Let the database end the next connection that has a lock; give the rows once it has."""
    real, lost = SqlRows.locked, []

    @contextmanager
    def locked(self, first, others):
        with real(self, first, others) as held:
            if not lost:
                lost.append(held)
                held.connection.invalidate()
                then(held)
            yield held

    monkeypatch.setattr(SqlRows, "locked", locked)
    return lost


def test_a_queue_goes_by_what_was_proposed(lake, atomic, monkeypatch):
    """Who was overtaken takes no time that overtakes those behind him."""
    a, b = lake.table("a"), lake.table("b")
    other = lake.open(apply="atomic")

    def overtake() -> None:
        append(other, 1, to=(b,))
        lake.clock.ahead_ms += 5_000  # so long it waits

    meanwhile(monkeypatch, overtake)
    append(atomic, 2, to=(a,))
    first, second = [entry.commit_ts for entry in lake.standing()][-2:]
    assert first < second < first + 1_000


@pytest.mark.parametrize("apply", ["inline", "next"])
def test_who_moves_the_log_alone_waits_in_the_queue_too(lake, atomic, monkeypatch, apply):
    """On a head that was read before the lock it would lose to whoever was there before."""
    a, b = lake.table("a"), lake.table("b")
    plain, real, wanted = lake.open(apply=apply), SqlRows.locked, []

    def overtaken(self, first, others):
        wanted.append([first, *others])
        if len(wanted) == 1:
            append(atomic, 1, to=(b,))
            lake.clock.ahead_ms += 5_000  # so long it waits
        return real(self, first, others)

    monkeypatch.setattr(SqlRows, "locked", overtaken)
    append(plain, 2, to=(a,))
    commits = ("txns", "commits")
    assert [[commits], [commits, ("shop", "b")]] == wanted[:2]
    assert [[True], [False]] == born(lake)[-2:]
    assert "txns_transactions_retried_total 0.0\n" in plain.metrics()
    first, second = [entry.commit_ts for entry in lake.standing()][-2:]
    assert first < second < first + 1_000


@pytest.mark.parametrize("apply", ["atomic", "inline"])
def test_who_holds_the_lock_needs_no_other_connection(lake, apply):
    """
    Others that wait for the lock may have all of the pool's.

    1. A transaction appends, and reads what is outstanding elsewhere.
    2. Others append to its table, apply what it has read, and tidy.
    3. Its attempt loads both, and asks the archive, with the one connection that there is.
    """
    a, b = lake.table("a", [1]), lake.table("b", [1])
    append(lake.open(apply="next"), 2, to=(b,))
    catalog = lake.another_catalog()
    uri = catalog.properties["uri"]
    catalog.engine = create_engine(uri, pool_size=1, max_overflow=0, pool_timeout=0.1)
    handle = lake.open(catalog, apply=apply)
    txn = handle.begin(isolation="snapshot")
    assert [1, 2] == ids(txn.load_table(b))
    txn.load_table(a).append(rows(3))
    append(lake.open(), 2, to=(a,))
    lake.open().apply_le()
    assert handle.tidy()
    txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_connection_that_is_lost_under_the_lock_loses_an_attempt_alone(lake, monkeypatch):
    """
    Slow storage, or a server that begins again.

    1. The database ends the connection that has the lock.
    2. Whoever says that work goes on, or asks for a table, is told nothing.
    3. Nothing was sent, and the next attempt commits.
    """
    a = lake.table("a", [1])
    handle = lake.open(apply="inline")
    txn = handle.begin()
    txn.load_table(a).append(rows(3))
    append(lake.open(), 2, to=(a,))

    def work(held: LockedRows) -> None:
        held._said_at_ms = -10_000
        held.at_work()

    lost = loses_its_lock(monkeypatch, work)
    txn.commit()
    assert lost
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("compared", [False, True])
def test_rows_whose_lock_was_lost_set_no_table_back(lake, monkeypatch, compared):
    """
    A newer head beside older rows says that they lack what the log has.

    1. The lock is lost; others write the table, and what they did leaves the head.
    2. Another thread of the process sees that head: before the attempt that has the rows of before
       looks what was seen, or after that.
    3. The attempt knows that head, and was told of a table set back.
    """
    a = lake.table("a", [1])
    handle, other = lake.open(apply="atomic"), lake.open(apply="inline")
    txn = handle.begin(isolation="snapshot")
    txn.load_table(a).append(rows(3))
    is_older, committer, ended = CommitLog._is_older, threading.current_thread(), []

    def others() -> None:
        append(other, 2, to=(a,))
        assert other.tidy()
        handle.snapshot()

    def end() -> None:
        ended.append(others)
        in_a_thread(others)

    def comparing(self, table):
        found = is_older(self, table)
        if lost and not ended and threading.current_thread() is committer:
            end()
        return found

    lost = loses_its_lock(monkeypatch, lambda _held: None if compared else end())
    monkeypatch.setattr(CommitLog, "_is_older", comparing)
    txn.commit()
    assert ended
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize(
    "database", ["", "/:memory:", "/file::memory:?uri=true", "/file:x?mode=memory&uri=true"]
)
def test_a_database_in_memory_has_no_rows_to_lock(database):
    """A connection of its own would have another database, or one that nobody locks."""
    catalog = SqlCatalog("lake", uri=f"sqlite://{database}", warehouse="memory://")
    assert rows_of(catalog) is None


def test_a_pool_of_one_connection_for_all_threads_has_no_rows_to_lock(lake):
    """What one thread has begun, another one would end."""
    assert rows_of(lake.catalog) is not None
    lake.catalog.engine = create_engine(lake.catalog.properties["uri"], poolclass=StaticPool)
    assert rows_of(lake.catalog) is None


def test_nobody_collects_garbage_under_the_lock(lake):
    """Everybody waits for it; what was switched off before stays so."""
    rows = lake.open(apply="atomic").parts.rows
    seen = []
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        try:
            with rows.locked(("txns", "commits"), ()):
                seen.append(gc.isenabled())
            seen.append(gc.isenabled())
        finally:
            gc.enable()
    assert [False, True, False, False] == seen
