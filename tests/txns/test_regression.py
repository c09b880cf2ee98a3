"""Defects that reviews have found: each test states what holds since."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import CommitFailedException

import txns
from tests.txns.lake import SCHEMA, ids, rows
from tests.txns.wrapped import Wrapped
from txns._log.swap import Outcome, Swap

if TYPE_CHECKING:
    from collections.abc import Callable


def commit_together(
    handle: txns.Handle, writes: dict[str, list[int]], **options: str
) -> dict[int, object]:
    """Append rows in one transaction and thread each, all in one group; give the outcomes."""

    def appending(table: str, value: int) -> Callable[[], object]:
        def commit() -> object:
            txn = handle.begin(isolation="SNAPSHOT", **options)
            txn.load_table(table).append(rows(value))
            return txn.commit()

        return commit

    named = {value: appending(table, value) for table, values in writes.items() for value in values}
    return dict(zip(named, _in_one_group(handle, list(named.values())), strict=True))


def commit_at_once(handle: txns.Handle, members: list[txns.Transaction]) -> list[object]:
    """Commit transactions in a thread each, in one group and in their order; give the outcomes."""
    return _in_one_group(handle, [member.commit for member in members])


def _in_one_group(handle: txns.Handle, commits: list[Callable[[], object]]) -> list[object]:
    group = handle.parts.loop._group
    turn = group._turn
    waiting = threading.Event()

    def wait_for_all(member):
        while not waiting.is_set() and len(group._waiting) < len(commits):
            waiting.wait(0.01)
        waiting.set()
        return turn(member)

    group._turn = wait_for_all  # type: ignore[method-assign]
    outcomes: dict[int, object] = {}

    def work(number: int) -> None:
        try:
            outcomes[number] = commits[number]()
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            outcomes[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(commits))]
    for started, thread in enumerate(threads, 1):
        thread.start()
        while not waiting.is_set() and len(group._waiting) < started and thread.is_alive():
            waiting.wait(0.001)
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(commits))]


def around_the_first_swap(
    handle: txns.Handle, before: Callable[[], object] = int, after: Callable[[], object] = int
) -> None:
    """Do something before, and after, the next swap of a handle."""
    log = handle.parts.log
    append = log.append

    def once(head, entries, *also, **options):
        log.append = append
        before()
        swap = append(head, entries, *also, **options)
        after()
        return swap

    log.append = once  # type: ignore[method-assign]


def test_a_group_that_lost_its_swap_forgets_its_first_payloads(lake):
    """
    Each attempt of a transaction has a payload of its own.

    1. T1, T2 and T3 append to one table in one group: T2 is put on top of T1's entry.
    2. Another process appends 50 first; the swap is lost.
    3. Next attempt: T1 has other snapshots now, T2 must stand on those.
    """
    a = lake.table("a")
    handle, other = lake.open(Wrapped(lake.catalog)), lake.open(lake.another_catalog())
    around_the_first_swap(handle, before=lambda: other.catalog().load_table(a).append(rows(50)))
    commit_together(handle, {a: [1, 2, 3]})
    assert [1, 2, 3, 50] == ids(lake.open(lake.another_catalog()).snapshot().load_table(a))
    assert [1, 2, 3, 50] == lake.plain_ids(a)


def test_members_of_an_interrupted_leader_are_looked_up(lake):
    """
    Who has landed is not told that it failed, and its files stay.

    1. T1 and T2 wait; one leads both.
    2. The swap lands; the leader is interrupted before it can tell.
    3. The other one leads: its entry is in the head.
    """
    a, b = lake.table("a"), lake.table("b")

    def interrupt() -> None:
        raise KeyboardInterrupt

    handle = lake.open()
    around_the_first_swap(handle, after=interrupt)
    outcomes = commit_together(handle, {a: [1], b: [2]})
    assert [KeyboardInterrupt] == [
        type(o) for o in outcomes.values() if isinstance(o, BaseException)
    ]
    assert ([1], [2]) == (
        ids(lake.open().snapshot().load_table(a)),
        ids(lake.open().snapshot().load_table(b)),
    )


def test_refused_after_an_unanswered_swap(lake):
    """
    Unknown stays unknown, whatever refuses the next attempt.

    1. T1's swap is on its way, the answer is lost.
    2. The next attempt is refused: T1 is too old now.
    3. The first swap lands.
    """
    a = lake.table("a", [1])
    handle = lake.open(Wrapped(lake.catalog), max_age_s=5)
    append, on_its_way = handle.parts.log.append, []

    def lost(head, entries, *_also, **_options):
        on_its_way.append((head, entries))
        lake.clock.ahead_ms += 6000
        return Swap(Outcome.MAYBE)

    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    handle.parts.log.append = lost
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    append(*on_its_way[0])
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


def test_a_dropped_creation_comes_back(lake, handle):
    """
    A savepoint covers created tables, and their files.

    1. Create n and append.
    2. Savepoint; drop n; create it again and append something else.
    3. Back to the savepoint; commit.
    """
    txn = handle.begin()
    txn.create_table("shop.n", SCHEMA).append(rows(1))
    txn.create_table("shop.m", SCHEMA).append(rows(1))
    txn.savepoint("s")
    txn.drop_table("shop.n")
    txn.drop_table("shop.m")
    txn.create_table("shop.n", SCHEMA).append(rows(2))
    txn.rollback_to("s")
    txn.commit()
    assert ([1], [1]) == (lake.plain_ids("shop.n"), lake.plain_ids("shop.m"))


def test_a_table_from_before_the_savepoint_is_written_on(lake, handle):
    """
    The object that the user holds goes back with the transaction.

    1. Load a; savepoint; append 2 through the object; back to the savepoint.
    2. Read and append 3 through the same object.
    """
    a = lake.table("a", [1])
    txn = handle.begin()
    table = txn.load_table(a)
    txn.savepoint("s")
    table.append(rows(2))
    txn.rollback_to("s")
    assert [1] == ids(table)
    table.append(rows(3))
    assert [1, 3] == ids(table)
    txn.commit()
    assert [1, 3] == lake.plain_ids(a)


def test_files_that_are_staged_later_survive_a_savepoint(lake, handle):
    """
    Going back deletes what it undoes, not what another operation is about to stage.

    1. An operation has staged 2, another one writes its files.
    2. Savepoint, back to the savepoint.
    3. The operation stages its files; commit.
    """
    a = lake.table("a", [1])
    txn = handle.begin()
    table = txn.load_table(a)
    table.append(rows(2))
    operation = table.transaction()
    operation.append(rows(3))
    txn.savepoint("s")
    txn.rollback_to("s")
    operation.commit_transaction()
    txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_rollback_with_an_append_is_no_append(lake, handle):
    """
    What a transaction took away does not come back because it has also appended.

    1. T1 puts main back to [1] and appends 3.
    2. Somebody appends 4.
    3. T1 commits: a restage of its append alone would bring 2 back without a word.
    """
    a = lake.table("a", [1])
    first = lake.catalog.load_table(a).metadata.current_snapshot_id
    handle.catalog().load_table(a).append(rows(2))
    txn = handle.begin(isolation="SNAPSHOT")
    txn.load_table(a).manage_snapshots().rollback_to_snapshot(first).commit()
    txn.load_table(a).append(rows(3))
    handle.catalog().load_table(a).append(rows(4))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [1, 2, 4] == lake.plain_ids(a)
    with handle.begin() as alone:
        alone.load_table(a).manage_snapshots().rollback_to_snapshot(first).commit()
        alone.load_table(a).append(rows(3))
    assert [1, 3] == lake.plain_ids(a)
    main = lake.catalog.load_table(a).current_snapshot()
    assert "overwrite" == main.summary.operation.value
    assert "overwrite" == handle.transactions()[-1]["operation"]


def test_an_interrupt_between_the_swap_and_its_answer(lake, handle, monkeypatch):
    """
    The files of what may have committed stay.

    1. T1's swap lands.
    2. The thread is interrupted before the transaction knows.
    3. Its block rolls back.
    """
    a = lake.table("a", [1])

    append = txns.Transaction._append

    def interrupted(*arguments):
        append(*arguments)
        raise KeyboardInterrupt

    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    monkeypatch.setattr(txns.Transaction, "_append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        txn.commit()
    with pytest.raises(txns.CommitStateUnknown):
        txn.rollback()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))
    with pytest.raises(KeyboardInterrupt), handle.begin() as block:
        block.load_table(a).append(rows(3))
        block.commit()
    with pytest.raises(KeyboardInterrupt):
        txns.run_transaction(handle, lambda txn: txn.load_table(a).append(rows(4)))
    assert [1, 2, 3, 4] == ids(lake.open().snapshot().load_table(a))


def test_a_refreshed_table_is_written(lake, handle):
    """
    What is built on a newer state is validated from there: pyiceberg's own retry works.

    1. Load a; somebody appends 3.
    2. Refresh; delete 1.
    3. Somebody deletes 3; delete 2 without a refresh.
    """
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    table = handle.catalog().load_table(a)
    handle.catalog().load_table(a).append(rows(3))
    table.refresh()
    table.delete("id = 1")
    assert [2, 3] == lake.plain_ids(a)
    handle.catalog().load_table(a).delete("id = 3")
    table.delete("id = 2")
    assert [] == lake.plain_ids(a)


def test_an_operation_is_not_moved_to_another_base(lake, handle):
    """
    An operation says where it found main.

    1. A rollback to [1] is prepared on [1, 2].
    2. The same object appends 3.
    3. The rollback is carried out: it has not seen 3.
    """
    a = lake.table("a", [1])
    first = lake.catalog.load_table(a).metadata.current_snapshot_id
    handle.catalog().load_table(a).append(rows(2))
    table = handle.catalog().load_table(a)
    rollback = table.manage_snapshots().rollback_to_snapshot(first)
    table.append(rows(3))
    with pytest.raises(CommitFailedException):
        rollback.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


@pytest.mark.parametrize("creates", [False, True])
def test_a_load_that_fails_after_the_swap(lake, creates):
    """
    A commit is no failure because it cannot be looked at.

    1. An operation outside of transactions is swapped in.
    2. The catalog's token expires.
    """
    a = lake.table("a", [1])
    catalog = lake.another_catalog()
    handle = lake.open(catalog, apply="next")
    load = catalog.load_table

    def expire() -> None:
        def expired(*_):
            raise OSError("token expired")

        catalog.load_table = expired

    if creates:
        with handle.catalog().create_table_transaction("shop.n", SCHEMA) as operation:
            operation.append(rows(1, 2))
            around_the_first_swap(handle, after=expire)
    else:
        table = handle.catalog().load_table(a)
        around_the_first_swap(handle, after=expire)
        table.append(rows(2))
        catalog.load_table = load
        table.delete("id = 1")
        table.append(rows(1))
    assert [1, 2] == ids(lake.open().snapshot().load_table("shop.n" if creates else a))


def test_all_tables_come_under_care_outside_of_transactions(lake):
    """
    The first write registers, and is not lost for it.

    1. A table that nobody registered, through a handle that takes care of all.
    2. Append outside of a transaction.
    """
    a = lake.table("a", [1], register=False)
    handle = lake.open(register="all")
    handle.catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)
    assert [("shop", "a")] == handle.registered()
