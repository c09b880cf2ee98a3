"""Tables on a catalog that does not tell letters apart, written under names of other letters."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from tests.txns.lake import SCHEMA, ids, rows
from txns.errors import Conflict, Unsupported


@pytest.fixture
def folding(lake, monkeypatch):
    """Give a catalog of the lake in which names are those in small letters."""
    catalog = lake.another_catalog()
    load, write, parts = catalog.load_table, catalog.commit_table, catalog.identifier_to_tuple

    def commit_table(table, *of):
        small = tuple(part.lower() for part in table.name())
        given = Table(small, table.metadata, table.metadata_location, table.io, catalog)
        return write(given, *of)

    monkeypatch.setattr(catalog, "commit_table", commit_table)
    monkeypatch.setattr(
        catalog,
        "load_table",
        lambda name: load(".".join(parts(name)).lower()),
    )
    return catalog


def test_a_subscriber_gets_what_was_written_under_other_letters(lake, folding):
    """The entry has the writer's letters; the table is the one that is subscribed."""
    lake.table("a", [1])
    handle = lake.open(folding)
    before = handle.upper
    with handle.begin() as txn:
        txn.load_table("shop.A").append(rows(2))
    found = list(handle.subscribe([("shop", "a")], as_of=before, until=handle.upper))
    appended = [table.appended["id"].to_pylist() for each in found for table in each.tables]
    assert [[2]] == appended
    assert {("shop", "a")} == {table.table for each in found for table in each.tables}


def test_a_wait_ends_by_what_was_written_under_other_letters(lake, folding):
    """Another table's letters, where the catalog tells them apart, end none."""
    lake.table("a", [1])
    handle = lake.open(folding)
    before = handle.upper
    with handle.begin() as txn:
        txn.load_table("shop.A").append(rows(2))
    assert handle.wait("shop.a", before, timeout_ms=0) == handle.upper
    assert lake.open().wait("shop.B", before, timeout_ms=0) is None


@pytest.mark.parametrize("tidied", [False, True])
def test_a_table_that_was_dropped_under_other_letters_is_not_listed(lake, folding, tidied):
    """Catalogs list their own letters, the log those of who dropped it."""
    lake.table("a", [1])
    lake.table("b", [1])
    handle = lake.open(folding)
    handle.catalog().drop_table("shop.A")
    if tidied:
        assert handle.tidy()
    assert [("shop", "b")] == handle.catalog().list_tables("shop")


def test_a_transaction_lists_a_table_once_and_not_after_it_dropped_it(lake, folding):
    """Under whatever letters it writes and drops it."""
    lake.table("a", [1])
    lake.table("b", [1])
    with lake.open(folding).begin() as txn:
        txn.load_table("shop.A").append(rows(2))
        assert {("shop", "a"), ("shop", "b")} == set(txn.list_tables("shop"))
        txn.drop_table("shop.A")
        assert [("shop", "b")] == txn.list_tables("shop")


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_what_comes_under_care_meanwhile_is_written_under_other_letters(lake, folding, isolation):
    """Whoever registers a table takes nothing from who found it as it is, whatever the letters."""
    lake.table("a", [1], register=False)
    with lake.open(folding, register="all").begin(isolation=isolation) as txn:
        lake.open().register("shop.a")
        assert [("shop", "a")] == txn.list_tables("shop")
        txn.load_table("shop.A").overwrite(rows(2))
    assert [2] == lake.plain_ids("shop.a")


@pytest.mark.parametrize("other", ["shop.A", " shop.a"])
def test_a_transaction_knows_a_table_by_each_of_its_names(lake, folding, other):
    """It reads what it has written under other letters, or blanks, and commits one change."""
    lake.table("a", [1])
    handle = lake.open(folding)
    with handle.begin() as txn:
        txn.load_table("shop.a").append(rows(2))
        assert ids(txn.load_table(other)) == [1, 2]
        txn.load_table(other).append(rows(3))
        assert ids(txn.load_table("shop.a")) == [1, 2, 3]
    assert lake.plain_ids("shop.a") == [1, 2, 3]
    assert txn.tables == (("shop", "a"),)


def test_a_table_that_a_transaction_drops_is_gone_under_each_of_its_names(lake, folding):
    """It may be made again under the other one; a savepoint brings the first one back."""
    lake.table("a", [1])
    handle = lake.open(folding)
    with handle.begin() as txn:
        txn.savepoint("before")
        txn.drop_table("shop.A")
        assert not txn.table_exists("shop.a")
        with pytest.raises(NoSuchTableError):
            txn.load_table("shop.a")
        txn.rollback_to("before")
        assert ids(txn.load_table("shop.a")) == [1]
        txn.drop_table("shop.a")
        txn.create_table("shop.A", rows(1).schema).append(rows(7))
        assert ids(txn.load_table("shop.a")) == [7]
    assert lake.plain_ids("shop.a") == [7]


