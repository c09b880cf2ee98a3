"""Logs and catalogs that were lost or restored from a backup, and what a recovery makes of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import urlparse

import pytest

import txns
from tests.txns.admin.recovering import append, assert_whole, recovered, remove_newer_files, txn_ids
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import SCHEMA, ids, rows
from tests.txns.wrapped import Wrapped
from txns._admin.invariants import check_all
from txns._admin.recover import recover, recoverable
from txns._config import Config

A, B = ("shop", "a"), ("shop", "b")


def test_a_log_that_was_set_back_by_an_entry_gets_it_back(shop):
    """Its file is there, and a table shows the entry: nothing is lost."""
    restore(shop.catalog, shop.backup, [LOG])
    found = recovered(shop)
    assert [shop.last] == txn_ids(found.found.taken_back)
    assert ([], []) == (found.found.told_by_tables, found.found.gone)
    assert (A, B) == found.marked
    assert ({}, {}) == (found.left, found.broken)
    assert_whole(shop, 1, 2, 3)


def test_an_entry_of_which_only_tables_tell_counts_for_ever(shop):
    """It is in the archive then: its id does not commit again, and what is open clashes with it."""
    restore(shop.catalog, shop.backup, [LOG])
    remove_newer_files(shop.backup[LOG])
    found = recovered(shop)
    assert [shop.last] == txn_ids(found.found.told_by_tables)
    told = found.found.told_by_tables[0]
    assert {A, B} == {change.table for change in told.changes}
    assert_whole(shop, 1, 2, 3)
    with shop.open().begin(txn_id=shop.last) as again:
        again.load_table("shop.a").append(rows(3))
    assert [1, 2, 3, 9] == shop.plain_ids("shop.a")


def test_a_log_that_was_set_back_and_went_on_gets_what_tables_show(shop):
    """What was committed since stands; what was lost is told by its tables."""
    c = shop.table("c", [1])
    restore(shop.catalog, shop.backup, [LOG])
    handle = shop.open()
    shop.catalog.load_table(c)
    handle.advance(handle.upper + 1)
    handle.advance(shop.clock.now_ms() + 1000)
    found = recovered(shop)
    assert shop.last in txn_ids(found.found.told_by_tables)
    assert_whole(shop, 1, 2, 3)


@pytest.mark.parametrize("archive_is_gone", [False, True])
def test_a_log_that_was_set_back_by_a_tidy(shop, archive_is_gone):
    """The tidier has removed what it had superseded, or has not come to it yet."""
    handle = shop.open()
    before = pointers(shop.catalog)
    assert handle.tidy()
    if archive_is_gone:
        append(shop, 4)
        before_second = pointers(shop.catalog)
        assert handle.tidy()
        lists = {each.manifest_list for each in handle.parts.log.load().metadata.snapshots}
        restore(shop.catalog, before_second, [LOG])
        old = shop.another_catalog().load_table(LOG).metadata.snapshots
        for gone in {each.manifest_list for each in old} - lists:
            Path(urlparse(gone).path).unlink()
    else:
        restore(shop.catalog, before, [LOG])
    found = recovered(shop)
    assert [] == found.found.told_by_tables
    assert_whole(shop, 1, 2, 3, *([4] if archive_is_gone else []))


@pytest.mark.parametrize("way", ["dropped", "opened again", "files gone"])
def test_a_log_that_was_lost(shop, way):
    """A version that storage has is registered again; without one its tables tell of it."""
    location = shop.catalog.load_table(LOG).location()
    shop.catalog.drop_table(LOG)
    if way == "opened again":
        shop.open(shop.another_catalog())
        assert 0 == shop.open(shop.another_catalog()).upper
    if way == "files gone":
        shutil.rmtree(urlparse(location).path)
    found = recovered(shop)
    assert (shop.last in txn_ids(found.found.told_by_tables)) == (way == "files gone")
    assert_whole(shop, 1, 2, 3)


def test_who_has_seen_what_was_lost_opens_the_catalog_again(shop):
    """A process that goes on over a recovery is told, and loses nothing that it has."""
    handle, txn = shop.open(), shop.open().begin()
    txn.load_table("shop.a").append(rows(7))
    restore(shop.catalog, shop.backup)
    recovered(shop)
    with pytest.raises(txns.InvalidUsage, match="recovered since"):
        handle.catalog().load_table("shop.a")
    with pytest.raises(txns.InvalidUsage, match="recovered since"):
        txn.commit()
    assert_whole(shop, 1, 2)


def test_a_table_that_was_restored_after_a_recovery_needs_one_more(shop):
    """Its mark is of the epoch before: nobody takes it for a table of this one."""
    before = pointers(shop.catalog)
    recovered(shop)
    restore(shop.catalog, before, ["shop.a"])
    with pytest.raises(txns.CorruptLog, match="txns recover"):
        shop.open(shop.another_catalog()).catalog().load_table("shop.a")
    found = recovered(shop)
    assert {} == found.broken
    assert_whole(shop, 1, 2, 3)


class _AnswerLost(Wrapped):
    """A catalog in which swaps of a table get no answer, and arrive when somebody says so."""

    def __init__(self, catalog, table):
        super().__init__(catalog)
        self.table, self.sent = table, []

    def commit_table(self, table, requirements, updates):
        if table.name() != self.table:
            return super().commit_table(table, requirements, updates)
        self.sent.append(lambda: self.catalog.commit_table(table, requirements, updates))
        raise OSError("no answer")


def test_a_creation_that_arrives_after_a_recovery_needs_one_more(shop):
    """
    Nothing bars it: the table is refused to all, and its name taken, until a recovery brings it in.

    1. A creation is logged, and its request gets no answer. 2. The catalog is set back to before,
    and recovered: the log lacks the entry. 3. The request arrives.
    """
    created = _AnswerLost(shop.another_catalog(), ("shop", "new"))
    with shop.open(created).begin() as txn:
        txn.create_table("shop.new", schema=SCHEMA).append(rows(7))
    restore(shop.catalog, shop.backup)
    assert [txn.txn_id] == txn_ids(recovered(shop).found.unknown)
    created.sent[0]()
    handle = shop.open(shop.another_catalog())
    for meets in (
        lambda: handle.snapshot().load_table("shop.new"),
        lambda: handle.begin().load_table("shop.new"),
        lambda: handle.catalog().create_table("shop.new", SCHEMA),
        lambda: handle.catalog().drop_table("shop.new"),
    ):
        with pytest.raises(txns.CorruptLog, match="txns recover"):
            meets()
    assert {"shop.new"} == {each.where for each in check_all(handle.parts).violations}
    found = recovered(shop)
    assert [txn.txn_id] == txn_ids(found.found.told_by_tables)
    assert ({}, {}) == (found.left, found.broken)
    handle = shop.open(shop.another_catalog())
    assert [7] == ids(handle.snapshot().load_table("shop.new")) == shop.plain_ids("shop.new")
    assert_whole(shop, 1, 2)


def test_the_file_that_the_catalog_names_is_gone(shop):
    """A backup of three days ago names a version that was removed since."""
    pointed = Path(urlparse(pointers(shop.catalog)[LOG]).path)
    pointed.unlink()
    with pytest.raises(FileNotFoundError):
        shop.open(shop.another_catalog()).catalog().load_table("shop.a")
    found = recovered(shop)
    assert shop.last in txn_ids(found.found.told_by_tables)
    assert_whole(shop, 1, 2, 3)


def test_a_table_that_is_created_after_a_recovery_belongs_to_it(shop):
    """Its payload has the mark of the epoch in which it was logged."""
    with shop.open(apply="next").begin() as txn:
        txn.create_table("shop.new", schema=shop.catalog.load_table("shop.a").schema())
        txn.load_table("shop.new").append(rows(7))
    recovered(shop)
    handle = shop.open(shop.another_catalog())
    assert [] == handle.apply_le()
    assert [7] == ids(handle.snapshot().load_table("shop.new"))
    handle.catalog().load_table("shop.new").append(rows(8))
    assert [7, 8] == shop.plain_ids("shop.new")


def test_a_dry_run_tells_of_a_log_that_was_lost(shop):
    shop.catalog.drop_table(LOG)
    dry = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    assert (True, False) == (bool(dry.begun.registered), shop.catalog.table_exists(LOG))
    assert [] == [*dry.found.gone, *dry.found.unknown, *dry.found.told_by_tables]


def test_a_dry_run_writes_nothing(shop):
    """It says what it has found."""
    restore(shop.catalog, shop.backup, [LOG])
    before = pointers(shop.catalog), shop.files()
    found = recoverable(shop.another_catalog(), Config.of(), shop.clock, forward=False)
    assert [shop.last] == txn_ids(found.found.taken_back)
    assert before == (pointers(shop.catalog), shop.files())


def test_a_table_that_pyiceberg_cannot_write_is_left_with_the_command(shop):
    """Of format 3, for example: Spark brings it into the epoch, with the command that is told."""
    path = Path(urlparse(pointers(shop.catalog)["shop.b"]).path)
    stored = json.loads(path.read_text("utf-8"))
    stored |= {"format-version": 3, "next-row-id": 9}
    path.write_text(json.dumps(stored), "utf-8")
    found = recovered(shop)
    assert (A,) == found.marked
    assert "CALL system.repair(table => 'shop.b', action => 'recover')" in found.left[B]


def test_a_log_that_cannot_be_read_is_told_before_a_table_is_marked(shop):
    """Marks of an epoch that the log does not begin would keep everybody from the tables."""
    path = Path(urlparse(pointers(shop.catalog)[LOG]).path)
    text = path.read_text("utf-8")
    path.write_text(text.replace('"txns.kind":"commit"', '"txns.kind":"merge"'), "utf-8")
    before = pointers(shop.catalog)
    with pytest.raises(txns.CorruptLog, match="recover --void"):
        recovered(shop)
    assert before == pointers(shop.catalog)


def test_what_is_applied_after_a_recovery_belongs_to_its_epoch(shop):
    """A table that is made then is marked with the log as it is, not as it was when logged."""
    with shop.open(apply="next").begin() as txn:
        txn.create_table("shop.late", SCHEMA).append(rows(8))
    assert not shop.catalog.table_exists("shop.late")
    found = recovered(shop)
    assert ({}, {}) == (found.left, found.broken)
    handle = shop.open(shop.another_catalog())
    assert [8] == ids(handle.snapshot().load_table("shop.late")) == shop.plain_ids("shop.late")
    assert [] == check_all(handle.parts).violations


def test_a_table_that_could_not_be_read_in_a_recovery(shop):
    """It shows an entry of which other tables have told: the next recovery takes it in as well."""
    folder = Path(urlparse(shop.catalog.load_table(LOG).location()).path)
    shop.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    path = Path(urlparse(pointers(shop.catalog)["shop.b"]).path)
    path.rename(path.with_suffix(".away"))
    assert (A,) == (found := recovered(shop)).marked
    assert B in found.left
    path.with_suffix(".away").rename(path)
    found = recovered(shop)
    assert ({}, {}) == (found.left, found.broken)
    assert shop.last in txn_ids(found.found.told_by_tables)
    assert_whole(shop, 1, 2, 3)
    assert [] == txn_ids(recovered(shop).found.told_by_tables)


@pytest.mark.parametrize("times", [1, None])
def test_a_table_that_cannot_be_read_after_it_was_marked(shop, times):
    """
    What it shows is looked for again: the epoch does not begin without it, nor below it.

    1. A recovery has read and marked all tables of a log that is lost. 2. It looks once more, and
    the catalog fails for one of them, once or (None) for as long as it runs.
    """
    folder = Path(urlparse(shop.catalog.load_table(LOG).location()).path)
    shop.catalog.drop_table(LOG)
    shutil.rmtree(folder)
    failing = shop.another_catalog()
    load, commit, marks, failed = failing.load_table, failing.commit_table, [], []

    def commit_table(table, *args):
        done = commit(table, *args)
        marks.extend([table.name()] if table.name() in {A, B} else [])
        return done

    def load_table(name):
        if len(marks) == 2 and name == B and (times is None or len(failed) < times):
            failed.append(name)
            raise OSError("the catalog failed")
        return load(name)

    failing.commit_table, failing.load_table = commit_table, load_table
    if times is None:
        with pytest.raises(txns.Conflict, match=r"the catalog failed.*run this again"):
            recover(failing, Config.of(), shop.clock)
        assert 0 == shop.open(shop.another_catalog()).upper
        found = recovered(shop)
    else:
        found = recover(failing, Config.of(), shop.clock)
    assert failed
    assert ({}, {}) == (found.left, found.broken)
    assert {A, B} == {each.table for told in found.found.told_by_tables for each in told.changes}
    assert_whole(shop, 1, 2, 3)
