"""Defects that reviews have found: each test states what holds since."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.types import LongType

import txns
from tests.txns.lake import SCHEMA, ids, rows
from txns._log import Outcome, Swap

if TYPE_CHECKING:
    from collections.abc import Callable


def commit_together(handle: txns.Handle, writes: dict[str, list[int]]) -> dict[int, object]:
    """Append rows in one transaction and thread each, all in one group; give the outcomes."""
    loop = handle.parts.loop
    lead = loop._lead_group
    waiting = threading.Event()
    members = sum(len(values) for values in writes.values())

    def wait_for_all() -> None:
        while not waiting.is_set() and len(loop._waiting) < members:
            waiting.wait(0.01)
        waiting.set()
        lead()

    loop._lead_group = wait_for_all  # type: ignore[method-assign]
    outcomes: dict[int, object] = {}

    def work(table: str, value: int) -> None:
        txn = handle.begin(isolation="SNAPSHOT")
        txn.load_table(table).append(rows(value))
        try:
            outcomes[value] = txn.commit()
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            outcomes[value] = error

    threads = [
        threading.Thread(target=work, args=(table, value))
        for table, values in writes.items()
        for value in values
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def around_the_first_swap(
    handle: txns.Handle, before: Callable[[], object] = int, after: Callable[[], object] = int
) -> None:
    """Do something before, and after, the next swap of a handle."""
    log = handle.parts.log
    append = log.append

    def once(head, entries):
        log.append = append
        before()
        swap = append(head, entries)
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
    handle, other = lake.open(), lake.open(lake.another_catalog())
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
    handle = lake.open(max_age_s=5)
    append, on_its_way = handle.parts.log.append, []

    def lost(head, entries):
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


def test_a_rollback_keeps_what_others_committed_of_the_same_bytes(lake, handle):
    """
    Nothing is deleted before the log was asked (I8).

    1. Two processes go on with the same bytes; one commits.
    2. The other one rolls back.
    """
    a = lake.table("a", [1])
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    stored = txn.serialize()
    one, two = (txns.deserialize(handle, stored) for _ in range(2))
    one.commit()
    two.rollback()
    assert [1, 2] == lake.plain_ids(a)


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
    txn.rollback()
    assert [1, 2] == ids(lake.open().snapshot().load_table(a))


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


def test_an_expiry_that_somebody_was_faster_with(lake):
    """
    What an expiry takes away may be gone, as in Java.

    1. Two snapshots are expired through the protocol; nobody applies it.
    2. A stranger expires one of them.
    """
    a = lake.table("a", [1])
    for value in (2, 3):
        lake.open().catalog().load_table(a).append(rows(value))
    first, second, *_ = (each.snapshot_id for each in lake.catalog.load_table(a).snapshots())
    handle = lake.open(apply="next", max_age_s=1)
    lake.clock.ahead_ms += 5000
    table = handle.catalog().load_table(a)
    table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    lake.catalog.load_table(a).maintenance.expire_snapshots().by_id(first).commit()
    assert [1, 2, 3] == ids(handle.snapshot().load_table(a))
    assert [] == handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids(a)
    assert {first, second}.isdisjoint(s.snapshot_id for s in lake.catalog.load_table(a).snapshots())


def test_a_subscription_without_what_was_there_before(lake, handle):
    """
    Old rows are not delivered as new ones.

    1. Append 3 to [1, 2].
    2. The snapshot with [1, 2] is expired.
    """
    a = lake.table("a", [1, 2])
    start = handle.upper
    before = lake.catalog.load_table(a).metadata.current_snapshot_id
    handle.catalog().load_table(a).append(rows(3))
    lake.catalog.load_table(a).maintenance.expire_snapshots().by_id(before).commit()
    with pytest.raises(txns.Conflict, match="expired"):
        list(handle.subscribe([a], as_of=start, until=handle.upper))


def test_a_subscription_has_the_rows_of_an_alter(lake, handle):
    """
    Whatever else a transaction did to a table, its rows are delivered.

    1. One transaction adds a column and appends 2.
    2. Another one adds a file, which sets a property as well.
    """
    a = lake.table("a", [1])
    start = handle.upper
    with handle.begin() as txn:
        with txn.load_table(a).update_schema() as update:
            update.add_column("more", LongType())
        txn.load_table(a).append(rows(2))
    given = lake.folder / "given.parquet"
    pq.write_table(rows(3), given)
    with handle.begin() as txn:
        txn.load_table(a).add_files([str(given)])
    *deliveries, _ = handle.subscribe([a], as_of=start, until=handle.upper)
    assert [[2], [3]] == [each.tables[0].appended["id"].to_pylist() for each in deliveries]


def test_a_subscription_and_a_tidy(lake):
    """
    Each transaction is delivered once.

    1. E1 writes a and b; b's part cannot be applied, E2 is tidied.
    2. A subscriber loads the head, in which E1 stands.
    3. b is applied and E1 is tidied.
    4. The subscriber asks the archive.
    """
    a, b = lake.table("a"), lake.table("b")
    handle = lake.open(apply="next", tidy_after=1000)
    start = handle.upper
    with handle.begin() as txn:
        txn.load_table(a).append(rows(1))
        txn.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(2))
    handle.parts.applier.apply(handle.parts.log.load(), ("shop", "a"))
    handle.tidy()
    load = handle.parts.log.load

    def then_tidied():
        head = load()
        handle.parts.log.load = load
        assert [] == handle.apply_le()
        assert handle.tidy()
        return head

    handle.parts.log.load = then_tidied
    deliveries = list(handle.subscribe([a], as_of=start, until=load().upper))
    assert [[1], [2]] == [d.tables[0].appended["id"].to_pylist() for d in deliveries if d.tables]


@pytest.mark.parametrize("inside", [True, False])
def test_threads_that_share_a_table(lake, handle, inside):
    """
    A snapshot that was built on an older state than the one it names is built again.

    1. An operation is planned on main.
    2. Another thread writes through the same object.
    3. The operation's requirement is computed from the newer state.
    """
    a = lake.table("a", [1])
    txn = handle.begin()
    table = (txn if inside else handle.catalog()).load_table(a)
    operation = table.transaction()
    with operation.update_snapshot().fast_append() as producer:
        files = _dataframe_to_data_files(table.metadata, rows(2), table.io)
        table.append(rows(3))
        for file in files:
            producer.append_data_file(file)
    operation.commit_transaction()
    if inside:
        txn.commit()
    assert [1, 2, 3] == lake.plain_ids(a)


def test_expiry_keeps_what_a_running_transaction_can_need(lake, handle):
    """
    As long as a transaction may be old.

    1. T1 begins on [1, 2].
    2. Somebody appends and expires everything, in a transaction and outside.
    3. T1 reads; after the maximum age the snapshots go.
    """
    a = lake.table("a", [1])
    handle.catalog().load_table(a).append(rows(2))
    running = handle.begin()
    handle.catalog().load_table(a).append(rows(3))

    def expire() -> None:
        for at in (handle.begin(), handle.catalog()):
            table = at.load_table(a)
            table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()  # noqa: DTZ001
            if isinstance(at, txns.Transaction):
                at.commit()

    expire()
    assert [1, 2] == ids(running.load_table(a))
    lake.clock.ahead_ms += 2 * 3600 * 1000
    before = len(lake.catalog.load_table(a).snapshots())
    expire()
    assert before > len(lake.catalog.load_table(a).snapshots())
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_name_that_the_log_has_created(lake):
    """
    What is committed and not created yet is there for everybody.

    1. T1 creates n; nobody applies it.
    2. Others take the name: by a rename, by a metadata file.
    3. A stranger creates a table of that name: readers stay on the logged state.
    """
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.create_table("shop.n", SCHEMA).append(rows(1))
    plain = lake.catalog.create_table("shop.x", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        handle.catalog().rename_table("shop.x", "shop.n")
    with pytest.raises(TableAlreadyExistsError):
        handle.catalog().register_table("shop.n", plain.metadata_location)
    lake.catalog.create_table("shop.n", SCHEMA).append(rows(9))
    assert [1] == ids(handle.snapshot().load_table("shop.n"))
    with pytest.raises(txns.Quarantined, match="another table stands"):
        handle.catalog().load_table("shop.n").append(rows(2))
    assert [9] == lake.plain_ids("shop.n")


@pytest.mark.parametrize(
    "look",
    [
        lambda table: table.refs(),
        lambda table: table.history(),
        lambda table: table.snapshot_by_name("main"),
        lambda table: table.snapshot_as_of_timestamp(2**62),
    ],
)
def test_what_tells_of_others_is_a_read(lake, handle, look):
    """
    A transaction that has looked whether others wrote clashes with them.

    1. T1 asks a for its branches or its history, and writes b.
    2. Somebody appends to a.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    txn = handle.begin()
    look(txn.load_table(a))
    txn.load_table(b).append(rows(1))
    handle.catalog().load_table(a).append(rows(2))
    with pytest.raises(txns.Conflict):
        txn.commit()
