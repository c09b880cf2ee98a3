"""Entries that were born applied to tables which their swap moved (docs/spec.md 11.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StagedTable
from pyiceberg.table.update import AssertCreate

import txns
from tests.txns.lake import SCHEMA, ids, rows
from tests.txns.table.test_set_back import assert_adopt_ends_it, lags, set_back
from txns._admin.health import health
from txns._admin.invariants import check_all
from txns._admin.probe import Probe
from txns._log import payload
from txns._log.entry import THIS_ENGINE, Entry, Isolation, Kind, LoggedChange, Payload
from txns._stage import change_builder
from txns._table import replay

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import CommitTableRequest

    from tests.txns.lake import Lake

A, B, C = "shop.a", "shop.b", "shop.c"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Two tables under care: a has a row."""
    lake.table("a", [1])
    lake.table("b")
    return lake


def logged(lake: Lake, value: int, tables: Collection[str], born: Collection[str]) -> Entry:
    """Append a row to tables, as a writer does that moves some of them in its swap."""
    txn = lake.open().begin()
    for name in tables:
        txn.load_table(name).append(rows(value))
    return log(lake, txn, born)


def log(lake: Lake, txn: txns.Transaction, born: Collection[str]) -> Entry:
    """Log what a transaction has staged, and move those tables that are to move with the entry."""
    parts = lake.open().parts
    head = parts.log.load()
    commit_ts = max(lake.clock.now_ms(), head.upper + 1)
    changes, carried, moved = [], [], []
    for staged in txn._write_set.writes().values():
        change_builder.complete(staged, lake.clock)
        change, request = change_builder.build(staged, txn.txn_id, commit_ts, {})
        is_born = ".".join(staged.identifier) in born
        changes.append(replace(change, born_applied=is_born))
        if is_born:
            moved.append((changes[-1], request))
        else:
            carried.append(request)
    entry = Entry(
        kind=Kind.COMMIT,
        txn_id=txn.txn_id,
        upper=commit_ts,
        tidied_upto=head.state.tidied_upto,
        commit_ts=commit_ts,
        prev_ts=head.upper,
        read_ts=head.upper,
        isolation=Isolation.SNAPSHOT,
        engine=THIS_ENGINE,
        changes=tuple(changes),
        payload=Payload(inline=payload.dump(carried) if carried else None),
    )
    parts.log.append(head, [entry])
    for change, request in moved:
        _move(lake, LoggedChange(entry, change), request)
    return entry


def _move(lake: Lake, one: LoggedChange, request: CommitTableRequest) -> None:
    """Carry a change out as an applier does."""
    now_ms, name = lake.clock.now_ms(), one.change.table
    if replay.creates(request):
        made, io = replay.create(one, request, now_ms), lake.catalog.load_table(A).io
        planned = StagedTable(name, made, made.location, io, lake.catalog)
        updates = replay.creation_updates(one, request, now_ms)
        lake.catalog.commit_table(planned, (AssertCreate(),), updates)
        return
    table = lake.catalog.load_table(name)
    updates = replay.updates_of(table.metadata, one, request, now_ms, replay.renumber_in_memory)
    lake.catalog.commit_table(table, request.requirements, updates)


def read(lake: Lake, name: str, ts: int | None = None) -> list[int]:
    handle = lake.open(lake.another_catalog())
    return ids((handle.snapshot() if ts is None else handle.snapshot(ts)).load_table(name))


def shown(lake: Lake, entry: Entry) -> list[bool]:
    """Say of each of an entry's tables whether it shows it, as people are told."""
    found = lake.open().transactions()
    return [each["applied"] for each in found if each["txn_id"] == entry.txn_id]


def outstanding(lake: Lake, name: str) -> list[int]:
    """Give the `commit_ts` of what the head holds for a table to apply, whatever it shows."""
    head = lake.open().parts.log.load()
    uuid = str(lake.catalog.load_table(name).metadata.table_uuid)
    return [each.commit_ts for each in head.state.changes(uuid, after=0, upto=head.upper)]


def location(lake: Lake, name: str) -> str:
    return lake.catalog.load_table(name).metadata_location


def test_a_table_that_moved_with_the_entry_has_nothing_to_apply(shop):
    entry = logged(shop, 2, (A, B), born=(A, B))
    before = location(shop, A)
    assert not entry.applies
    parts = shop.open().parts
    assert Probe(parts.log.load(), shop.clock.now_ms()).oldest is None
    assert [] == shop.open().apply_le()
    assert before == location(shop, A)
    assert ([1, 2], [2]) == (read(shop, A), read(shop, B))
    assert "ok" == {one.name: one.state for one in health(shop.open().parts).tables}[A]
    shop.open().catalog().load_table(A).append(rows(3))
    assert [1, 2, 3] == shop.plain_ids(A)
    assert not check_all(shop.open().parts).violations
    assert shop.open().tidy()
    assert () == shop.standing()
    assert [1, 2, 3] == read(shop, A)


