"""Entries of two lines at one commit_ts: where they go, and what becomes of their tables."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlparse

import pytest

import txns
from tests.txns.admin.recovering import append, assert_whole, recovered, remove_newer_files, txn_ids
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import SCHEMA, ids, rows
from txns._admin.invariants import check_all
from txns._admin.recover import recover, recoverable
from txns._config import Config
from txns._log.change import Operation

A, B = ("shop", "a"), ("shop", "b")


def _gone_on_two_ways(lake, *, deed, least_ts=()) -> int:
    """Lose what a deed commits, and let the log have another entry at a `commit_ts` of it."""
    backup = pointers(lake.catalog)
    deed()
    lost_ts = min(least_ts, default=lake.open().upper)
    restore(lake.catalog, backup, [LOG])
    remove_newer_files(backup[LOG])
    lake.open(lake.another_catalog()).advance(lost_ts)
    return lost_ts


def test_two_entries_at_one_commit_ts(shop):
    """The log's stands there, and the tables' moves: no command ended that before."""
    with shop.open().begin(txn_id="mine") as txn:
        txn.load_table("shop.b").append(rows(4))
    backup, ours = pointers(shop.catalog), []
    lost_ts = _gone_on_two_ways(shop, deed=lambda: ours.append(append(shop, 5)))
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = recovered(shop)
    for each in (dry, found):
        assert ours == txn_ids(each.found.told_by_tables)
    assert ({}, {}) == (found.left, found.broken)
    assert lost_ts < found.found.told_by_tables[0].commit_ts == found.found.upper
    assert backup[LOG] != pointers(shop.catalog)[LOG]
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 5] == ids(handle.snapshot().load_table("shop.a"))
    with handle.begin(txn_id=ours[0]) as again:
        again.load_table("shop.a").append(rows(5))
    assert [1, 2, 3, 5] == shop.plain_ids("shop.a")
    assert [] == check_all(handle.parts).violations
    handle.catalog().load_table("shop.a").append(rows(9))
    assert handle.tidy()
    assert [] == txn_ids(recovered(shop).found.told_by_tables)
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 5, 9] == ids(handle.snapshot().load_table("shop.a"))
    assert [1, 2, 3, 4, 5] == ids(handle.snapshot().load_table("shop.b"))
    assert [] == check_all(handle.parts).violations


def test_an_entry_moves_past_what_its_tables_show_after_it(shop):
    """They have all of it then: they were set back, to whoever looked, by what had moved alone."""
    lost_ts = []

    def twice():
        append(shop, 5)
        lost_ts.append(shop.open().upper)
        append(shop, 6)

    _gone_on_two_ways(shop, deed=twice, least_ts=lost_ts)
    found = recovered(shop)
    assert ({}, {}) == (found.left, found.broken)
    assert 2 == len(found.found.told_by_tables)
    assert [] == recovered(shop).found.told_by_tables
    assert_whole(shop, 1, 2, 3, 5, 6)


def test_what_an_entry_did_is_delivered_where_it_has_moved_to(shop):
    """The archive has its own change: a footing's has the same rows as before, and no others."""
    before, lost_ts, wrote = shop.open().upper, [], {}

    def twice():
        wrote[append(shop, 5)] = [5]
        lost_ts.append(shop.open().upper)
        wrote[append(shop, 6)] = [6]

    _gone_on_two_ways(shop, deed=twice, least_ts=lost_ts)
    told = recovered(shop).found.told_by_tables
    assert wrote.keys() == set(txn_ids(told))
    changes = [change for each in told for change in each.changes]
    assert [(Operation.APPEND, 1)] * 4 == [(one.operation, one.added_records) for one in changes]
    handle = shop.open(shop.another_catalog())
    feed = handle.subscribe([A], as_of=before, until=handle.upper)
    delivered = {
        each.txn_id: one.appended["id"].to_pylist() for each in feed for one in each.tables
    }
    assert wrote == delivered
    assert [] == check_all(handle.parts).violations


def test_an_entry_that_has_moved_is_told_once_when_its_log_is_lost(shop):
    """Its tables show it at both timestamps."""
    ours = []
    _gone_on_two_ways(shop, deed=lambda: ours.append(append(shop, 5)))
    recovered(shop)
    folder = Path(urlparse(shop.catalog.load_table(LOG).location()).path)
    shop.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    found = recovered(shop)
    assert ({}, {}) == (found.left, found.broken)
    assert ours == [each for each in txn_ids(found.found.told_by_tables) if each in ours]
    assert_whole(shop, 1, 2, 3, 5)


def test_a_drop_at_the_commit_ts_of_another_entry(shop):
    """It moves as a drop."""
    _gone_on_two_ways(shop, deed=lambda: shop.open().catalog().drop_table("shop.a"))
    assert ({}, {}) == ((found := recovered(shop)).left, found.broken)
    catalog = shop.open(shop.another_catalog()).catalog()
    assert not catalog.table_exists("shop.a")
    catalog.create_table("shop.a", SCHEMA).append(rows(6))
    assert [6] == ids(catalog.load_table("shop.a"))


