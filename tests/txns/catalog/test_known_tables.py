"""What a process knows of a SQL catalog's tables is what it would read again."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.txns.lake import MovedFiles, rows
from txns._iceberg.known_tables import known_tables, load_table


def test_a_catalog_that_nobody_uses_is_forgotten(lake):
    a = lake.table("a", [1])
    catalog = lake.another_catalog()
    handle = lake.open(catalog)
    with handle.begin() as txn:
        txn.load_table(a).append(rows(2))
    gone = weakref.ref(catalog)
    del catalog, handle, txn
    gc.collect()
    assert gone() is None


def test_what_somebody_does_to_a_table_that_he_was_given_is_his_own(lake):
    """Libraries give their own dictionaries away, which are a copy at each load."""
    name = lake.table("a", [1])
    handle = lake.open(apply="atomic")
    before = dict(lake.catalog.load_table(name).properties)
    given = handle.snapshot().load_table(name)
    given.properties.clear()
    given.metadata.refs.clear()
    assert before == handle.snapshot().load_table(name).properties
    with handle.begin() as txn:
        own = txn.load_table(name)
        own.append(rows(2))
    own.properties.clear()
    with handle.begin() as txn:
        txn.load_table(name).append(rows(3))
    now = lake.catalog.load_table(name)
    assert {**now.properties, "txns.applied": 0} == {**before, "txns.applied": 0}
    assert "main" in now.metadata.refs
    assert [1, 2, 3] == lake.plain_ids(name)


def test_files_are_read_with_what_the_catalog_has_now(lake):
    """Secrets that end are renewed in a catalog's properties."""
    name = ("shop", lake.table("a", [1]).rpartition(".")[2])
    lake.catalog.properties["s3.session-token"] = "first"
    assert "first" == load_table(lake.catalog, name).io.properties["s3.session-token"]
    lake.catalog.properties["s3.session-token"] = "second"
    assert "second" == load_table(lake.catalog, name).io.properties["s3.session-token"]


class Own(MovedFiles):
    """Somebody's files."""


class OwnFiles(SqlCatalog):
    """A catalog with a way of its own to a table's files."""

    def _load_file_io(self, properties=None, location=None) -> Own:
        assert location
        return Own({**self.properties, **(properties or {})})


def test_a_catalogs_own_way_to_files_is_taken(lake):
    name = ("shop", lake.table("a", [1]).rpartition(".")[2])
    catalog = OwnFiles("lake", **lake.catalog.properties)
    assert isinstance(load_table(catalog, name).io, Own)


@pytest.mark.parametrize("columns", [1, 1_000])
def test_wide_tables_count_for_more(lake, columns):
    """A version of a table of many columns is large, however few snapshots it has."""
    schema = pa.schema([pa.field(f"c{each}", pa.int64()) for each in range(columns)])
    table = lake.catalog.create_table("shop.wide", schema)
    known = known_tables(lake.catalog)
    for number in range(20):
        table.transaction().set_properties({"n": str(number)}).commit_transaction()
        load_table(lake.catalog, ("shop", "wide"))
    assert len(known._known) <= (20 if columns == 1 else 11)