@pytest.mark.parametrize(("born", "carried"), [(A, B), (B, A)])
def test_an_entry_moves_one_table_and_is_carried_over_to_another(shop, born, carried):
    """Whoever reads sees both at one timestamp, before and after the other one is applied."""
    before = shop.open().upper
    entry = logged(shop, 2, (A, B), born=(born,))

    def both_are_read() -> None:
        assert ([1, 2], [2]) == (read(shop, A), read(shop, B))
        assert ([1], []) == (read(shop, A, before), read(shop, B, before))
        assert ([1, 2], [2]) == (read(shop, A, entry.commit_ts), read(shop, B, entry.commit_ts))
        assert not check_all(shop.open().parts).violations

    assert [carried] == [".".join(each.table) for each in entry.carried]
    assert [entry.commit_ts] == outstanding(shop, carried)
    assert [] == outstanding(shop, born)
    assert 2 in shop.plain_ids(born)
    assert 2 not in shop.plain_ids(carried)
    both_are_read()
    assert [each == born for each in (A, B)] == shown(shop, entry)
    assert shop.open().tidy()  # what was there before
    assert [entry.txn_id] == [each.txn_id for each in shop.standing()]
    moved = location(shop, born)
    assert [] == shop.open().apply_le()
    assert moved == location(shop, born)
    assert 2 in shop.plain_ids(carried)
    both_are_read()
    assert shop.open().tidy()
    assert () == shop.standing()
    both_are_read()
    assert [True, True] == shown(shop, entry)


def test_entries_of_both_sorts_follow_each_other(shop):
    """Appliers skip what is there."""
    logged(shop, 2, (A, B), born=(B,))
    assert [] == shop.open().apply_le()
    logged(shop, 3, (A, B), born=(A, B))
    shop.open(apply="next").catalog().load_table(A).append(rows(4))
    logged(shop, 5, (A, B), born=(B,))
    assert [1, 2, 3] == shop.plain_ids(A)
    assert ([1, 2, 3, 4, 5], [2, 3, 5]) == (read(shop, A), read(shop, B))
    assert [] == shop.open().apply_le()
    assert [1, 2, 3, 4, 5] == shop.plain_ids(A)
    assert not check_all(shop.open().parts).violations
    assert shop.open().tidy()
    assert () == shop.standing()


def test_a_transaction_loses_against_an_entry_that_was_born_applied(shop):
    """What it clashes with is told by the tables of the entry alone."""
    txn = shop.open().begin()
    txn.load_table(A).overwrite(rows(9))
    logged(shop, 2, (A,), born=(A,))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [1, 2] == read(shop, A)


def assert_is_set_back(lake: Lake) -> None:
    handle = lake.open(lake.another_catalog())
    for refused in (
        handle.catalog().load_table,
        handle.snapshot().load_table,
        handle.begin().load_table,
        lambda name: handle.catalog().load_table(name).append(rows(9)),
        handle.forget,
        handle.register,
    ):
        with pytest.raises(txns.Quarantined, match=r"set back.*repair adopt shop\.a"):
            refused(A)


@pytest.mark.parametrize("born", [(A,), (A, B)])
def test_a_table_that_was_set_back_below_it_is_quarantined_and_keeps_it(shop, born):
    """It was not archived, so the entry stays until somebody brings the table back."""
    older = location(shop, A)
    entry = logged(shop, 2, (A, B), born=born)
    newest = location(shop, A)
    set_back(shop, A, older)
    assert_is_set_back(shop)
    assert [] == shop.open().apply_le()
    assert shop.open().tidy()  # what is older
    assert [entry.txn_id] == [each.txn_id for each in shop.standing()]
    assert [False, True] == shown(shop, entry)
    assert "quarantine" == {one.name: one.state for one in health(shop.open().parts).tables}[A]
    assert {A} == {each.where for each in check_all(shop.open().parts).violations}
    shop.open().catalog().load_table(B).append(rows(3))
    assert ([2, 3], [2, 3]) == (shop.plain_ids(B), read(shop, B))
    assert shop.open().tidy()
    assert [entry.txn_id] == [each.txn_id for each in shop.standing()]
    assert [1] == shop.plain_ids(A)
    set_back(shop, A, newest)
    shop.open().catalog().load_table(A).append(rows(4))
    assert [1, 2, 4] == shop.plain_ids(A)
    assert shop.open().tidy()
    assert () == shop.standing()


def test_a_table_that_was_set_back_is_read_as_of_what_it_has(shop):
    """Older timestamps see what they always saw."""
    older = location(shop, A)
    entry = logged(shop, 2, (A,), born=(A,))
    set_back(shop, A, older)
    applied = int(shop.catalog.load_table(A).properties["txns.applied"])
    assert [1] == read(shop, A, applied)
    with pytest.raises(txns.Quarantined, match="set back"):
        read(shop, A, entry.commit_ts)


