"""Logs that lack what their tables show: restored from a backup, or lost (docs/spec.md 9.6)."""

from __future__ import annotations

import pytest

import txns
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import ids, rows


@pytest.fixture
def lake_set_back(lake):
    """Give the lake, whose log lacks that 2 was appended to a; and b, which knows nothing of it."""
    a, _ = lake.table("a", [1]), lake.table("b", [7])
    backup = pointers(lake.catalog)
    lake.open().catalog().load_table(a).append(rows(2))
    restore(lake.catalog, backup, [LOG])

    return lake


def test_an_entry_that_the_log_lacks_is_told_at_the_first_statement(lake_set_back):
    """Whether it reads or writes; tables that show nothing of it go on."""
    handle = lake_set_back.open()
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        handle.catalog().load_table("shop.a")
    with pytest.raises(txns.CorruptLog, match="txns recover"), handle.begin() as txn:
        txn.load_table("shop.a").append(rows(3))
    handle.catalog().load_table("shop.b").append(rows(8))
    assert [7, 8] == ids(handle.catalog().load_table("shop.b"))


@pytest.mark.parametrize("tidied", [False, True])
def test_it_stays_told_when_the_log_has_gone_past_it(lake_set_back, tidied):
    """
    A greater upper hides what is missing.

    1. 2 is appended to a, and the log is set back to before that.
    2. b is written: the log's upper is above what a shows as applied.
    3. a was read as if nothing was missing, and an id of before could commit twice.
    """
    handle = lake_set_back.open()
    handle.catalog().load_table("shop.b").append(rows(8))
    if tidied:
        assert handle.tidy()
        handle = lake_set_back.open()
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        handle.catalog().load_table("shop.a")


def test_it_is_told_whatever_a_later_archive_has(lake_set_back):
    """
    What was written since stands for nothing that was lost before.

    1. The log has gone on; somebody loads the head, and a.
    2. a is restored as well, and written; that leaves the head. 3. The archive is read.
    """
    writer = lake_set_back.open()
    writer.catalog().load_table("shop.b").append(rows(8))
    assert writer.tidy()
    reader = lake_set_back.open(lake_set_back.another_catalog())
    head, table = reader.parts.log.load(), reader.parts.catalog.load_table("shop.a")
    before = table.metadata.metadata_log[-1].metadata_file
    restore(lake_set_back.catalog, {"shop.a": before})
    lake_set_back.open().catalog().load_table("shop.a").append(rows(3))
    assert writer.tidy()
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        reader.parts.tables.live(("shop", "a"), table, head)
    assert [1, 3] == ids(reader.snapshot().load_table("shop.a"))


def test_another_entry_in_its_place_does_not_stand_for_it(lake_set_back):
    """The `commit_ts` alone does not tell: a log that goes on may come to the same one."""
    applied = int(lake_set_back.catalog.load_table("shop.a").properties["txns.applied"])
    handle = lake_set_back.open()
    handle.advance(applied)
    assert applied == handle.upper
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        handle.catalog().load_table("shop.a")
    assert handle.tidy()
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        lake_set_back.open().catalog().load_table("shop.a")


def test_a_log_that_was_lost_is_told(lake):
    """Nobody makes another one in its place without a word: marks name the log that they mean."""
    a = lake.table("a", [1])
    lake.catalog.drop_table("txns.commits")
    handle = lake.open()
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        handle.catalog().load_table(a)
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        handle.register(a)
