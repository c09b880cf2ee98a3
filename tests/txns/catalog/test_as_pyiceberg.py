"""Where pyiceberg's own suite says how a catalog behaves, so do ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
)
from pyiceberg.types import LongType

from tests.txns.lake import SCHEMA, ids, rows
from txns.errors import Unsupported

if TYPE_CHECKING:
    from tests.txns.lake import Lake
    from txns import Handle


@pytest.fixture(params=["autocommit", "transaction"])
def catalog(handle: Handle, request: pytest.FixtureRequest) -> Any:
    """Each of the two catalogs that a handle gives to write with."""
    return handle.catalog() if request.param == "autocommit" else handle.begin()


def test_a_table_needs_a_namespace(catalog: Any) -> None:
    """A name of one part is in no namespace, as in plain pyiceberg."""
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("orders", SCHEMA)


def test_a_namespace_with_tables_stays(handle: Handle, lake: Lake) -> None:
    """
    A namespace whose tables only the log knows is not empty.

    1. A table is created, and not applied: the catalog underneath has an empty namespace.
    2. Dropping the namespace would leave a table that nobody can create any more.
    """
    lake.open(apply="next").catalog().create_table("shop.orders", SCHEMA)
    assert [] == lake.catalog.list_tables("shop")

    with pytest.raises(NamespaceNotEmptyError, match="Namespace shop is not empty"):
        handle.catalog().drop_namespace("shop")

    assert [] == handle.apply_le()
    assert [("shop", "orders")] == lake.catalog.list_tables("shop")


def test_a_namespace_with_staged_tables_stays(handle: Handle, lake: Lake) -> None:
    """A transaction does not drop the namespace of a table that it creates."""
    txn = handle.begin()
    txn.create_table("shop.orders", SCHEMA)

    with pytest.raises(NamespaceNotEmptyError, match="Namespace shop is not empty"):
        txn.drop_namespace("shop")

    txn.drop_table("shop.orders")
    txn.drop_namespace("shop")
    assert not lake.catalog.namespace_exists("shop")


def test_a_lost_race_is_told_as_pyiceberg_tells_it(handle: Handle) -> None:
    """Who alters what has been altered since is told which requirement failed."""
    first = handle.catalog().create_table("shop.orders", SCHEMA)
    second = handle.catalog().load_table("shop.orders")
    with first.update_schema() as update:
        update.add_column("a", LongType())

    with (
        pytest.raises(CommitFailedException, match="current schema id has changed"),
        second.update_schema() as update,
    ):
        update.add_column("b", LongType())


def test_format_1_is_not_under_care(handle: Handle, lake: Lake) -> None:
    """A table of format 1 cannot be under care: it is created and written as a plain one."""
    properties = {"format-version": "1"}
    table = handle.catalog().create_table("shop.orders", SCHEMA, properties=properties)
    table.append(rows(1, 2))

    assert 1 == table.format_version
    assert [] == handle.registered()
    assert (
        [1, 2] == ids(handle.catalog().load_table("shop.orders")) == lake.plain_ids("shop.orders")
    )
    with pytest.raises(TableAlreadyExistsError):
        handle.catalog().create_table("shop.orders", SCHEMA, properties=properties)


def test_format_1_is_not_created_in_a_transaction(handle: Handle) -> None:
    """A transaction creates tables that come under care: format 1 is refused with the cure."""
    with pytest.raises(Unsupported, match=r"format version 1.* outside"):
        handle.begin().create_table("shop.orders", SCHEMA, properties={"format-version": 1})


def test_a_plain_table_comes_under_care_while_it_is_open(lake: Lake) -> None:
    """
    A table that was created plain through our catalog is not written past the protocol later.

    1. A handle that registers nothing creates a table.
    2. It is registered.
    3. The table object of step 1 appends: as a stranger it would need a repair.
    """
    handle = lake.open(register="none")
    table = handle.catalog().create_table("shop.orders", SCHEMA)
    handle.register("shop.orders")

    with pytest.raises(CommitFailedException, match="under care"):
        table.append(rows(1))

    handle.catalog().load_table("shop.orders").append(rows(2))
    assert [2] == ids(handle.catalog().load_table("shop.orders"))


def test_a_staged_table_stands_where_its_metadata_goes(lake: Lake) -> None:
    """The place of metadata that the user chose holds before the commit as well."""
    path = f"file://{lake.folder}/elsewhere"
    txn = lake.open(create_locations=path).begin()

    table = txn.create_table("shop.orders", SCHEMA, properties={"write.metadata.path": path})

    assert table.metadata_location.startswith(path)
