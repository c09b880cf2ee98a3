"""A rename that lands when its table is under care again: entries before it name the old one."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

from tests.txns.lake import SCHEMA, ids, rows
from txns._admin.health import health


class Late(SqlCatalog):
    """Answers a rename with an error, and carries it out later."""

    def rename_table(self, *names: Any) -> Any:
        self.land = lambda: super(Late, self).rename_table(*names)
        raise OSError("gateway timeout")


@pytest.fixture
def late(lake) -> Late:
    """`shop.a`, which is to be `shop.b`, and is under care again under its old name."""
    catalog = Late("lake", **lake.catalog.properties)
    with pytest.raises(OSError, match="timeout"):
        lake.open(catalog).catalog().rename_table(lake.table("a", [1]), "shop.b")
    return catalog


@pytest.fixture
def handle(lake):
    """Applies nothing, and tidies nothing by itself."""
    return lake.open(apply="next", tidy_after=1000)


def apply(handle, name: str) -> bool:
    return handle.parts.applier.apply(handle.parts.log.load(), ("shop", name))


def test_what_was_written_under_the_old_name_is_applied_and_tidied(late, handle, lake):
    """
    A table is looked for under the newest name that the log has for its uuid (seed 793).

    1. A rename of a to b is called failed; a is registered again.
    2. E1 is written to a; nobody applies it.
    3. The rename lands; E2 is written to b.
    """
    handle.catalog().load_table("shop.a").append(rows(2))
    late.land()
    assert [1, 2] == ids(handle.snapshot().load_table("shop.b"))
    handle.catalog().load_table("shop.b").append(rows(3))
    assert {("shop", "b")} == {each.tables[0] for each in health(handle.parts).outstanding}
    assert [] == handle.apply_le()
    assert [1, 2, 3] == lake.plain_ids("shop.b")
    assert all(row["applied"] for row in handle.transactions())
    assert [] == health(handle.parts).outstanding
    handle.tidy()
    assert () == lake.standing()


def test_a_new_name_stays_known_while_an_older_entry_needs_it(lake, late, handle):
    """
    A tidy does not change under which name a table is looked for.

    1. E1 is written to a and c; the rename of a to b lands; E2 and E3 are written to b.
    2. E1 and E2 are applied to b, and c is not; a tidy.
    3. c is applied; a tidy.
    """
    catalog = handle.catalog()
    catalog.create_table("shop.c", SCHEMA)
    with handle.begin() as txn:
        txn.load_table("shop.a").append(rows(2))
        txn.load_table("shop.c").append(rows(2))
    late.land()
    named = [handle.upper]
    for value in (3, 4):
        catalog.load_table("shop.b").append(rows(value))
        named.append(handle.upper)
    assert apply(handle, "b")
    handle.tidy()
    left = [entry.commit_ts for entry in lake.standing()]
    assert named[:2] == left[-2:]
    assert [] == handle.apply_le()
    handle.tidy()
    assert () == lake.standing()


def test_a_table_that_takes_the_old_name_is_not_quarantined(late, handle, lake):
    """
    Entries that name it are another table's, whose new name is known.

    1. E1 is written to a; the rename of a to b lands; E2 is written to b.
    2. Somebody makes another a.
    """
    handle.catalog().load_table("shop.a").append(rows(2))
    late.land()
    handle.catalog().load_table("shop.b").append(rows(3))
    lake.table("a", [9])
    handle.catalog().load_table("shop.a").append(rows(10))
    assert [] == handle.apply_le()
    assert [9, 10] == lake.plain_ids("shop.a")
    assert [1, 2, 3] == lake.plain_ids("shop.b")


def test_an_applier_that_has_an_older_head_creates_no_table_again(handle, lake):
    """
    1. A loads the head, with a creation of n. 2. Somebody applies it, and renames n to m.

    3. A finds no n.
    """
    handle.catalog().create_table("shop.n", SCHEMA)
    older = handle.parts.log.load()
    handle.catalog().rename_table("shop.n", "shop.m")
    handle.parts.applier.apply(older, ("shop", "n"))
    assert [("shop", "m")] == lake.catalog.list_tables("shop")


def test_a_created_table_that_comes_back_to_its_name_is_not_created_again(handle, lake):
    """
    Nor does an applier make one under the newest name, where it was once.

    1. n is created; somebody renames it to m, where it is written, and back.
    2. Whoever writes n tells the log.
    """
    handle.catalog().create_table("shop.n", SCHEMA)
    assert [] == handle.apply_le()
    lake.catalog.rename_table("shop.n", "shop.m")
    handle.catalog().load_table("shop.m").append(rows(1))
    lake.catalog.rename_table("shop.m", "shop.n")
    assert [("shop", "m")] == handle.apply_le()
    assert [("shop", "n")] == lake.catalog.list_tables("shop")
    handle.catalog().load_table("shop.n").append(rows(2))
    assert [] == handle.apply_le()
    assert [1, 2] == lake.plain_ids("shop.n")
    handle.tidy()
    assert () == lake.standing()


def test_a_table_that_was_created_under_another_name_is_not_created_again(handle, lake):
    """
    A creation in the head makes no second table of the old name.

    1. n is created; its entry stands in the head.
    2. Somebody renames it to m, where it is written.
    3. Nobody finds an n, and no applier makes one.
    """
    handle.catalog().create_table("shop.n", SCHEMA)
    assert [] == handle.apply_le()
    lake.catalog.rename_table("shop.n", "shop.m")
    handle.catalog().load_table("shop.m").append(rows(1))
    with pytest.raises(NoSuchTableError):
        handle.catalog().load_table("shop.n")
    assert apply(handle, "n")
    assert [] == handle.apply_le()
    assert [("shop", "m")] == lake.catalog.list_tables("shop")
    assert [("shop", "m")] == handle.registered()
