"""The commit table is nobody's data table: it is never marked, and only the protocol writes it."""

from __future__ import annotations

import pytest

import txns
from tests.txns.lake import SCHEMA, rows

OTHERS = "other.commits"


@pytest.fixture
def logs(lake):
    """Two commit tables in one catalog, each with a table of its own."""
    lake.table("a", [1])
    lake.catalog.create_table("shop.b", SCHEMA)
    lake.open(commit_table=OTHERS).register("shop.b")
    return lake


def are_readable(lake) -> bool:
    """Both logs are, to everybody."""
    mine, theirs = lake.open(), lake.open(commit_table=OTHERS)
    mine.catalog().load_table("shop.a").append(rows(2))
    theirs.catalog().load_table("shop.b").append(rows(3))
    return ([1, 2], [3]) == (lake.plain_ids("shop.a"), lake.plain_ids("shop.b"))


@pytest.mark.parametrize("name", ["txns.commits", OTHERS])
def test_a_commit_table_is_not_registered(logs, name):
    """No commit table comes under care, this handle's own or another one."""
    with pytest.raises(txns.Unsupported, match="is a commit table"):
        logs.open().register(name)
    assert are_readable(logs)


@pytest.mark.parametrize("name", ["txns.commits", OTHERS])
def test_reading_a_commit_table_leaves_it_alone(logs, name):
    """Who registers all that a transaction touches reads a commit table as it is."""
    before = logs.catalog.load_table(name).metadata_location
    with logs.open(register="all").begin() as txn:
        txn.load_table(name).scan().to_arrow()
        assert (name,) == txn.unprotected
        txn.load_table("shop.a").append(rows(5))
    assert name == "txns.commits" or logs.catalog.load_table(name).metadata_location == before
    logs.open().catalog().load_table("shop.a").delete("id == 5")
    assert are_readable(logs)


@pytest.mark.parametrize("register", ["created", "all"])
@pytest.mark.parametrize("name", ["txns.commits", OTHERS])
@pytest.mark.parametrize("inside", [True, False])
def test_a_commit_table_is_not_written(logs, name, register, inside):
    """Neither a transaction nor an operation of its own writes one, drops it or renames it."""
    handle = logs.open(register=register)
    catalog = handle.begin() if inside else handle.catalog()
    table = catalog.load_table(name)
    with pytest.raises(txns.Unsupported, match="is a commit table"):
        table.append(table.scan().to_arrow())
    with pytest.raises(txns.Unsupported, match="is a commit table"):
        catalog.drop_table(name)
    if not inside:
        for refused in (
            lambda: catalog.purge_table(name),
            lambda: catalog.rename_table(name, "shop.c"),
            lambda: catalog.register_table(name, table.metadata_location, overwrite=True),
            lambda: table.transaction().set_properties(a="b").commit_transaction(),
        ):
            with pytest.raises(txns.Unsupported, match="is a commit table"):
                refused()
    assert are_readable(logs)


def test_a_name_for_the_commit_table_is_kept(lake):
    """Before there is a log, nobody puts a table under its name through the protocol."""
    catalog = lake.open().catalog()
    lake.catalog.create_table("shop.plain", SCHEMA)
    lake.catalog.drop_table("txns.commits")
    for refused in (
        lambda: catalog.create_table("txns.commits", SCHEMA),
        lambda: catalog.rename_table("shop.plain", "txns.commits"),
    ):
        with pytest.raises(txns.Unsupported, match="is a commit table"):
            refused()
    assert not lake.catalog.table_exists("txns.commits")


def test_a_commit_table_under_another_name(logs):
    """Its snapshots tell, whatever it is called: a backup beside the log is not marked either."""
    location = logs.catalog.load_table("txns.commits").metadata_location
    logs.catalog.register_table("shop.backup", location)
    with pytest.raises(txns.Unsupported, match="is a commit table"):
        logs.open().register("shop.backup")
    with logs.open(register="all").begin() as txn:
        assert "txns.commit-table" not in txn.load_table("shop.backup").properties
        assert ("shop.backup",) == txn.unprotected
    assert are_readable(logs)


