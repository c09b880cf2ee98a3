"""A transaction that has lost learns it at its next statement (docs/isolation.md)."""

from __future__ import annotations

import pytest

import txns
from tests.txns.lake import ids, rows
from txns._catalog import early_doom


def _append(handle, name, *numbers):
    with handle.begin() as other:
        other.load_table(name).append(rows(*numbers))


STATEMENTS = {
    "a load": lambda txn, name: txn.load_table(name),
    "a scan": lambda txn, _name: ids(txn.shared),
    "an append": lambda txn, _name: txn.shared.append(rows(7)),
    "a delete": lambda txn, _name: txn.shared.delete("id = 7"),
}


@pytest.fixture(autouse=True)
def looks(nobody_looks_early, monkeypatch):  # noqa: ARG001 -- it comes after that one
    """But here they do."""
    monkeypatch.setattr(early_doom, "_PAUSE_MS", 100)


@pytest.fixture
def names(lake):
    return lake.table("a", [1]), lake.table("b"), lake.table("c")


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=list(STATEMENTS))
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_who_has_lost_learns_it_at_the_next_statement(lake, handle, names, statement):
    """It has read `a`, which somebody writes, and has written `b`."""
    read, written, third = names
    txn = handle.begin()
    txn.shared = txn.load_table(third)
    ids(txn.load_table(read))
    txn.load_table(written).append(rows(1))
    _append(handle, read, 2)
    lake.clock.ahead_ms += 200
    with pytest.raises(txns.Conflict, match="a table that it read was written") as raised:
        statement(txn, third)
    assert "40001" == raised.value.sqlstate
    txn.rollback()
    assert [] == lake.plain_ids(written)


def test_who_only_reads_has_not_lost(lake, handle, names):
    """Until it writes: then it is told before the first file."""
    read, written, _ = names
    txn = handle.begin()
    ids(txn.load_table(read))
    _append(handle, read, 2)
    lake.clock.ahead_ms += 200
    assert [1] == ids(txn.load_table(read))
    table = txn.load_table(written)
    before = lake.files()
    with pytest.raises(txns.Conflict):
        table.append(rows(1))
    assert before == lake.files()


def test_a_statement_is_not_cut_short(lake, handle, names):
    """Producers write several files at a time: one told to stop would leave another's behind."""
    read, written, third = names
    txn = handle.begin()
    ids(txn.load_table(read))
    txn.load_table(written).append(rows(1))
    table = txn.load_table(third)
    _append(handle, read, 2)
    lake.clock.ahead_ms += 200
    assert table.location_provider().new_data_location("x.parquet")
    with pytest.raises(txns.Conflict):
        table.transaction()


def test_who_has_not_lost_goes_on(lake, handle, names):
    read, written, third = names
    txn = handle.begin()
    ids(txn.load_table(read))
    txn.load_table(written).append(rows(1))
    _append(handle, third, 2)
    lake.clock.ahead_ms += 200
    assert [] == ids(txn.load_table(third))  # as of its beginning: from here on it has lost
    lake.clock.ahead_ms += 200
    with pytest.raises(txns.Conflict):
        txn.load_table(written)


def test_short_transactions_do_not_look(lake, handle, names, monkeypatch):
    """What a look costs is more than what is lost."""
    read, written, third = names
    txn = handle.begin()
    ids(txn.load_table(read))
    txn.load_table(written).append(rows(1))
    looks = []
    monkeypatch.setattr(handle.parts.committer, "check_standing", looks.append)
    monkeypatch.setattr(lake.clock, "elapsed_ms", lambda: 0)
    txn.load_table(third).append(rows(1))
    assert [] == looks


def test_a_look_that_fails_fails_nothing(lake, handle, names, monkeypatch):
    read, written, third = names
    txn = handle.begin()
    ids(txn.load_table(read))
    txn.load_table(written).append(rows(1))
    lake.clock.ahead_ms += 200
    with monkeypatch.context() as patch:
        patch.setattr(handle.parts.log, "load", lambda: 1 / 0)
        txn.load_table(third)
    txn.commit()
    assert [1] == lake.plain_ids(written)


def test_what_another_try_under_its_id_has_committed_is_no_loss(lake, handle, names):
    """1. Two tries under one id. 2. One commits. 3. The other goes on: its commit says so."""
    read, _, third = names
    tries = [handle.begin(txn_id="nightly") for _ in range(2)]
    for txn in tries:
        table = txn.load_table(read)
        ids(table)
        table.append(rows(2))
    first, second = tries
    first.commit()
    lake.clock.ahead_ms += 200
    second.load_table(third)
    second.commit()
    assert first.committed.commit_ts == second.committed.commit_ts
    assert [1, 2] == lake.plain_ids(read)


def test_what_came_under_care_for_it_is_no_reason(lake):
    """1. It lists the tables. 2. It is about to write one, which comes under care for that."""
    handle = lake.open(register="all")
    plain = lake.table("plain", [1], register=False)
    txn = handle.begin()
    txn.list_tables("shop")
    table = txn.load_table(plain)
    lake.clock.ahead_ms += 200
    table.append(rows(2))
    txn.commit()
    assert [1, 2] == lake.plain_ids(plain)
