"""A tidy under the lock of the commit table's row, where writers wait for each other."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from itertools import pairwise

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

from tests.txns.commit.test_ahead import together
from tests.txns.commit.test_atomic import append
from tests.txns.commit.test_atomic_locks import in_a_thread, loses_its_lock
from tests.txns.lake import MovedFiles, SteppingClock, rows
from tests.txns.log_files import files as log_files
from txns._admin.invariants import check_all
from txns._commit import tidy
from txns._commit.outstanding import AppliedTo
from txns._commit.tidy import Tidier
from txns._iceberg import sql_rows
from txns._iceberg.locked_rows import LockedRows
from txns._log.archive import Archive
from txns._log.swap import Outcome, Swap


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic", tidy_after=4)


def test_what_another_one_has_tidied_is_not_left_by_the_own_tidy(lake, atomic, monkeypatch):
    """
    Only what a tidy had to leave makes the next one wait.

    1. A tidy finds a table that does not answer. 2. It does, and another process tidies.
    3. The next one of the first process comes after as many entries as ever.
    """
    a = lake.table("a")
    calm = lake.open(apply="atomic", tidy_after=1_000)
    for number in range(12):
        append(calm, number, to=(a,))
    with monkeypatch.context() as silent:
        silent.setattr(AppliedTo, "everywhere", lambda *_args: False)
        append(atomic, 12, to=(a,))
    assert 14 == calm.tidy()
    for number in range(5):
        append(atomic, number, to=(a,))
    assert 5 > len(lake.standing())


def test_a_commit_tidies_in_its_own_swap(lake, atomic):
    """Whoever waits for a lock twice waits for everybody twice."""
    a = lake.table("a")
    for number in range(3):
        append(atomic, number, to=(a,))
    versions = len(log_versions(lake))
    append(atomic, 3, to=(a,))
    assert 2 == len(lake.standing())
    assert versions + 1 == len(log_versions(lake))
    head = atomic.parts.log.load()
    assert head.state.entries[-1].tidied_upto == head.state.tidied_upto > 0
    assert 5 == sum(1 for _ in atomic.transactions())
    assert [] == check_all(atomic.parts).violations


@pytest.mark.parametrize(
    ("outcome", "standing"), [(Outcome.LOST, 5), (Outcome.NOT_SENT, 5), (Outcome.MAYBE, 2)]
)
def test_a_swap_that_is_not_won_has_not_tidied(lake, atomic, monkeypatch, outcome, standing):
    """
    Of the first attempt nothing is left once a head tells.

    The next one tidies anew, unless nothing was sent of that: a tidy may be why.
    """
    a = lake.table("a")
    for number in range(3):
        append(atomic, number, to=(a,))
    real, swaps = atomic.parts.log.replace, []

    def replaced(*args, **options):
        swaps.append(1)
        return Swap(outcome) if len(swaps) == 1 else real(*args, **options)

    monkeypatch.setattr(atomic.parts.log, "replace", replaced)
    append(atomic, 3, to=(a,))
    assert 2 == len(swaps)
    assert standing == len(lake.standing())
    for number in range(4, 8):
        append(atomic, number, to=(a,))
    assert 4 > len(lake.standing())
    assert list(range(8)) == lake.plain_ids(a)
    assert [] == check_all(atomic.parts).violations


def test_a_tidy_whose_lock_was_lost_is_a_lost_one(lake, atomic, monkeypatch):
    """1. Its lock is lost. 2. Others commit, and the process sees that. 3. It has older rows."""
    a = lake.table("a")
    append(atomic, 1, to=(a,))

    def others() -> None:
        append(lake.open(apply="inline"), 2, to=(a,))
        atomic.snapshot()

    lost = loses_its_lock(monkeypatch, lambda _held: in_a_thread(others))
    assert 0 == atomic.tidy()
    assert lost
    assert 3 == atomic.tidy()
    assert [1, 2] == lake.plain_ids(a)


def test_a_tidy_that_fails_holds_up_no_commit(lake, atomic, monkeypatch):
    a = lake.table("a")
    monkeypatch.setattr(tidy, "rows_of_files", unread)
    for number in range(6):
        append(atomic, number, to=(a,))
    assert 7 == len(lake.standing())
    assert list(range(6)) == lake.plain_ids(a)


def test_a_tidy_that_ends_the_transaction_of_its_swap_holds_up_no_commit(lake, atomic, monkeypatch):
    """
    Its files are written under the lock.

    1. Storage is so slow that the database ends the transaction: nothing was sent.
    2. The next attempt goes without a tidy, and so do the commits after it, for a while.
    """
    a = lake.table("a")
    written, prepare, ended = Tidier._written, LockedRows.prepare, []

    def slowly(self, head, *others):
        ended.append(head.rows)
        return written(self, head, *others)

    def prepared(rows):
        if any(each is rows for each in ended):
            raise OSError("the connection is lost")
        prepare(rows)

    monkeypatch.setattr(Tidier, "_written", slowly)
    monkeypatch.setattr(LockedRows, "prepare", prepared)
    before = log_files(lake)
    for number in range(7):
        append(atomic, number, to=(a,))
    assert list(range(7)) == lake.plain_ids(a)
    assert 1 == len(ended)
    assert before == log_files(lake)


def test_who_could_not_be_sent_goes_without_a_tidy(lake, monkeypatch):
    """Also a group of more entries than may stand in a head."""
    a, b = lake.table("a"), lake.table("b")
    atomic = lake.open(apply="atomic", tidy_after=1)
    first, second = (atomic.begin(isolation="snapshot") for _ in range(2))
    first.load_table(a).append(rows(1))
    second.load_table(b).append(rows(2))
    real, sent = LockedRows.prepare, []

    def prepared(rows):
        sent.append(rows)
        if len(sent) == 1:
            raise OSError("the connection is lost")
        real(rows)

    monkeypatch.setattr(LockedRows, "prepare", prepared)
    together(atomic, monkeypatch, first, second)
    assert 4 == len(lake.standing())


def test_what_a_tidy_has_left_is_looked_for_when_nobody_waits(lake, atomic, monkeypatch):
    """An archive of years has many manifests, which are not read under the lock for that."""
    a = lake.table("a")
    real, ended = tidy.dropped, []

    def dropped(head, *others):
        ended.append(head.rows.is_over)
        return real(head, *others)

    monkeypatch.setattr(tidy, "dropped", dropped)
    for number in range(4):
        append(atomic, number, to=(a,))
    assert [True] == ended


def test_a_tidy_says_with_its_files_that_work_goes_on(lake, atomic, monkeypatch):
    """The database ends the transaction of who says nothing for 8 s, however slow storage is."""
    a, clock, said = lake.table("a"), SteppingClock(), []
    for number in range(40):
        append(atomic, number, to=(a,))
    opened = MovedFiles.new_input

    def slowly(self, location):
        if "/commits/" in location and threading.current_thread() is threading.main_thread():
            clock.ahead_ms += 1_900  # those of other threads are opened at once
        return opened(self, location)

    def note(_conn, _cursor, statement, *_):
        said.append((clock.elapsed_ms(), statement))

    monkeypatch.setattr(sql_rows, "_CLOCK", clock)
    monkeypatch.setattr(MovedFiles, "new_input", slowly)
    event.listen(lake.catalog.engine, "before_cursor_execute", note)
    for number in range(40, 50):
        append(atomic, number, to=(a,))
    event.remove(lake.catalog.engine, "before_cursor_execute", note)
    silent = [
        later - earlier
        for (earlier, what), (later, _) in pairwise(said)
        if what not in {"COMMIT", "ROLLBACK"}
    ]
    assert 8_000 > max(silent)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_who_is_stopped_while_it_tidies_leaves_nothing(lake, atomic, monkeypatch, error):
    """The thread is that of a commit, which its user may interrupt."""
    a = lake.table("a")
    for number in range(3):
        append(atomic, number, to=(a,))
    real, before = tidy._rewritten, log_files(lake)

    def stopped(*args):
        real(*args)
        raise error

    monkeypatch.setattr(tidy, "_rewritten", stopped)
    with suppress(KeyboardInterrupt):
        append(atomic, 3, to=(a,))
    assert before == log_files(lake)


def test_a_tidy_whose_rows_were_taken_back_has_not_been_one(lake, atomic):
    """
    Who has a transaction of the database open sees what nobody else will.

    1. Somebody reads the catalog's database, so a tidy's COMMIT fails, and SQLite leaves its
       transaction open. 2. The tidier asks for the log. 3. The transaction is taken back.
    """
    a = lake.table("a")
    append(atomic, 1, to=(a,))
    uri = lake.catalog.properties["uri"].removesuffix("?timeout=30") + "?timeout=0.1"
    catalog = SqlCatalog("lake", **{**lake.catalog.properties, "uri": uri})
    handle = lake.open(catalog, apply="atomic")
    with sqlite3.connect(lake.folder / "catalog.db") as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_tables").fetchone()
        assert 0 == handle.tidy()
    reader.close()
    assert lake.catalog.load_table("txns.commits").metadata == handle.parts.log.load().metadata
    append(handle, 2, to=(a,))
    assert [1, 2] == lake.plain_ids(a)


def test_entries_that_come_in_twos_are_tidied(lake, atomic, monkeypatch):
    """Of a number of entries that is always even one of so many is never the next."""
    a, b = lake.table("a"), lake.table("b")
    most = 0
    for number in range(24):
        first, second = atomic.begin(), atomic.begin()
        first.load_table(a).append(rows(number))
        second.load_table(b).append(rows(number))
        together(atomic, monkeypatch, first, second)
        most = max(most, len(atomic.parts.log.newest.state.entries))
    assert 6 > most


def test_a_transaction_finds_in_the_head_what_others_have_committed_since_it_began(
    lake, atomic, monkeypatch
):
    """Half of what may stand there: a tidy meanwhile leaves it, and no archive is read for it."""
    a, b = lake.table("a"), lake.table("b")
    append(atomic, 0, to=(a, b))
    others = lake.open(apply="atomic", tidy_after=4)
    for number in range(8):
        txn = atomic.begin()
        txn.load_table(a).append(rows(number))
        for each in range(2):
            append(others, each, to=(b,))
        with monkeypatch.context() as patched:
            patched.setattr(Archive, "rows", unread)
            txn.commit()
    assert 6 > len(lake.standing())
    assert 8 < sum(1 for _ in atomic.transactions())


@pytest.mark.parametrize(
    ("large", "expected"), [(1 << 20, [2, 3, 4, 2, 3, 4, 2]), (100, [2, 1, 2, 1, 2, 1, 2])]
)
def test_a_head_of_many_bytes_is_tidied_earlier_and_whole(
    lake, atomic, monkeypatch, large, expected
):
    """Each swap writes it again; of one of few bytes the newer half stays."""
    a = lake.table("a")
    monkeypatch.setattr(tidy, "LARGE_HEAD_BYTES", large)
    standing = []
    for number in range(len(expected)):
        append(atomic, number, to=(a,))
        standing.append(len(lake.standing()))
    assert expected == standing  # with the registration


def log_versions(lake):
    return [each for each in lake.files() if "/commits/metadata/" in each and ".json" in each]


def unread(*_args, **_kwargs):
    raise AssertionError("the archive is read")
