"""Clocks that are wrong: whatever they write, every engine can read it, and others go on."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from pyiceberg.types import StringType

from tests.txns.lake import SCHEMA, ids, rows
from txns._timestamps import newest_ms

MINUTE_MS = 60_000
YEAR_MS = 365 * 24 * 3600 * 1000


def refusal(catalog, name: str) -> str | None:
    """What Iceberg's Java has against a table's times (TableMetadata's constructor, 1.11)."""
    table = catalog.load_table(name)
    with table.io.new_input(table.metadata_location).open() as stream:
        stored = json.loads(stream.read())
    for log in ("snapshot-log", "metadata-log"):
        times = [entry["timestamp-ms"] for entry in stored[log]]
        if any(later - earlier < -MINUTE_MS for earlier, later in pairwise(times)):
            return f"{name}: {log} goes back: {times}"
        if times and stored["last-updated-ms"] - times[-1] < -MINUTE_MS:
            return f"{name}: last-updated-ms is before the {log}"
    return None


@pytest.mark.parametrize(
    "clocks",
    [
        (130_000, 0, 59_500),
        (100 * YEAR_MS, 0, -YEAR_MS),
        (-130_000, -30 * YEAR_MS, 0),
    ],
)
def test_what_wrong_clocks_write_can_be_read(lake, clocks):
    """
    Neither the tables nor the commit table have times that go back by more than a minute.

    Each clock in turn writes rows, alters, rolls back, registers, forgets, creates and tidies.
    """
    a = lake.table("a", [1])
    names = [a, "txns.commits"]
    handle = lake.open(tidy_after=2)
    for number, ahead_ms in enumerate(clocks):
        lake.clock.ahead_ms = ahead_ms
        catalog = handle.catalog()
        catalog.load_table(a).append(rows(10 + number))
        with handle.begin() as txn:
            txn.load_table(a).delete(f"id == {10 + number}")
            txn.load_table(a).append(rows(20 + number))
        with catalog.load_table(a).transaction() as changes:
            changes.set_properties(number=str(number))
        names.append(lake.table(f"late{number}", [1]))
        created = catalog.create_table(f"shop.new{number}", SCHEMA)
        created.append(rows(2))
        names.append(f"shop.new{number}")
        catalog.drop_table(f"shop.new{number}")
        handle.forget(names[2])
        handle.register(names[2])
        handle.tidy()
        assert [] == list(filter(None, (refusal(lake.catalog, name) for name in names)))
    expected = [1, *range(20, 20 + len(clocks))]
    assert expected == ids(lake.open().catalog().load_table(a))
    assert expected == lake.plain_ids(a)


def test_no_clock_moves_the_times_of_the_commit_table(lake, handle):
    """They only count on: who has a right clock is never behind them."""
    a = lake.table("a", [1])
    for lake.clock.ahead_ms in (YEAR_MS, 0, -YEAR_MS):
        handle.catalog().load_table(a).append(rows(2))
    lake.clock.ahead_ms = 0
    commits = lake.catalog.load_table("txns.commits")
    times = [at.timestamp_ms for at in commits.snapshots()]
    assert times == sorted(set(times))
    assert times[-1] <= lake.clock.now_ms()
    assert commits.metadata.last_updated_ms <= lake.clock.now_ms()
    assert handle.upper > lake.clock.now_ms() + YEAR_MS // 2


@pytest.mark.parametrize("ahead_ms", [130_000, YEAR_MS])
def test_a_tag_on_a_table_that_is_ahead(lake, handle, ahead_ms):
    """
    What comes back is tagged without a change of the table's times.

    1. A fast clock has written a table, and removed a file of it.
    2. A right clock rolls back.
    """
    a = lake.table("a")
    lake.clock.ahead_ms = ahead_ms
    handle.catalog().load_table(a).append(rows(1))
    first = handle.catalog().load_table(a).current_snapshot().snapshot_id
    handle.catalog().load_table(a).overwrite(rows(2))
    lake.clock.ahead_ms = 0
    before = lake.catalog.load_table(a).metadata
    handle.catalog().load_table(a).manage_snapshots().set_current_snapshot(first).commit()
    table = lake.catalog.load_table(a)
    assert [first] == [
        ref.snapshot_id for name, ref in table.refs().items() if name.startswith("txns-kept-")
    ]
    known = {at.snapshot_id for at in before.snapshots}
    assert 1 == len({at.snapshot_id for at in table.snapshots()} - known)
    assert [1] == lake.plain_ids(a)
    assert refusal(lake.catalog, a) is None
    handle.catalog().load_table(a).append(rows(3))
    assert [1, 3] == ids(lake.open().catalog().load_table(a))
    assert refusal(lake.catalog, a) is None


@pytest.mark.parametrize("registered", [True, False])
def test_single_statements_on_a_table_that_is_ahead(lake, handle, registered):
    """
    What is not in the log follows the table's times as well: each kind of update there is.

    1. A fast clock has written a table.
    2. Transactions are off, or nobody has registered the table; a right clock goes on.
    """
    a = lake.table("a", [1])
    lake.clock.ahead_ms = 130_000
    handle.catalog().load_table(a).append(rows(2))
    lake.clock.ahead_ms = 0
    if registered:
        handle.off()
    else:
        handle.forget(a)
    ahead = newest_ms(lake.catalog.load_table(a).metadata)
    table = handle.catalog().load_table(a)
    second = table.current_snapshot().snapshot_id
    for number, write in enumerate(writes(table, second)):
        write()
        table = handle.catalog().load_table(a)
        assert (number, None) == (number, refusal(lake.catalog, a))
        assert ahead <= newest_ms(table.metadata)
    assert [1, 2, 9] == lake.plain_ids(a)
    assert "side" in table.refs()
    assert ["append", "replace"] == [at.summary.operation.value for at in history(table)[:2]]
    if registered:
        assert [] == handle.on()
    handle.catalog().load_table(a).append(rows(10))
    assert [1, 2, 9, 10] == ids(lake.open().catalog().load_table(a))
    assert refusal(lake.catalog, a) is None


def writes(table, second: int):
    """Single statements, one after the other, that end at the rows of `second` and one more."""
    yield lambda: table.append(rows(3))
    yield lambda: table.overwrite(rows(4))
    yield lambda: table.transaction().set_properties(number="1").commit_transaction()
    yield lambda: table.update_schema().add_column("note", StringType()).commit()
    yield lambda: table.manage_snapshots().create_branch(second, "side").commit()
    yield lambda: table.append(rows(5), branch="side")
    yield lambda: table.manage_snapshots().set_current_snapshot(second).commit()
    yield lambda: table.append(rows(9))


def history(table) -> list:
    """Snapshots of `main`, the newest first."""
    found = []
    at = table.current_snapshot()
    while at is not None:
        found.append(at)
        at = table.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
    return found
