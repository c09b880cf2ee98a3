"""The head stays small whoever applies, and whatever cannot be applied (docs/spec.md 4.7, 10)."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import RemoveSnapshotsUpdate

import txns
from tests.txns.lake import ids, rows
from tests.txns.wrapped import Wrapped
from txns._commit import head_bounds
from txns._log import limits
from txns._log.entry import Kind


def entries(handle) -> int:
    """How many entries stand in the head, but for what the log is set to."""
    state = handle.parts.log.load().state
    return sum(entry.kind is not Kind.SETTINGS for entry in state.entries)


def append(handle, table, value, **options):
    with handle.begin(**options) as txn:
        txn.load_table(table).append(rows(value))


class Refusing:
    """A catalog that keeps one table from being swapped, and counts who tried."""

    def __init__(self, catalog, *tables):
        self.catalog, self.tables, self.tried = catalog, set(tables), 0

    def __getattr__(self, name):
        return getattr(self.catalog, name)

    def commit_table(self, table, requirements, updates):
        if ".".join(table.name()) in self.tables:
            self.tried += 1
            raise PermissionError(f"not {table.name()}")
        return self.catalog.commit_table(table, requirements, updates)


@pytest.fixture
def small(monkeypatch):
    """Small numbers in place of large ones."""
    monkeypatch.setattr(limits, "HEAD_ENTRIES", 8)


def test_what_others_have_applied_is_tidied_under_apply_next(lake):
    """Who leaves applying to the next writer leaves no entry in the head that is applied."""
    a = lake.table("a")
    handle = lake.open(apply="next", tidy_after=4)
    for value in range(12):
        append(handle, a, value)
        handle.apply_le()
    assert entries(handle) <= 5


def test_what_is_applied_is_tidied_while_another_table_cannot_be(lake):
    """A table that refuses its entries keeps those of the others out of no archive."""
    a, b = lake.table("a"), lake.table("b")
    handle = lake.open(Refusing(lake.another_catalog(), b), tidy_after=4)
    append(handle, b, 0)
    for value in range(12):
        with handle.begin() as txn:
            txn.load_table(a).append(rows(value))
    left = entries(handle)
    append(handle, b, 1)
    assert left <= 6


class Losing(Wrapped):
    """A catalog in which a tidy loses its swap, as often as somebody says."""

    def __init__(self, catalog, times):
        super().__init__(catalog)
        self.times = times

    def commit_table(self, table, requirements, updates):
        if any(isinstance(each, RemoveSnapshotsUpdate) for each in updates) and self.times:
            self.times -= 1
            raise CommitFailedException("somebody was first")
        return self.catalog.commit_table(table, requirements, updates)


def test_a_tidy_that_lost_its_swap_has_left_nothing(lake):
    """What it would have moved is a reason for the next one."""
    a = lake.table("a")
    lake.open().tidy()
    handle = lake.open(Losing(lake.another_catalog(), 2), tidy_after=4)
    for value in range(6):
        append(handle, a, value)
    assert entries(handle) == 6
    append(handle, a, 6)
    assert entries(handle) == 2


def test_what_a_tidy_had_to_leave_counts_no_more_once_another_one_has_moved_it(lake):
    """Where a table comes out of a long trouble, its writers tidy as before."""
    a, b = lake.table("a"), lake.table("b")
    catalog = Refusing(lake.another_catalog(), b)
    handle = lake.open(catalog, tidy_after=4)
    for value in range(15):
        append(handle, b, value)
    catalog.tables.clear()
    other = lake.open()
    other.apply_le()
    assert 12 < other.tidy()
    for value in range(12):
        append(handle, a, value)
        assert entries(handle) <= 5


@pytest.mark.usefixtures("small")
def test_a_writer_that_meets_a_large_head_applies_and_tidies_first(lake):
    """Under `apply = next` nobody else would."""
    a, b = lake.table("a"), lake.table("b")
    handle = lake.open(apply="next")
    for value in range(30):
        append(handle, (a, b)[value % 2], value)
        assert entries(handle) <= limits.HEAD_ENTRIES + 1
    assert list(range(30)) == sorted(
        ids(handle.snapshot().load_table(a)) + ids(handle.snapshot().load_table(b))
    )


def test_a_large_head_is_one_of_many_bytes_too(lake, monkeypatch):
    a = lake.table("a")
    handle = lake.open(apply="next", tidy_after=1000)
    append(handle, a, 0)
    monkeypatch.setattr(limits, "HEAD_BYTES", 3 * handle._parts.log.load().record_bytes)
    for value in range(12):
        append(handle, a, value)
    assert entries(handle) < 8


@pytest.mark.usefixtures("small")
def test_what_only_moves_the_upper_leaves_the_head_too(lake):
    """Nobody need commit for it."""
    lake.table("a")
    handle = lake.open()
    for _ in range(30):
        handle.advance(handle.upper + 1)
    assert entries(handle) <= limits.HEAD_ENTRIES + 1


@pytest.mark.usefixtures("small")
def test_what_cannot_be_applied_is_not_tried_by_each_commit(lake, monkeypatch):
    """A table in the way costs a try where the head has grown by a part, or a minute later."""
    monkeypatch.setattr(head_bounds, "_PART", 1)
    a, b = lake.table("a"), lake.table("b")
    catalog = Refusing(lake.another_catalog(), b)
    handle = lake.open(catalog, apply="next", tidy_after=1000)
    for value in range(10):
        append(handle, b, value)
    catalog.tried = 0
    for value in range(7):
        append(handle, a, value)
    assert 1 == catalog.tried
    lake.clock.ahead_ms += 61_000
    append(handle, a, 10)
    assert 2 == catalog.tried
    assert list(range(10)) == ids(handle.snapshot().load_table(b))


@pytest.fixture
def full(lake, monkeypatch):
    """A head that is full of entries of a table that cannot be applied."""
    a, b = lake.table("a"), lake.table("b", [7])
    catalog = Refusing(lake.another_catalog(), b)
    handle = lake.open(catalog, apply="next", tidy_after=1000)
    for value in range(3):
        append(handle, b, value)
    handle.tidy()
    monkeypatch.setattr(limits, "HEAD_BYTES", 1)
    size = handle._parts.log.load().record_bytes
    monkeypatch.setattr(limits, "HEAD_MAX_BYTES", size + 100)
    return handle, catalog, a, b


def test_a_full_head_takes_no_commit(lake, full):
    """The error names what fills it, and what is to be done; nothing is left of the transaction."""
    handle, _, a, b = full
    txn = handle.begin()
    before = lake.files()
    txn.load_table(a).append(rows(1))
    with pytest.raises(
        txns.errors.InvalidUsage, match=r"txns status.*txns apply.*txns repair"
    ) as refused:
        txn.commit()
    assert refused.value.sqlstate == "54000"
    assert b in str(refused.value)
    assert a not in str(refused.value)
    assert before == lake.files()
    assert [] == ids(lake.open().snapshot().load_table(a))


def test_a_table_that_cannot_be_applied_stops_its_own_writers_alone(lake, full, monkeypatch):
    """It has its share of the head, and others have the rest."""
    handle, _, a, b = full
    size = handle._parts.log.load().record_bytes
    monkeypatch.setattr(limits, "HEAD_MAX_BYTES", 4 * size)
    monkeypatch.setattr(limits, "HEAD_TABLE_MAX_BYTES", size)
    before = lake.files()
    with pytest.raises(txns.errors.InvalidUsage, match=f"{b}.*most=`{size}`") as refused:
        append(handle, b, 5)
    assert refused.value.sqlstate == "54000"
    assert before == lake.files()
    for value in range(10):
        append(handle, a, value)
    assert list(range(10)) == ids(handle.snapshot().load_table(a))
    assert [0, 1, 2, 7] == ids(handle.snapshot().load_table(b))


def test_a_commit_counts_its_own_record_alone(lake, monkeypatch):
    """What stands in a head does not change: each record of it was counted when it was read."""
    lake.table("a")
    b = lake.table("b")
    handle = lake.open(apply="next", tidy_after=1000)
    for value in range(20):
        append(handle, b, value)
    size = handle._parts.log.load().record_bytes
    counted, count = [], limits.record_bytes
    with monkeypatch.context() as patched:
        patched.setattr(limits, "HEAD_TABLE_MAX_BYTES", size + 1500)
        patched.setattr(limits, "record_bytes", lambda one: counted.append(one) or count(one))
        append(handle, b, 20)
        append(handle, b, 21)
    assert 2 <= len(counted) <= 6
    monkeypatch.setattr(limits, "HEAD_TABLE_MAX_BYTES", size // 2)
    with pytest.raises(txns.errors.InvalidUsage, match=f"more of {b}"):
        append(handle, b, 22)


def test_a_full_head_gets_room_by_the_commit_that_needs_it(full):
    """Who can apply what fills it does so, and is not refused."""
    handle, catalog, a, _ = full
    catalog.tables.clear()
    append(handle, a, 1)
    assert [1] == ids(handle.snapshot().load_table(a))
    assert entries(handle) <= 2


def test_a_full_head_takes_what_makes_room(lake, full):
    """Repairs, registrations and switches find room where commits do not."""
    handle, _, a, b = full
    lake.catalog.create_table("shop.c", lake.catalog.load_table(a).schema())
    handle.register("shop.c")
    handle.advance(handle.upper + 1)
    handle.off()
    handle.on()
    with pytest.raises(txns.errors.InvalidUsage, match="txns status"):
        append(handle, a, 1)
    lake.catalog.load_table(b).overwrite(rows(99))
    lake.open().repair_reject(b)
    append(handle, a, 2)
    assert [0, 1, 2, 7] == ids(lake.open().snapshot().load_table(b))


def test_a_full_head_takes_an_abort(lake, monkeypatch):
    """A conflict under a caller's own id is told, since the abort that it needs has room."""
    a = lake.table("a", [1])
    handle = lake.open(apply="next", tidy_after=1000)
    txn = handle.begin(txn_id="job")
    txn.load_table(a).overwrite(rows(2))
    append(handle, a, 3)
    monkeypatch.setattr(limits, "HEAD_MAX_BYTES", 1)
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert "abort" in {row["kind"] for row in handle.transactions()}


@pytest.mark.usefixtures("small")
def test_threads_that_meet_a_large_head_all_commit(lake):
    """One makes room, the others go on."""
    names = [lake.table(name) for name in "abcd"]
    handle = lake.open(apply="next", tidy_after=1000)
    for value in range(9):
        append(handle, names[0], value)
    failures = []

    def work(number):
        try:
            for value in range(3):
                append(handle, names[number], 100 + value)
        except Exception as error:  # noqa: BLE001 -- told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failures
    assert {100, 101, 102} <= set(ids(handle.snapshot().load_table(names[0])))
    assert entries(handle) <= limits.HEAD_ENTRIES + 5