def test_a_users_property_makes_no_commit_table(lake):
    """What somebody has called `txns.kind` outside of the protocol is a word, and no record."""
    table = lake.catalog.create_table("shop.a", SCHEMA)
    table.append(rows(1), snapshot_properties={"txns.kind": "mine"})
    handle = lake.open()
    handle.register("shop.a")
    handle.catalog().load_table("shop.a").append(rows(2))
    assert [1, 2] == lake.plain_ids("shop.a")
    assert handle.transactions()


@pytest.mark.parametrize("key", ["txns.kind", "txns.dropped", "txns.restored"])
@pytest.mark.parametrize("inside", [True, False])
def test_the_protocols_words_are_refused(lake, key, inside):
    """
    A snapshot property of a user is never taken for what the protocol says.

    An append with `txns.dropped` dropped the table.
    """
    name = lake.table("a", [1])
    handle = lake.open()
    catalog = handle.begin() if inside else handle.catalog()
    with pytest.raises(txns.InvalidUsage, match="the protocol's own") as refusal:
        catalog.load_table(name).append(rows(2), snapshot_properties={key: "1"})
    with pytest.raises(txns.InvalidUsage, match="the protocol's own"):
        catalog.load_table(name).delete("id == 1", snapshot_properties={key: "1"})
    assert "42602" == refusal.value.sqlstate
    catalog.load_table(name).append(rows(3), snapshot_properties={"nightly": "1"})
    if inside:
        catalog.commit()
    assert [1, 3] == lake.plain_ids(name)


MARKED = ("txns.commit-table", "txns.table-uuid")
MARK = {"txns.created": "9999999999999", "txns.applied": "9999999999999", "txns.purging": "x"}
"""What a copy of the properties of a table of another lake may bring along."""


@pytest.mark.parametrize("inside", [True, False])
def test_the_mark_is_not_the_users(lake, inside):
    """Who takes it away takes the table from care without a word; who moves it breaks reads."""
    name = lake.table("a", [1])
    handle = lake.open()
    catalog = handle.begin() if inside else handle.catalog()
    table = catalog.load_table(name)
    for change in (
        lambda several: several.set_properties({"txns.applied": "9999999999999"}),
        lambda several: several.remove_properties("txns.commit-table"),
    ):
        refused = pytest.raises(txns.InvalidUsage, match="the protocol's own")
        with refused, table.transaction() as several:
            change(several)
    with table.transaction() as several:
        several.set_properties({"owner": "me", **{k: table.properties[k] for k in MARKED}})
    if inside:
        catalog.commit()
    assert "me" == lake.catalog.load_table(name).properties["owner"]


@pytest.mark.parametrize("inside", [True, False])
def test_a_copy_of_the_properties_makes_no_mark(lake, inside):
    """Of a new table: its own counts, and nothing else of it is there."""
    handle = lake.open()
    catalog = handle.begin() if inside else handle.catalog()
    catalog.create_table("shop.a", SCHEMA, properties={**MARK, "owner": "me"}).append(rows(1))
    if inside:
        catalog.commit()
    handle.catalog().load_table("shop.a").append(rows(2))
    properties = lake.catalog.load_table("shop.a").properties
    assert "me" == properties["owner"]
    assert "txns.purging" not in properties
    assert [1, 2] == lake.plain_ids("shop.a")


def test_a_registration_takes_a_copied_mark_away(lake):
    """A table with the properties of one of another lake could not be read once registered."""
    lake.catalog.create_table("shop.a", SCHEMA, properties=MARK).append(rows(1))
    handle = lake.open()
    handle.register("shop.a")
    handle.catalog().load_table("shop.a").append(rows(2))
    properties = lake.catalog.load_table("shop.a").properties
    assert not {"txns.created", "txns.purging"} & set(properties)
    with handle.begin() as txn:
        txn.drop_table("shop.a")
    with handle.begin() as txn:
        txn.create_table("shop.a", SCHEMA).append(rows(3))
    assert [3] == lake.plain_ids("shop.a")


def test_nothing_is_listed_while_the_commit_table_is_missing(lake, handle):
    """What it has created and dropped nobody knows then."""
    lake.table("a")
    txn = handle.begin()
    lake.catalog.drop_table("txns.commits")
    for catalog in (handle.catalog(), txn):
        with pytest.raises(txns.InvalidUsage, match="the commit table is missing"):
            catalog.list_tables("shop")
