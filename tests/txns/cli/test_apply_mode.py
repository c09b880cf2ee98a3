"""By which way a process carries out what it commits, and how that is told."""

from __future__ import annotations

import json

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog

import txns
from tests.txns.lake import rows
from txns._admin.apply_mode import apply_mode


class Audited(SqlCatalog):
    """Somebody's own, which does more at a commit than the row says."""

    def commit_table(self, *args):
        return super().commit_table(*args)


def _mode(handle: txns.Handle) -> str:
    return apply_mode(handle.parts, handle.parts.log.load()).name


def _left_to_apply(handle: txns.Handle, table: str) -> int:
    """Commit a row, and give for how many tables an applier is needed."""
    with handle.begin() as txn:
        txn.load_table(table).append(rows(7))
    return len(handle.parts.log.load().state.entries[-1].carried)


def test_a_file_of_sqlite_moves_all_at_once(lake):
    a = lake.table("a", [1])
    handle = txns.open(lake.catalog, clock=lake.clock)
    assert "atomic" == _mode(handle)
    assert 0 == _left_to_apply(handle, a)


@pytest.mark.parametrize("given", ["auto", "next"])
def test_what_the_log_leaves_to_the_next_writer_is_left(lake, given):
    a = lake.table("a", [1])
    lake.open().change_settings(apply="next")
    handle = txns.open(lake.catalog, clock=lake.clock, apply=given)
    assert "next" == _mode(handle)
    assert 1 == _left_to_apply(handle, a)
    assert [1] == lake.plain_ids(a)


def test_who_is_told_to_moves_all_at_once_though_the_log_leaves_it(lake):
    a = lake.table("a", [1])
    lake.open().change_settings(apply="next")
    handle = txns.open(lake.catalog, clock=lake.clock, apply="atomic")
    assert "atomic" == _mode(handle)
    assert 0 == _left_to_apply(handle, a)


@pytest.mark.parametrize("given", ["inline", "next"])
def test_who_is_not_told_to_moves_one_table_at_a_time(lake, given):
    a = lake.table("a", [1])
    handle = txns.open(lake.catalog, clock=lake.clock, apply=given)
    assert "inline" == _mode(handle)
    assert 1 == _left_to_apply(handle, a)


def test_a_database_in_memory_moves_one_table_at_a_time(tmp_path):
    handle = txns.open(InMemoryCatalog("memory", warehouse=f"file://{tmp_path}"), apply="auto")
    assert "inline" == _mode(handle)


def test_what_a_catalog_of_ones_own_does_at_a_commit_is_done(lake):
    uri, warehouse = lake.catalog.properties["uri"], lake.catalog.properties["warehouse"]
    catalog = Audited("lake", uri=uri, warehouse=warehouse)
    a = lake.table("a", [1])
    handle = txns.open(catalog, clock=lake.clock, apply="auto")
    assert "inline" == _mode(handle)
    assert 1 == _left_to_apply(handle, a)


@pytest.mark.parametrize("name", ["commit_table", "load_table"])
def test_what_one_catalog_does_in_its_own_way_is_done(lake, name):
    """Somebody has put another function in its place, of this object alone."""
    a = lake.table("a", [1])
    catalog, seen = lake.another_catalog(), []
    plain = getattr(catalog, name)

    def own(*args):
        seen.append(args)
        return plain(*args)

    setattr(catalog, name, own)
    handle = txns.open(catalog, clock=lake.clock, apply="auto")
    assert "inline" == _mode(handle)
    seen.clear()
    assert 1 == _left_to_apply(handle, a)
    assert [] != seen


def test_status_says_which_and_why(cli, shop):
    assert "apply        atomic: the tables are rows of one database" in cli("status").stdout
    assert "atomic" == json.loads(cli("status", "--json").stdout)["apply"]["mode"]
    shop.open().change_settings(apply="next")
    assert "apply        next: the log leaves it to the next writer" in cli("status").stdout
