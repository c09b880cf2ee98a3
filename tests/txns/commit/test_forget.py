"""Tables that leave care."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table.update import AddSnapshotUpdate, RemovePropertiesUpdate

import txns
from tests.txns.lake import compaction, ids, rows
from txns._iceberg.snapshots import branch_at
from txns._log.change import Change, Operation
from txns._log.entry import Entry, Kind, LoggedChange
from txns._table import mark, replay

if TYPE_CHECKING:
    from tests.txns.lake import Lake


def test_a_registered_table_is_forgotten_and_registered_again(lake: Lake):
    """A registered table has no `txns.created` to remove."""
    name = lake.table("a", [1])
    handle = lake.open()
    handle.forget(name)
    assert mark.mark_of(lake.catalog.load_table(name).metadata) is None
    assert [1] == lake.plain_ids(name)
    handle.register(name)
    assert mark.mark_of(lake.catalog.load_table(name).metadata) is not None


def test_each_registration_is_logged(lake: Lake):
    """The second mark has an entry of its own, not the first one's (simulation: rename)."""
    name = lake.table("a", [1])
    handle = lake.open()
    handle.forget(name)
    handle.register(name)
    main = lake.catalog.load_table(name).metadata.current_snapshot_id
    logged = [
        (row["kind"], row["snapshot_id"])
        for row in handle.transactions()
        if row["kind"] in {"register", "forget"}
    ]
    assert [kind for kind, _ in logged] == ["register", "forget", "register"]
    assert logged[-1] == ("register", main)


def test_a_late_clock_writes_between_two_registrations(lake: Lake):
    """
    What a plain writer adds after a forget is not read before the forget.

    1. A transaction commits, and the table is forgotten, by a clock that is 30 s ahead.
    2. Somebody appends past the protocol: their clock says that it was before the transaction.
    3. The table is registered again, and read at the transaction's commit_ts.
    """
    lake.clock.ahead_ms = 30_000
    name = lake.table("a", [1])
    handle = lake.open()
    with handle.begin() as txn:
        txn.load_table(name).append(rows(2))
    before = handle.upper
    handle.forget(name)
    lake.catalog.load_table(name).append(rows(3))
    handle.register(name)
    assert [1, 2] == ids(handle.snapshot(before).load_table(name))
    assert [1, 2, 3] == ids(handle.catalog().load_table(name))


@pytest.mark.parametrize("deed", ["append", "roll back"])
def test_what_was_never_adopted_is_not_read_before_the_forget(lake, deed):
    """
    Registered again, a table is still read below its forget as it was under care (seed 75).

    1. A forget is logged, and not applied yet.
    2. Somebody appends past the protocol, or rolls main back, before it is.
    3. The table is registered again, and read at the last commit_ts before the forget.
    """
    name = lake.table("a", [1])
    handle = lake.open(apply="next")
    with handle.begin() as txn:
        txn.load_table(name).append(rows(2))
    handle.apply_le()
    before = handle.advance(handle.upper + 60_000)
    applier = handle.parts.applier
    with mock.patch.object(applier, "apply_all", lambda _head, tables, _upto=None: list(tables)):
        handle.forget(name)
    plain = lake.catalog.load_table(name)
    if deed == "append":
        plain.append(rows(3))
    else:
        parent = plain.current_snapshot().parent_snapshot_id
        plain.manage_snapshots().rollback_to_snapshot(parent).commit()
    written = lake.plain_ids(name)
    handle.register(name)
    assert [1, 2] == ids(handle.snapshot(before).load_table(name))
    assert written == ids(handle.snapshot().load_table(name))
    handle.tidy()
    assert [1, 2] == ids(handle.snapshot(before).load_table(name))


def test_a_payload_may_remove_properties_that_a_table_does_not_have(lake: Lake):
    """Java's writer removes all of the mark, `txns.created` of a registered table as well."""
    name = lake.table("a", [1])
    base = lake.catalog.load_table(name).metadata
    identifier = ("shop", "a")
    change = Change(identifier, str(base.table_uuid), Operation.ALTER, base.current_snapshot_id, 7)
    entry = Entry(Kind.FORGET, "f", upper=9, tidied_upto=0, commit_ts=9, changes=(change,))
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=["shop"], name="a"),
        requirements=(),
        updates=(RemovePropertiesUpdate(removals=list(mark.KEYS)),),
    )
    logged = LoggedChange(entry, change)
    left = replay.replay(base, logged, request, 0, replay.renumber_in_memory)
    assert mark.mark_of(left) is None
    assert mark.CREATED not in left.properties


