"""Names of views: a catalog gives a name to a table or to a view, the log does not ask it."""

from __future__ import annotations

import sqlite3

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, TableAlreadyExistsError

from tests.txns.lake import SCHEMA, ids, rows

V = "shop.v"


@pytest.fixture
def with_view(lake):
    """A catalog whose database has a view, as Iceberg's Java writes it."""
    place = f"sqlite:///{lake.folder}/catalog.db?timeout=30"
    options = {"uri": place, "warehouse": f"file://{lake.folder}/warehouse"}
    catalog = SqlCatalog("lake", **options, **{"schema_version": "v1"})
    if catalog._schema_version != "v1":
        pytest.skip("this catalog's tables have no types")
    with sqlite3.connect(f"{lake.folder}/catalog.db") as database:
        database.execute(
            "insert into iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location, iceberg_type) values ('lake', 'shop', 'v', 'file:///v', 'VIEW')"
        )
    return catalog


@pytest.mark.parametrize("explicit", [True, False])
def test_no_table_is_logged_under_a_views_name(lake, with_view, explicit):
    """It would never be applied: the catalog refuses to create it."""
    handle = lake.open(with_view)
    with pytest.raises(TableAlreadyExistsError, match="View with same name"):
        if explicit:
            with handle.begin() as txn:
                txn.create_table(V, SCHEMA)
        else:
            handle.catalog().create_table(V, SCHEMA)
    handle.catalog().create_table("shop.w", SCHEMA).append(rows(1))
    assert [1] == ids(handle.catalog().load_table("shop.w"))
    assert handle.tidy() > 0


class _NoSqlCatalog:
    """What no catalog is: pyiceberg's SQL catalog is asked otherwise."""


class _Views:
    """A catalog's views: one that has them, and one that does not say."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def __call__(self, identifier):
        if isinstance(self.answer, Exception):
            raise self.answer
        return tuple(identifier) == ("shop", "v") and self.answer


@pytest.mark.parametrize(
    ("answer", "taken"),
    [(True, True), (False, False), (NotImplementedError(), False), (ForbiddenError(), False)],
    ids=["a view", "none", "no views", "not for us"],
)
def test_a_catalog_that_knows_views_is_asked(lake, monkeypatch, answer, taken):
    monkeypatch.setattr("txns._iceberg.new_table.SqlCatalog", _NoSqlCatalog)
    catalog = lake.another_catalog()
    catalog.view_exists = _Views(answer)
    create = lake.open(catalog).catalog().create_table
    if taken:
        with pytest.raises(TableAlreadyExistsError):
            create(V, SCHEMA)
    else:
        create(V, SCHEMA)


@pytest.mark.parametrize("deed", ["create_view", "register_view"])
def test_no_view_takes_a_name_that_the_log_has_given(lake, monkeypatch, deed):
    """The catalog does not have the table yet."""
    waiting = lake.open(apply="next").catalog()
    waiting.create_table(V, SCHEMA)
    plain = lake.another_catalog()
    made = []
    monkeypatch.setattr(plain, deed, lambda *given: made.append(given))
    catalog = lake.open(plain).catalog()
    with pytest.raises(TableAlreadyExistsError):
        getattr(catalog, deed)(V, "file:///v")
    getattr(catalog, deed)("shop.other", "file:///v")
    assert [("shop.other", "file:///v")] == made
