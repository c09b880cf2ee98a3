"""Which snapshot each engine takes for a time, and how it is asked."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.txns.lake import rows
from txns._admin.consistent_cut import ENGINES, Cut, cut_at, queries
from txns._admin.health import health

if TYPE_CHECKING:
    from tests.txns.lake import Lake

SPARK, TRINO, DUCKDB = ENGINES


def _table(*history: tuple[int, int], branches: tuple[tuple[int, int], ...] = ()):
    """A table with a history of (snapshot id, time in ms), and snapshots of other branches."""
    log = [SimpleNamespace(snapshot_id=at, timestamp_ms=ms) for at, ms in history]
    others = [SimpleNamespace(snapshot_id=at, timestamp_ms=ms) for at, ms in branches]
    return SimpleNamespace(snapshot_log=log, snapshots=[*log, *others])


@pytest.mark.parametrize(
    ("engine", "expected"), [(SPARK, 2), (TRINO, 2), (DUCKDB, 2)], ids=lambda value: str(value)[:24]
)
def test_the_newest_one_not_above_the_time(engine, expected):
    assert expected == engine.resolve(_table((1, 10), (2, 20), (3, 30)), 29)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [(SPARK, 2), (TRINO, 1), (DUCKDB, None)],
    ids=lambda value: str(value)[:24],
)
def test_two_of_one_moment(engine, expected):
    """Spark takes the last, Trino the first, DuckDB any of the two."""
    assert expected == engine.resolve(_table((1, 10), (2, 10)), 10)


@pytest.mark.parametrize(
    ("engine", "expected"), [(SPARK, 3), (TRINO, 2), (DUCKDB, 2)], ids=lambda value: str(value)[:24]
)
def test_a_history_that_goes_back_in_time(engine, expected):
    """A clock was put back: Spark goes by the order, the others by the time."""
    assert expected == engine.resolve(_table((1, 10), (2, 30), (3, 20)), 30)


@pytest.mark.parametrize(
    ("engine", "expected"), [(SPARK, 1), (TRINO, 1), (DUCKDB, 9)], ids=lambda value: str(value)[:24]
)
def test_a_branch(engine, expected):
    """DuckDB looks at the snapshots of all branches."""
    assert expected == engine.resolve(_table((1, 10), branches=((9, 11),)), 12)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda value: value.name)
def test_before_all_that_is_left(engine):
    assert engine.resolve(_table((1, 10)), 9) is None


def _cut(lake: Lake) -> Cut:
    lake.table("a", [1])
    with lake.open().begin() as txn:
        txn.load_table("shop.a").append(rows(2))
    parts = lake.open().parts
    found = health(parts)
    return cut_at(parts, found, found.cut_ts)


def test_duckdb_reads_a_rest_catalog_by_name(lake):
    """It attaches such catalogs; of others it is given the metadata file."""
    cut = _cut(lake)
    rest = object.__new__(RestCatalog)
    rest.name = "lake"
    parts = replace(lake.open().parts, catalog=rest)
    (by_time,) = queries(parts, cut, DUCKDB)
    (by_id,) = queries(parts, replace(cut, by_time=frozenset()), DUCKDB)
    assert by_time.startswith("SELECT * FROM lake.shop.a AT (TIMESTAMP => TIMESTAMP '20")
    at = cut.tables[0].snapshot_id
    assert f"SELECT * FROM lake.shop.a AT (VERSION => {at})" == by_id


def test_a_nested_namespace_is_one_name_but_in_spark(lake):
    cut = _cut(lake)
    nested = replace(cut.tables[0], table=("a", "b", "c"))
    cut = replace(cut, tables=(nested,), by_time=frozenset())
    parts = lake.open().parts
    at = nested.snapshot_id
    assert [f"SELECT * FROM lake.a.b.c FOR VERSION AS OF {at}"] == queries(parts, cut, SPARK)
    assert [f'SELECT * FROM lake."a.b".c FOR VERSION AS OF {at}'] == queries(parts, cut, TRINO)