def test_a_forgotten_table_is_dropped_and_another_takes_its_name(lake: Lake):
    """
    What stands under a name that has left care is the catalog's word.

    1. `a` is forgotten; its entries still stand in the head.
    2. It is dropped, and another table is created under its name, both past the protocol.
    3. Nothing is left to apply, the head can be tidied, and the new table can be registered.
    """
    name = lake.table("a", [1])
    handle = lake.open()
    handle.forget(name)
    lake.catalog.drop_table(name)
    lake.table("a", [2], register=False)
    assert [] == handle.apply_le()
    handle.register(name)
    assert [("shop", "a")] == handle.registered()
    assert [2] == ids(handle.snapshot().load_table(name))
    assert handle.tidy() == 3


def test_a_forget_that_left_main_to_others_is_delivered_without_rows(lake):
    """Its snapshot is on no table then: a subscriber does not need it (seed 499)."""
    name = lake.table("a", [1])
    handle = lake.open(apply="next")
    read_ts = handle.upper
    applier = handle.parts.applier
    with mock.patch.object(applier, "apply_all", lambda _head, tables, _upto=None: list(tables)):
        forgotten = handle.forget(name)
    lake.catalog.load_table(name).append(rows(3))
    handle.apply_le()
    deliveries = list(handle.subscribe([name], as_of=read_ts, until=forgotten))
    assert [forgotten] == [each.commit_ts for each in deliveries if each.txn_id]
    assert all(not t.appended.num_rows and not t.removed.num_rows for t in deliveries[0].tables)


@pytest.mark.parametrize("deed", ["append", "delete"])
def test_who_writes_a_table_after_it_was_forgotten_is_no_stranger(lake, deed):
    """A forget that is applied late leaves main to them (seeds 220 and 430)."""
    a = lake.table("a", [1, 2])
    later = lake.open(apply="next")
    read_ts = later.upper
    applier = later.parts.applier
    with mock.patch.object(applier, "apply_all", lambda _head, tables, _upto=None: list(tables)):
        later.forget(a)
    plain = lake.catalog.load_table(a)
    plain.append(rows(3)) if deed == "append" else plain.delete("id = 1")
    written = lake.plain_ids(a)
    assert [] == later.apply_le()
    assert written == lake.plain_ids(a)
    assert "main" in lake.catalog.load_table(a).refs()
    assert [1, 2] == ids(later.snapshot(read_ts).load_table(a))
    assert 1 < later.tidy()
    later.register(a)
    assert written == ids(later.snapshot().load_table(a))


def _compact(lake, name: str) -> None:
    """Put a snapshot of the same rows on main, as a compaction past the protocol does."""
    plain = lake.catalog.load_table(name)
    added = (AddSnapshotUpdate(snapshot=compaction(plain)), branch_at("main", 77))
    lake.catalog.commit_table(plain, (), added)


def _as_an_owner(lake, name: str, deed: str) -> None:
    """Do to a table what its owner may; but for a mark taken, with all older snapshots expired."""
    plain = lake.catalog.load_table(name)
    if deed == "unmark":
        with plain.transaction() as transaction:
            transaction.remove_properties(mark.COMMIT_TABLE)
        return
    plain.append(rows(3)) if deed == "append" else _compact(lake, name)
    until = datetime.now(UTC) + timedelta(days=1)
    lake.catalog.load_table(name).maintenance.expire_snapshots().older_than(until).commit()
    assert 1 == len(lake.catalog.load_table(name).snapshots())


