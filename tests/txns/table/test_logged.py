"""The logged state of a table whose newest transaction has several snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate

from tests.txns.lake import compaction, ids, rows
from txns import Quarantined
from txns._iceberg.snapshots import branch_at
from txns._table import mark
from txns._table.logged_state import logged_state

if TYPE_CHECKING:
    import txns
    from tests.txns.lake import Lake


def _write_twice(lake: Lake, handle: txns.Handle) -> str:
    """Make one transaction of two snapshots on `main` and one on a branch."""
    name = lake.table("a", [1])
    with handle.begin() as txn:
        table = txn.load_table(name)
        table.append(rows(2))
        table.append(rows(3))
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()
        table.append(rows(4), branch="side")
    return name


@pytest.mark.parametrize("place", ["inside", "branch"])
def test_a_stranger_puts_main_on_another_snapshot_of_the_transaction(
    lake: Lake, handle: txns.Handle, place: str
):
    """Each of a transaction's snapshots carries its `commit_ts`, one of them is what it left."""
    # 1. A transaction appends twice to main, and once to a branch.  2. A stranger puts main on
    # the snapshot between, or on the branch's.  3. Somebody reads; somebody writes.
    name = _write_twice(lake, handle)
    plain = lake.catalog.load_table(name)
    main = plain.current_snapshot()
    inside, side = main.parent_snapshot_id, plain.metadata.refs["side"].snapshot_id
    plain.manage_snapshots().set_current_snapshot(inside if place == "inside" else side).commit()
    assert [1, 2, 3] == ids(handle.snapshot().load_table(name))
    txn = handle.begin()
    with pytest.raises(Quarantined):
        txn.load_table(name).append(rows(5))
    handle.repair_reject(name)
    assert [1, 2, 3] == ids(handle.snapshot().load_table(name)) == lake.plain_ids(name)


def test_a_table_registered_again_at_the_same_timestamp_is_as_logged(
    lake: Lake, handle: txns.Handle
):
    """A forget and the register after it may carry one `commit_ts`."""
    name = _write_twice(lake, handle)
    handle.forget(name)
    handle.register(name)
    with handle.begin() as txn:
        txn.load_table(name).append(rows(5))
    assert [1, 2, 3, 5] == lake.plain_ids(name)


def test_a_compaction_without_its_past_is_as_logged(lake: Lake, handle: txns.Handle):
    """
    Expiry takes the snapshot of main, and leaves the one of a branch of the same entry.

    1. A transaction appends to a branch; its empty snapshot on main carries the same commit_ts.
    2. A stranger compacts main, and expires the snapshot below. 3. The rows are main's.
    """
    name = lake.table("a", [1])
    with handle.begin() as txn:
        table = txn.load_table(name)
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()
        table.append(rows(4), branch="side")
    plain = lake.catalog.load_table(name)
    gone = [s.snapshot_id for s in plain.snapshots() if s.snapshot_id != _side(plain)]
    lake.catalog.commit_table(
        plain,
        (),
        (
            AddSnapshotUpdate(snapshot=compaction(plain)),
            branch_at("main", 77),
            RemoveSnapshotsUpdate(snapshot_ids=gone),
        ),
    )
    assert [1] == ids(handle.snapshot().load_table(name))


def test_without_the_history_of_main_a_branch_is_not_taken_for_it(lake: Lake, handle: txns.Handle):
    """
    Who clears it with the ref leaves each snapshot of the transaction in question.

    1. A transaction appends to main, then to a branch. 2. A stranger replaces the table.
    """
    name = lake.table("a", [1])
    with handle.begin() as txn:
        table = txn.load_table(name)
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()
    with handle.begin() as txn:
        table = txn.load_table(name)
        table.append(rows(2))
        table.append(rows(4), branch="side")
    metadata = lake.catalog.load_table(name).metadata
    refs = {"side": metadata.refs["side"]}
    gone = {"refs": refs, "current_snapshot_id": None, "snapshot_log": []}
    logged = logged_state(metadata.model_copy(update=gone), mark.mark_of(metadata)).snapshot
    assert metadata.current_snapshot_id == logged.snapshot_id


def _side(table) -> int:
    return table.metadata.refs["side"].snapshot_id
