"""Tables that left care shortly before the log was lost, or set back."""

from __future__ import annotations

import shutil
from urllib.parse import urlparse

import pytest

from tests.txns.admin.recovering import recovered, remove_newer_files
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import ids, rows
from txns._admin.invariants import check_all
from txns._log.entry import Kind

A, B = ("shop", "a"), ("shop", "b")


def test_a_forget_that_the_log_has_lost(shop):
    """The table is its owner's; who registers it again, below what it shows, breaks no order."""
    backup = pointers(shop.catalog)
    shop.clock.ahead_ms += 1000
    shop.open().forget("shop.a")
    restore(shop.catalog, backup, [LOG])
    remove_newer_files(backup[LOG])
    assert (B,) == recovered(shop).marked
    shop.catalog.load_table("shop.a").append(rows(7))
    shop.clock.ahead_ms -= 1000
    handle = shop.open(shop.another_catalog())
    handle.register("shop.a")
    handle.catalog().load_table("shop.a").append(rows(8))
    assert [1, 2, 3, 7, 8] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations


def test_a_table_that_comes_into_care_again_before_its_forget_is_missed(shop):
    """Its mark stands at a time of what the head has: that is read as it was when it came back."""
    backup = pointers(shop.catalog)
    shop.clock.ahead_ms += 1000
    shop.open().forget("shop.a")
    restore(shop.catalog, backup, [LOG])
    remove_newer_files(backup[LOG])
    shop.catalog.load_table("shop.a").append(rows(7))
    shop.open(shop.another_catalog()).register("shop.a")
    assert ({}, {}) == (recovered(shop).left, recovered(shop).broken)
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 7] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations


@pytest.mark.parametrize("way", ["set back", "lost"])
def test_a_forget_of_which_the_table_tells_is_archived(shop, way):
    """Its files show who took the mark, so what it was before is read as of then."""
    handle = shop.open(shop.another_catalog())
    before, backup = handle.snapshot().read_ts, pointers(shop.catalog)
    location = shop.catalog.load_table(LOG).location()
    shop.clock.ahead_ms += 600_000  # no matter by which clock
    handle.forget("shop.a")
    shop.clock.ahead_ms -= 600_000
    [*_, forget] = (one for one in handle.transactions() if one["kind"] == "forget")
    shop.catalog.load_table("shop.a").append(rows(7))
    if way == "lost":
        shop.catalog.drop_table(LOG)
        shutil.rmtree(urlparse(location).path)
    else:
        restore(shop.catalog, backup, [LOG])
        remove_newer_files(backup[LOG])
    told = recovered(shop).found.told_by_tables
    assert forget["txn_id"] in [one.txn_id for one in told]
    assert [1, 2, 3] == ids(shop.open(shop.another_catalog()).snapshot(before).load_table("shop.a"))
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 7] == ids(handle.snapshot().load_table("shop.a"))
    assert [] == check_all(handle.parts).violations
    assert [] == recovered(shop).found.told_by_tables


def test_a_mark_that_a_stranger_took_is_no_forget(shop):
    """The metadata with the newest change still had it: the log has lost nothing of that kind."""
    location = shop.catalog.load_table(LOG).location()
    with shop.catalog.load_table("shop.a").transaction() as changes:
        changes.remove_properties("txns.commit-table", "txns.table-uuid")
    shop.catalog.drop_table(LOG)
    shutil.rmtree(urlparse(location).path)
    told = recovered(shop).found.told_by_tables
    assert [] == [one for one in told if one.kind is not Kind.COMMIT]
    assert all(change.table == B for one in told for change in one.changes)
