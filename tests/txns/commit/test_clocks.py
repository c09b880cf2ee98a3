"""Clocks that are wrong: whatever they write, every engine can read it, and others go on."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, SetPropertiesUpdate
from pyiceberg.types import StringType

from tests.txns.lake import SCHEMA, ids, rows
from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.timestamps import newest_ms
from txns.errors import Conflict

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


def set_ahead(catalog, name: str, ahead_ms: int, **properties: str) -> int:
    """Set properties of a table by a clock that is fast; give the table's newest time."""
    table = catalog.load_table(name)
    passing = Snapshot(
        snapshot_id=1,
        sequence_number=last_sequence_number(table.metadata),  # a property takes none
        timestamp_ms=newest_ms(table.metadata) + ahead_ms,
        manifest_list=table.location(),
        summary=Summary(Operation.APPEND),
    )
    updates = (
        AddSnapshotUpdate(snapshot=passing),
        RemoveSnapshotsUpdate(snapshot_ids=[1]),
        SetPropertiesUpdate(updates=properties),
    )
    return newest_ms(catalog.commit_table(table, (), updates).metadata)


def plain_table(lake, version: int, *numbers: int) -> str:
    """Create a table that nobody registers."""
    properties = {"format-version": str(version)}
    table = lake.catalog.create_table("shop.a", SCHEMA, properties=properties)
    for number in numbers:
        table.append(rows(number))
    return "shop.a"


def test_a_table_of_format_version_1_that_is_ahead(lake):
    """It is rolled back, and becomes one of format version 2."""
    a = plain_table(lake, 1, 1, 2)
    ahead = set_ahead(lake.catalog, a, 30 * MINUTE_MS)
    catalog = lake.open(register="none").catalog()
    table = catalog.load_table(a)
    table.manage_snapshots().set_current_snapshot(table.snapshots()[0].snapshot_id).commit()
    assert [1] == lake.plain_ids(a)
    catalog.load_table(a).append(rows(3))
    catalog.load_table(a).transaction().upgrade_table_version(2).commit_transaction()
    catalog.load_table(a).append(rows(4))
    assert [1, 3, 4] == lake.plain_ids(a)
    assert refusal(lake.catalog, a) is None
    assert ahead <= newest_ms(lake.catalog.load_table(a).metadata)


@pytest.mark.parametrize("numbers", [(), (1, 2)])
def test_what_changes_nothing_of_a_table_that_is_ahead(lake, numbers):
    """No metadata is written for it, as for any other table."""
    a = plain_table(lake, 2, *numbers)
    set_ahead(lake.catalog, a, 30 * MINUTE_MS)
    table = lake.open(register="none").catalog().load_table(a)
    location = table.metadata_location
    if numbers:
        here = table.current_snapshot().snapshot_id
        table.manage_snapshots().set_current_snapshot(here).commit()
    else:
        table.manage_snapshots().remove_branch("main").commit()
    assert location == lake.catalog.load_table(a).metadata_location


def racing(lake, name: str):
    """Give a client of the catalog, and what others do before its next commit to a table."""
    rivals = []

    class Racing(type(lake.catalog)):
        def commit_table(self, table, requirements, updates):
            if rivals and ".".join(table.name()) == name:
                rivals.pop()()
            return super().commit_table(table, requirements, updates)

    return Racing("lake", **lake.catalog.properties), rivals


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ahead_ms", [0, 30 * MINUTE_MS])
def test_races_with_a_fast_clock(lake, ahead_ms, version):
    """
    Pyiceberg takes what clashes with nothing that others commit meanwhile; so it does here.

    1. A statement is built on a table, which is ahead or not.
    2. Before it is committed somebody with a fast clock changes a property.
    """
    a = plain_table(lake, version, 1, 2)
    set_ahead(lake.catalog, a, ahead_ms)
    ours, rivals = racing(lake, a)
    catalog = lake.open(ours, register="none").catalog()
    table = catalog.load_table(a)
    first = table.snapshots()[0].snapshot_id
    for number, write in enumerate(
        [
            lambda: table.transaction().set_properties(ours="1").commit_transaction(),
            lambda: table.append(rows(3)),
            lambda: table.manage_snapshots().create_tag(first, "held").commit(),
            lambda: table.manage_snapshots().set_current_snapshot(first).commit(),
        ]
    ):
        table.refresh()
        rivals.append(partial(set_ahead, lake.catalog, a, 2 * MINUTE_MS, rival=str(number)))
        write()
        assert (number, None) == (number, refusal(lake.catalog, a))
    after = lake.catalog.load_table(a)
    assert ("3", "1") == (after.properties["rival"], after.properties["ours"])
    assert "held" in after.refs()
    assert [1] == lake.plain_ids(a)


@pytest.mark.parametrize("ahead_ms", [0, 30 * MINUTE_MS])
def test_races_of_the_protocol_with_a_fast_clock(lake, ahead_ms):
    """What applies, takes in, forgets and registers follows what others commit meanwhile."""
    a = lake.table("a", [1])
    lake.catalog.load_table(a).manage_snapshots().remove_branch("main").commit()
    set_ahead(lake.catalog, a, ahead_ms)
    ours, rivals = racing(lake, a)
    handle = lake.open(ours)

    def adopt() -> None:
        with pytest.raises(Conflict, match="look at the table again"):
            handle.repair_adopt(a)
        handle.repair_adopt(a)

    for number, step in enumerate(
        [
            adopt,
            lambda: handle.catalog().load_table(a).append(rows(2)),
            lambda: handle.forget(a),
            lambda: handle.register(a),
        ]
    ):
        rivals.append(partial(set_ahead, lake.catalog, a, 2 * MINUTE_MS, rival=str(number)))
        step()
        rivals.clear()
        assert (number, None) == (number, refusal(lake.catalog, a))
    assert [2] == lake.plain_ids(a)


def test_what_is_late_follows_what_others_commit_beside_it(lake):
    """
    A time may be old without any clock that is wrong.

    1. A change is committed, and staged by a plain transaction. 2. Ten minutes later one is applied
    and the other committed. 3. Before either swap somebody changes a property.
    """
    a, plain = lake.table("a", [1]), lake.table("plain", [1], register=False)
    lake.open(apply="next").catalog().load_table(a).append(rows(2))
    applying, beside_a = racing(lake, a)
    committing, beside_plain = racing(lake, plain)
    late = lake.open(committing, register="none").catalog().load_table(plain).transaction()
    late.append(rows(2))
    lake.clock.ahead_ms = 10 * MINUTE_MS
    for name, beside in ((a, beside_a), (plain, beside_plain)):
        beside.append(partial(set_ahead, lake.catalog, name, 10 * MINUTE_MS, rival="1"))
    late.commit_transaction()
    assert [] == lake.open(applying).apply_le()
    for name in (a, plain):
        assert refusal(lake.catalog, name) is None
        assert [1, 2] == lake.plain_ids(name)
        assert "1" == lake.catalog.load_table(name).properties["rival"]


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