def test_two_tables_with_one_uuid_are_not_one(lake):
    """A table that somebody has registered a second time goes its own way."""
    table = lake.table("a", [1], register=False)
    location = lake.catalog.load_table(table).metadata_location
    lake.catalog.register_table("shop.b", location)
    lake.catalog.load_table("shop.b").append(rows(2))
    with lake.open(register="none").begin() as txn:
        assert ids(txn.load_table("shop.a")) == [1]
        assert ids(txn.load_table("shop.b")) == [1, 2]


def test_a_table_whose_registration_failed_is_loaded_by_another_name(lake, folding, monkeypatch):
    """What failed under the first name is tried again under the second."""
    lake.table("a", [1], register=False)
    txn = lake.open(folding, register="all").begin()
    registrar, real = txn.parts.registrar, txn.parts.registrar.register

    def fails(_table):
        raise OSError("no answer")

    monkeypatch.setattr(registrar, "register", fails)
    with pytest.raises(OSError, match="no answer"):
        txn.load_table("shop.a")
    monkeypatch.setattr(registrar, "register", real)
    assert ids(txn.load_table("shop.A")) == [1]


@pytest.mark.parametrize("dropped", [False, True])
def test_a_transaction_creates_no_two_tables_whose_names_differ_in_letters_alone(
    lake, folding, dropped
):
    """Only the catalog knows whether they are one; the second one would never be carried out."""
    handle = lake.open(folding)
    if dropped:  # and is created again on the physical table
        lake.table("a", [1])
        handle.catalog().drop_table("shop.a")
    txn = handle.begin()
    txn.create_table("shop.A", SCHEMA).append(rows(1))
    txn.create_table_if_not_exists("shop.a", SCHEMA).append(rows(2))
    with pytest.raises(Unsupported, match="differ in letters alone"):
        txn.commit()
    assert not handle.catalog().table_exists("shop.a")


@pytest.mark.parametrize("folds", [True, False])
def test_a_new_table_of_the_log_is_created_before_one_of_other_letters(lake, folding, folds):
    """Where the catalog folds letters there is that one then, and no second one."""
    catalog = folding if folds else lake.catalog
    writer = lake.open(catalog, apply="next")
    writer.catalog().create_table("shop.T", SCHEMA).append(rows(1))
    txn = lake.open(catalog, apply="next").begin()
    txn.create_table("shop.t", SCHEMA).append(rows(2))
    if folds:
        with pytest.raises(Conflict, match="was created"):
            txn.commit()
    else:
        txn.commit()
    assert ids(writer.catalog().load_table("shop.T")) == [1]
    assert ids(writer.catalog().load_table("shop.t")) == [1 if folds else 2]


@pytest.mark.parametrize("created", [False, True])
def test_what_is_not_logged_takes_no_name_that_may_be_a_new_table_s(lake, created):
    """Only the catalog knows whether it is; where it has the other one, it tells."""
    lake.table("a", [1], register=False)
    writer = lake.open(apply="next")
    writer.catalog().create_table("shop.T", SCHEMA)
    catalog = lake.open().catalog()
    with pytest.raises(Unsupported, match="differs in letters alone"):
        catalog.rename_table("shop.a", "shop.t")
    if created:
        assert not writer.apply_le()
        catalog.rename_table("shop.a", "shop.t")
    assert lake.catalog.table_exists("shop.t") == created


def test_a_transaction_knows_a_table_by_a_namespace_whose_levels_are_joined(lake):
    """As SQL catalogs know it."""
    lake.catalog.create_namespace("a.b")
    lake.catalog.create_table("a.b.t", SCHEMA)
    handle = lake.open()
    handle.register("a.b.t")
    with handle.begin() as txn:
        txn.load_table("a.b.t").append(rows(1))
        txn.load_table(("a.b", "t")).append(rows(2))
        assert ids(txn.load_table("a.b.t")) == [1, 2]
    assert lake.plain_ids("a.b.t") == [1, 2]


def test_blanks_about_a_namespace_that_is_listed_are_none_of_it(lake):
    """What a transaction has created is listed, and what others create clashes."""
    lake.table("a", [1])
    handle = lake.open()
    txn = handle.begin(isolation="serializable")
    txn.create_table("shop.x", SCHEMA)
    assert set(txn.list_tables(" shop ")) == {("shop", "a"), ("shop", "x")}
    handle.catalog().create_table("shop.y", SCHEMA)
    with pytest.raises(Conflict, match="namespace that it listed"):
        txn.commit()
