"""What is written before the rows are locked, where something comes between (docs/spec.md 11.3)."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.txns.commit.test_atomic import append, metadata_files, named
from tests.txns.lake import ids, questions, rows
from txns._commit.born_applied import Births
from txns._iceberg.locked_rows import LockedRows
from txns._iceberg.sql_rows import rows_of


@pytest.fixture
def atomic(lake):
    return lake.open(apply="atomic")


def test_who_is_stopped_removes_no_file_that_another_one_moves_a_row_to(lake, atomic, monkeypatch):
    """
    A file has one owner.

    1. A thread waits for the one that leads its group; what it has written ahead is taken there.
    2. It is interrupted, and removes what it has written.
    3. The leader moves the rows.
    """
    a = lake.table("a", [1])
    before = lake.catalog.load_table(a).metadata_location
    name = ("shop", "a")
    real, made = Births.ahead, []

    def ahead(self, *request):
        made.append(real(self, *request))
        return made[-1]

    monkeypatch.setattr(Births, "ahead", ahead)
    txn = atomic.begin()
    txn.load_table(a).append(rows(2))
    with pytest.raises(InterruptedError), monkeypatch.context() as patched:
        patched.setattr(atomic.parts.loop, "append", interrupt)
        patched.setattr("txns._commit.born_applied.Ahead.end", lambda _: None)
        txn.commit()
    [written] = made
    ready = written.tables[name]
    with rows_of(lake.catalog).locked(("txns", "commits"), [name]) as locked:
        assert locked.take(ready, ready.change)
        written.end()
        with pytest.raises(CommitFailedException):
            locked.prepare()
    assert before == lake.catalog.load_table(a).metadata_location
    with rows_of(lake.catalog).locked(("txns", "commits"), [name]) as locked:
        assert not locked.take(ready, ready.change)


def interrupt(*_args, **_kwargs):
    raise InterruptedError


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_who_is_stopped_while_it_writes_ahead_leaves_nothing(lake, atomic, monkeypatch, error):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    txn = atomic.begin()
    for each in (a, b):
        txn.load_table(each).append(rows(2))
    before = metadata_files(lake)
    real, written = LockedRows._made, []

    def stop_at_the_second(self, identifier, moved):
        written.append(identifier)
        if len(written) == 2:
            raise error
        return real(self, identifier, moved)

    monkeypatch.setattr(LockedRows, "_made", stop_at_the_second)
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            txn.commit()
        assert before == metadata_files(lake)
    else:
        txn.commit()
        tables = {each for each in metadata_files(lake) - before if "/txns/" not in each}
        assert tables <= named(lake, a, b)
    assert len(written) >= 2


def together(handle, monkeypatch, *transactions) -> None:
    """Commit transactions in one swap."""
    loop, members, led = handle.parts.loop, [], threading.Event()
    all_there = threading.Barrier(len(transactions))

    def appended(member):
        members.append(member)
        if all_there.wait(30) == 0:
            loop._lead(member, members)
            led.set()
        led.wait(30)
        return member

    threads = [threading.Thread(target=each.commit) for each in transactions]
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_appended", appended)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_a_table_that_two_of_a_group_write_has_its_file_of_before_once_in_its_log(
    lake, atomic, monkeypatch
):
    """The first one's was written ahead, the second one's is laid over it."""
    a = lake.table("a", [1])
    first, second = atomic.begin(isolation="snapshot"), atomic.begin(isolation="snapshot")
    first.load_table(a).append(rows(2))
    second.load_table(a).append(rows(3))
    together(atomic, monkeypatch, first, second)
    assert [1, 2, 3] == lake.plain_ids(a)
    log = [each.metadata_file for each in lake.catalog.load_table(a).metadata.metadata_log]
    assert len(set(log)) == len(log)
    append(atomic, 4, to=(a,))
    assert [1, 2, 3, 4] == ids(lake.open().snapshot().load_table(a))


def test_for_a_table_that_others_write_faster_nothing_is_written_ahead(lake, atomic, monkeypatch):
    """Until one transaction comes through without them."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    real, made = Births.ahead, []

    def ahead(self, *request):
        made.append(real(self, *request))
        return made[-1]

    def commit(number, *, disturbed):
        txn = atomic.begin(isolation="snapshot")
        for each in (a, b):
            txn.load_table(each).append(rows(number))
        if disturbed:
            append(others, number + 1, to=(a,))
        txn.commit()
        return {name[-1] for name in made[-1].tables}

    others = lake.open(apply="atomic")
    append(atomic, 2, to=(a, b))
    monkeypatch.setattr(Births, "ahead", ahead)
    assert {"a", "b"} == commit(3, disturbed=False)
    assert {"a", "b"} == commit(4, disturbed=True)  # in vain
    assert {"b"} == commit(6, disturbed=True)
    assert {"b"} == commit(8, disturbed=False)
    assert {"a", "b"} == commit(9, disturbed=False)
    assert [*range(1, 10)] == sorted(lake.plain_ids(a))


def test_what_the_owner_of_a_table_changes_of_its_dictionaries_is_not_committed(lake, atomic):
    """What pyiceberg gives is the table's own: who takes it for a copy changes no table."""
    a = lake.table("a", [1])
    before = lake.catalog.load_table(a).metadata
    txn = atomic.begin()
    table = txn.load_table(a)
    table.properties["mine"] = "1"
    del table.properties["history.expire.min-snapshots-to-keep"]
    table.metadata.refs["mine"] = table.metadata.refs["main"]
    table.append(rows(2))
    txn.commit()
    metadata = lake.catalog.load_table(a).metadata
    assert before.properties.keys() == metadata.properties.keys()
    assert before.refs.keys() == metadata.refs.keys()
    assert [1, 2] == lake.plain_ids(a)


def test_nobody_is_asked_for_what_is_written_ahead(lake, atomic, monkeypatch):
    a, b = lake.table("a", [1]), lake.table("b", [1])
    append(atomic, 2, to=(a, b))
    txn = atomic.begin()
    for each in (a, b):
        txn.load_table(each).append(rows(3))
    real, made = Births.ahead, []

    def ahead(self, *request):
        with questions(atomic) as statements:
            made.append(real(self, *request))
        assert [] == statements
        return made[-1]

    monkeypatch.setattr(Births, "ahead", ahead)
    txn.commit()
    assert {a, b} == {".".join(each) for each in made[0].tables}
    locations = {lake.catalog.load_table(each).metadata_location for each in (a, b)}
    assert locations == {each.made.metadata_location for each in made[0].tables.values()}