def test_what_a_stranger_wrote_on_an_entry_that_is_to_move(shop):
    """It would become the log's: it is set aside first, with the command that is told."""
    _gone_on_two_ways(shop, deed=lambda: append(shop, 5))
    table = shop.catalog.load_table("shop.a")
    last = table.metadata.current_snapshot_id
    table.append(rows(66))
    found = recovered(shop)
    assert (B,) == found.marked
    assert f"last=`{last}`" in found.left[A]
    table = shop.catalog.load_table("shop.a")
    table.manage_snapshots().rollback_to_snapshot(last).commit()
    assert ({}, {}) == ((found := recovered(shop)).left, found.broken)
    assert [] == found.found.passed_over
    assert_whole(shop, 1, 2, 3, 5)


def test_a_recovery_that_died_while_entries_moved(shop):
    """The next one puts each table's where the first has put it."""
    _gone_on_two_ways(shop, deed=lambda: append(shop, 5))
    dying = shop.another_catalog()
    commits, commit = [], dying.commit_table

    def once(*args):
        if commits:
            raise KeyboardInterrupt
        commits.append(args)
        return commit(*args)

    dying.commit_table = once
    with pytest.raises(KeyboardInterrupt):
        recover(dying, Config.of(), shop.clock)
    found = recovered(shop)
    assert ({}, {}) == (found.left, found.broken)
    [told] = found.found.told_by_tables
    assert {A, B} == {change.table for change in told.changes}
    assert_whole(shop, 1, 2, 3, 5)


@pytest.mark.parametrize("ahead_ms", [0, 60_000, None])
def test_a_table_that_shows_another_entry_than_the_log_went_on_with(shop, ahead_ms, monkeypatch):
    """
    Nothing is written over what it shows, and what the log has for it is named, and given up.

    1. A transaction that has read `a` is open; another one writes `a`. 2. The log is set back to
    before that, and the open one commits, above it, below or (None) at the same `commit_ts`, by its
    clock. 3. It is recovered.
    """
    backup = pointers(shop.catalog)
    late = shop.open(shop.another_catalog()).begin()
    late.load_table("shop.a").overwrite(rows(5))
    late.load_table("shop.b").append(rows(5))
    shop.clock.ahead_ms += ahead_ms or 0
    with shop.open().begin() as txn:
        txn.load_table("shop.a").append(rows(6))
    shop.clock.ahead_ms -= ahead_ms or 0
    lost_ts = shop.open().upper
    restore(shop.catalog, backup, [LOG])
    remove_newer_files(backup[LOG])
    with monkeypatch.context() as patched:
        if ahead_ms is None:
            patched.setattr(type(shop.clock), "now_ms", lambda _clock: lost_ts)
        late.commit()
    late_ts = shop.open(shop.another_catalog()).upper
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = recovered(shop)
    for each in (dry, found):
        assert [late.txn_id] == txn_ids(each.found.passed_over)
        assert [A] == [change.table for change in each.found.passed_over[0].changes]
    assert ({}, {}) == (found.left, found.broken)
    handle = shop.open(shop.another_catalog())
    assert [1, 2, 3, 6] == ids(handle.snapshot().load_table("shop.a"))
    assert [1, 2, 3, 5] == ids(handle.snapshot().load_table("shop.b"))
    with pytest.raises(txns.Conflict, match="too old"):
        handle.snapshot(read_ts=late_ts).load_table("shop.a")
    assert [] == check_all(handle.parts).violations
    handle.catalog().load_table("shop.a").append(rows(7))
    assert handle.tidy()
    assert [] == recovered(shop).found.passed_over
    assert [1, 2, 3, 6, 7] == shop.plain_ids("shop.a")
    assert [] == check_all(shop.open(shop.another_catalog()).parts).violations


def test_what_a_log_left_behind_that_has_gone_on_is_named(shop):
    """No table shows it, and its files are there; what was about to be committed is unknown."""
    append(shop, 4, apply="next")  # which the log is set to before
    append(shop, 4, apply="inline")
    backup = pointers(shop.catalog)
    lost = [append(shop, value, apply="next") for value in (4, 5)]
    restore(shop.catalog, backup, [LOG])
    handle = shop.open(shop.another_catalog())
    handle.advance(shop.clock.now_ms())
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    found = recovered(shop)
    for each in (dry, found):
        assert lost[:1] == txn_ids(each.found.gone)
        assert lost[1:] == txn_ids(each.found.unknown)
    again = recovered(shop).found
    assert ([], []) == (again.gone, again.unknown)
    assert_whole(shop, 1, 2, 3, 4, 4)


def test_a_catalog_that_is_set_back_again_and_again_names_all_that_is_gone(shop):
    """The only one of its epoch, too, beside which a recovery stands, as beside a lost swap."""
    restore(shop.catalog, shop.backup)
    lost = [shop.last]
    for count in (2, 2):
        recovered(shop)
        lost += [append(shop, value) for value in range(count)]
        restore(shop.catalog, shop.backup)
    found = recovered(shop).found
    assert sorted(lost) == sorted(txn_ids([*found.gone, *found.unknown]))
    assert_whole(shop, 1, 2)