def test_what_is_applied_once_more_does_not_end_it(shop):
    """1. 2 is carried over to a. 2. 3 is born applied to it. 3. a is set back below both."""
    older = location(shop, A)
    handle = shop.open(apply="next")
    handle.catalog().load_table(A).append(rows(2))
    handle.apply_le()
    logged(shop, 3, (A,), born=(A,))
    set_back(shop, A, older)
    assert_is_set_back(shop)
    handle.apply_le()
    assert_is_set_back(shop)
    handle.repair_adopt(A)
    shop.open().catalog().load_table(A).append(rows(4))
    assert [1, 2, 4] == read(shop, A)


def test_adopt_takes_the_table_as_it_stands(shop):
    """Also with what stands on it unapplied."""
    older = location(shop, A)
    logged(shop, 2, (A,), born=(A,))
    shop.open(apply="next").catalog().load_table(A).append(rows(3))
    set_back(shop, A, older)
    assert_adopt_ends_it(shop, [1])
    assert () == shop.standing()


def test_a_replica_that_lags_is_asked_again(shop, monkeypatch):
    """1. A replica has a. 2. An entry is born applied to it. 3. A reader asks the replica."""
    catalog = shop.another_catalog()
    answers = [catalog.load_table(A)]
    logged(shop, 2, (A,), born=(A,))
    lags(catalog, answers, monkeypatch)
    assert [1, 2] == ids(shop.open(catalog).snapshot().load_table(A))
    assert not answers


@pytest.mark.parametrize("tidied", [False, True])
def test_a_forget_that_is_not_applied_yet_makes_no_table_its_owners(lake, tidied):
    """1. An entry is born applied to a. 2. a is forgotten. 3. It is set back to before its care."""
    a = lake.table("a", [1], register=False)
    plain = location(lake, a)
    lake.open().register(a)
    logged(lake, 2, (a,), born=(a,))
    assert not tidied or lake.open().tidy()
    lake.open(apply="next").forget(a)
    set_back(lake, a, plain)
    with pytest.raises(txns.Quarantined, match="set back"):
        read(lake, a)
    assert [("shop", "a")] == lake.open().apply_le()
    assert "txns.applied" not in lake.catalog.load_table(a).properties


def created(lake: Lake) -> None:
    """Create c with a row, in an entry that is born applied to it."""
    txn = lake.open().begin()
    txn.create_table(C, SCHEMA).append(rows(1))
    log(lake, txn, born=(C,))


@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_was_born_with_its_entry_and_is_gone_is_no_name_that_is_free(shop, again):
    """The log alone does not make it, and whoever found it absent would lose it."""
    created(shop)
    assert ([1], [1]) == (shop.plain_ids(C), read(shop, C))
    newest = location(shop, C)
    shop.catalog.drop_table(C)
    if again:
        shop.catalog.create_table(C, SCHEMA)
    with pytest.raises(txns.Quarantined, match="not in the catalog"):
        read(shop, C)
    with pytest.raises(txns.Quarantined, match="not in the catalog"), shop.open().begin() as txn:
        txn.create_table(C, SCHEMA)
    assert [] == shop.open().apply_le()
    assert "quarantine" == {one.name: one.state for one in health(shop.open().parts).tables}[C]
    assert shop.open().tidy()
    assert 1 == len(shop.standing())
    set_back(shop, C, newest) if again else shop.catalog.register_table(C, newest)
    assert [1] == read(shop, C)
    assert shop.open().tidy()
    assert () == shop.standing()


def test_a_replica_that_lacks_a_table_which_was_born_with_its_entry_is_asked_again(
    shop, monkeypatch
):
    """1. An entry is born applied to c, which it creates. 2. A reader asks a replica for it."""
    created(shop)
    catalog, asked = shop.another_catalog(), []
    load = catalog.load_table

    def lag(name):
        if name == ("shop", "c") and not asked:
            asked.append(name)
            raise NoSuchTableError(C)
        return load(name)

    monkeypatch.setattr(catalog, "load_table", lag)
    assert [1] == ids(shop.open(catalog).snapshot().load_table(C))
    assert asked


def test_a_table_that_was_written_with_an_entry_is_not_made_by_its_creation(shop):
    """1. c is created, and applied. 2. An entry is born applied to it. 3. Somebody drops it."""
    shop.open(apply="next").catalog().create_table(C, SCHEMA)
    assert [] == shop.open().apply_le()
    logged(shop, 2, (C,), born=(C,))
    assert [2] == read(shop, C)
    shop.catalog.drop_table(C)
    with pytest.raises(txns.Quarantined, match="not in the catalog"):
        read(shop, C)
    assert [("shop", "c")] == shop.open().apply_le()
    assert not shop.catalog.table_exists(C)