@pytest.mark.parametrize("deed", ["append", "compact", "unmark"])
def test_a_forget_asks_nothing_of_the_table(lake, deed):
    """
    From its entry on the table is its owner's, whoever applies it, and whenever.

    1. A forget is logged, and not applied. 2. The owner writes the table, or lets it be compacted,
    and expires what the forget stands on; or takes the mark away. 3. Somebody reads it, and asks
    for a repair, before anybody applies. 4. It is registered.
    """
    a = lake.table("a", [1, 2])
    later = lake.open(apply="next")
    read_ts = later.upper
    applier = later.parts.applier
    with mock.patch.object(applier, "_apply_due", return_value=False):
        with mock.patch.object(applier, "_apply_due", return_value=True):
            forgotten = later.forget(a)
        _as_an_owner(lake, a, deed)
        written = lake.plain_ids(a)
        assert written == ids(later.snapshot(forgotten).load_table(a))
        for repair in (later.repair_adopt, later.repair_reject):
            with pytest.raises(txns.Unsupported, match="nothing to repair"):
                repair(a)
        if deed == "unmark":
            assert [1, 2] == ids(later.snapshot(read_ts).load_table(a))
        else:
            with pytest.raises(txns.Conflict, match="too old"):
                later.snapshot(read_ts).load_table(a)
    assert [] == later.apply_le()
    assert "txns.commit-table" not in lake.catalog.load_table(a).properties
    later.register(a)
    assert written == ids(later.snapshot().load_table(a)) == lake.plain_ids(a)
    later.catalog().load_table(a).append(rows(4))
    assert [*written, 4] == ids(later.snapshot().load_table(a))


def test_a_transaction_reads_a_table_as_it_was_before_it_was_forgotten(lake, handle):
    """What is written to it since is not of its time, and a write to it clashes (seed 44)."""
    a, b = lake.table("a", [1]), lake.table("b", [1])
    read_ts = handle.upper
    txn = handle.begin()
    handle.forget(a)
    lake.catalog.load_table(a).append(rows(2))
    assert [1] == ids(txn.load_table(a))
    txn.load_table(b).append(rows(2))
    with pytest.raises(txns.Conflict):
        txn.commit()
    handle.tidy()
    assert [1] == ids(handle.snapshot(read_ts).load_table(a))
    assert [1, 2] == ids(handle.snapshot().load_table(a))


def test_a_forgotten_table_of_before_its_registration_has_no_past(lake, handle):
    """It is its owner's: as the catalog has it now, and the log knows that it was another then."""
    a = lake.table("a", [1], register=False)
    before = lake.catalog.load_table(a).metadata_location
    handle.register(a)
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    cared_ts = handle.upper
    handle.forget(a)
    handle.tidy()
    lake.catalog.drop_table(a)
    lake.catalog.register_table(a, before)
    assert [1] == ids(lake.open().snapshot().load_table(a))
    with pytest.raises(txns.Conflict, match="cannot be read at"):
        lake.open().snapshot(cared_ts).load_table(a)


def test_a_table_that_another_commit_table_forgot_is_read_as_it_is(lake, handle):
    """Timestamps of another log say nothing about this one's."""
    a = lake.table("a", [1], register=False)
    other = lake.open(commit_table="txns.others")
    other.register(a)
    other.advance(other.upper + 5_000)
    other.forget(a)
    lake.catalog.load_table(a).append(rows(2))
    assert [1, 2] == ids(handle.begin().load_table(a))


@pytest.mark.parametrize("tidied", [True, False])
def test_a_forget_hides_no_set_back(lake, tidied):
    """
    What a table lacks would be hidden by the forget's timestamp.

    1. It is written. 2. A forget is logged, and not applied. 3. A stranger sets the table back to
    before the write. 4. Somebody applies.
    """
    a = lake.table("a", [1])
    older = lake.catalog.load_table(a)
    handle = lake.open()
    handle.catalog().load_table(a).append(rows(2))
    if tidied:
        assert handle.tidy()
    with mock.patch.object(handle.parts.applier, "_apply_due", return_value=True):
        handle.forget(a)
    lake.catalog.drop_table(a)
    lake.catalog.register_table(a, older.metadata_location)
    other = lake.open(lake.another_catalog())
    other.apply_le()
    newest = lake.catalog.load_table(a)
    if not tidied:  # all of it stands in the log
        assert [1, 2] == ids(newest)
        assert "txns.commit-table" not in newest.properties
        return
    assert newest.properties["txns.applied"] == older.properties["txns.applied"]
    with pytest.raises(txns.Quarantined, match="set back"):
        other.snapshot().load_table(a)
