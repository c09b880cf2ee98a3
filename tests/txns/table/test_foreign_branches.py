"""Branches on which apply has kept what strangers wrote, and what is adopted from them."""

from __future__ import annotations

import pytest

import txns
from tests.txns.lake import SCHEMA, ids, rows


def _kept(lake, later: txns.Handle, name: str, *, logged: int, theirs: int) -> str:
    """Keep a stranger's row on a branch, beside a logged one; give the branch's name."""
    later.catalog().load_table(name).append(rows(logged))
    lake.catalog.load_table(name).append(rows(theirs))
    head = lake.catalog.load_table(name).current_snapshot().snapshot_id
    assert [] == later.apply_le()
    return f"txns-foreign-{head}"


def test_rows_of_a_dropped_table_are_not_adopted_into_the_next_one(lake):
    """
    What stands below `txns.created` belongs to what was dropped.

    1. A stranger's row is rejected. 2. The table is dropped, and created again, which is the same
    physical one. 3. Somebody adopts; then once more, with a row of the new one open, too.
    """
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    lake.catalog.load_table(a).append(rows(99))
    older = f"txns-foreign-{lake.catalog.load_table(a).current_snapshot().snapshot_id}"
    later.repair_reject(a)
    assert [] == later.apply_le()
    later.catalog().drop_table(a)
    later.catalog().create_table(a, SCHEMA).append(rows(5))
    with pytest.raises(txns.Unsupported, match=f"{older} holds belongs to the table that was drop"):
        later.repair_adopt(a)
    newer = _kept(lake, later, a, logged=6, theirs=77)
    later.repair_adopt(a)
    assert [] == later.apply_le()
    assert [5, 6, 77] == ids(later.snapshot().load_table(a)) == lake.plain_ids(a)
    refs = lake.catalog.load_table(a).refs()
    assert (True, False) == (older in refs, newer in refs)


def test_a_branch_that_cannot_be_adopted_is_in_the_way_of_no_other(lake):
    """It stays, and is told of when it is all that is left."""
    a = lake.table("a", [1])
    later = lake.open(apply="next")
    lake.catalog.load_table(a).delete("id = 1")
    later.repair_reject(a)
    assert [] == later.apply_le()
    _kept(lake, later, a, logged=2, theirs=99)
    later.repair_adopt(a)
    assert [] == later.apply_le()
    assert [1, 2, 99] == lake.plain_ids(a)
    with pytest.raises(txns.Unsupported, match="does more than append"):
        later.repair_adopt(a)
