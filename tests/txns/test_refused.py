"""A COMMIT that the catalog has refused and that has landed: whatever is met later, it stands."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import ForbiddenError

import txns
from tests.txns.lake import ids
from tests.txns.test_commit_loop import COMMITS, Replica, Wrapped
from tests.txns.test_kept import removed, tags


class Refusing:
    """A catalog whose swaps land and are refused, and which answers from before them, at first."""

    def __init__(self, lake):
        self.replica = Replica()
        self.catalog = Wrapped(lake.another_catalog(), self._swap, self.replica)
        self._lake = lake

    def remember(self):
        """Take the log as it is for what is answered after the swap."""
        self.replica.old = self._lake.catalog.load_table(COMMITS)

    def _swap(self, real):
        real()
        self.replica.lags = True
        raise ForbiddenError("the token has expired meanwhile")


def refused(lake, txn):
    """COMMIT, which lands and is refused."""
    with pytest.raises(ForbiddenError):
        txn.commit()
    assert txns.State.ACTIVE is txn.state
    assert lake.open().find(txn.txn_id) is not None


def test_commit_again_finds_what_has_landed(lake):
    """
    COMMIT again is answered with the entry, whatever stands in the way of another one.

    1. T's COMMIT lands, is refused, and the catalog answers from before it. 2. A stranger
    overwrites the table: what is outstanding cannot be applied. 3. T commits again.
    """
    a = lake.table("a", [1, 2, 3])
    catalog = Refusing(lake)
    txn = lake.open(catalog.catalog).begin()
    txn.load_table(a).delete("id = 1")
    catalog.remember()
    refused(lake, txn)
    catalog.replica.lags = False
    lake.catalog.load_table(a).delete("id = 2")
    assert lake.open().find(txn.txn_id).commit_ts == txn.commit().commit_ts
    assert txns.State.COMMITTED is txn.state
    assert [2, 3] == ids(lake.open().snapshot().load_table(a))


def test_commit_again_deletes_nothing_that_may_have_landed(lake):
    """
    Where the catalog still lags nobody knows; the files stay.

    1. T brings rows back, which needs a tag. 2. Its COMMIT lands, is refused, and the catalog
    answers from before it. 3. A stranger takes tag and snapshot. 4. T commits again.
    """
    a = lake.table("a")
    first = removed(lake.open(), a)
    catalog = Refusing(lake)
    txn = lake.open(catalog.catalog).begin()
    txn.load_table(a).manage_snapshots().set_current_snapshot(first).commit()
    catalog.remember()
    refused(lake, txn)
    (tag,) = tags(lake, a)
    lake.catalog.load_table(a).manage_snapshots().remove_tag(tag).commit()
    lake.catalog.load_table(a).maintenance.expire_snapshots().by_id(first).commit()
    files = lake.files()
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    assert txns.State.UNKNOWN is txn.state
    assert files <= lake.files()
    assert [1] == ids(lake.open().snapshot().load_table(a))
