"""No expiry through the log takes what strangers have appended and nobody has adopted."""

from __future__ import annotations

from datetime import datetime

import pytest

import txns
from tests.txns.commit.test_adoption import BESIDE, appends
from tests.txns.lake import ids, rows
from txns._admin.invariants import check_all


def expire_all(table) -> None:
    """Expire what a table can do without, however young."""
    table.maintenance.expire_snapshots().older_than(datetime(2100, 1, 1)).commit()  # noqa: DTZ001


@pytest.mark.parametrize("apply", ["inline", "next", "atomic"])
def test_who_goes_on_beside_strangers_expires_nothing_of_theirs(lake, apply):
    """
    Its view of the log shows their snapshots on no branch.

    1. A stranger appends. 2. A transaction expires what it can, and loses to the adoption of that;
    so at its second try. 3. At the third it goes on beside what is appended then.
    """
    a = lake.table("a", [1])
    ours = lake.open(apply=apply)
    txn = None
    for value in range(3):
        appends(lake, a, BESIDE + value)
        txn = ours.begin(**({"after": txn} if txn else {}))
        expire_all(txn.load_table(a))
        if value < 2:
            with pytest.raises(txns.Conflict):
                txn.commit()
            txn.rollback()
    txn.commit()
    lake.open(lake.another_catalog()).catalog().load_table(a).append(rows(2))
    expected = [1, 2, BESIDE, BESIDE + 1, BESIDE + 2]
    assert expected == ids(ours.snapshot().load_table(a)) == lake.plain_ids(a)
    assert not check_all(ours.parts).violations


def test_what_has_come_to_main_since_is_not_expired_by_who_applies(lake):
    """
    Else what is kept of it would stand on nothing, and nobody would adopt it.

    1. A stranger appends twice to a branch. 2. A transaction expires the older of these. 3. The
    stranger takes the branch for `main`. 4. The transaction is applied, and theirs adopted.
    """
    a = lake.table("a", [1])
    ours = lake.open(apply="next")
    theirs = lake.another_catalog().load_table(a)
    theirs.manage_snapshots().create_branch(theirs.current_snapshot().snapshot_id, "audit").commit()
    for value in (BESIDE, BESIDE + 1):
        theirs.append(rows(value), branch="audit")
    with ours.begin() as txn:
        expire_all(txn.load_table(a))
    audited = theirs.refs()["audit"].snapshot_id
    theirs.manage_snapshots().set_current_snapshot(audited).commit()
    assert not lake.open(lake.another_catalog()).apply_le()
    ours.catalog().load_table(a).append(rows(2))
    assert [1, 2, BESIDE, BESIDE + 1] == ids(ours.snapshot().load_table(a))
    assert not check_all(ours.parts).violations


def test_what_a_person_puts_away_can_be_expired(lake):
    """A branch of strangers' rows that goes with the same change keeps nothing any more."""
    a = lake.table("a", [1])
    ours = lake.open()
    appends(lake, a, BESIDE)
    ours.repair_reject(a)
    (branch,) = [name for name in lake.catalog.load_table(a).refs() if name != "main"]
    theirs = lake.catalog.load_table(a).refs()[branch].snapshot_id
    with ours.begin() as txn:
        table = txn.load_table(a)
        table.manage_snapshots().remove_branch(branch).commit()
        table.maintenance.expire_snapshots().by_id(theirs).commit()
    metadata = lake.catalog.load_table(a).metadata
    assert theirs not in {each.snapshot_id for each in metadata.snapshots}
