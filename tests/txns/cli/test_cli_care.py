"""`txns init`, `register`, `forget` and `repair`: tables into care, and out of it."""

from __future__ import annotations

import pytest

from tests.txns.cli.printed import json_of
from tests.txns.lake import ids, rows

# ------------------------------------------------------------------ init, register, forget


def test_init_creates_the_commit_table_once(lake, cli):
    assert [True, False] == [json_of(cli("init", "--json"))["created"] for _ in range(2)]
    assert lake.catalog.table_exists("txns.commits")


def test_init_print_creates_nothing(lake, cli):
    needs = json_of(cli("init", "--print", "--json"))
    assert ("txns", "false", 15) == (
        needs["namespace"],
        needs["properties"]["gc.enabled"],
        len(needs["schema"]),
    )
    assert not lake.catalog.table_exists("txns.commits")


def test_commands_that_look_do_not_create_the_commit_table(lake, cli):
    codes = [cli(name).exit_code for name in ("status", "check", "log", "register")]
    assert ([2, 2, 2, 2], False) == (codes, lake.catalog.table_exists("txns.commits"))


def test_register_puts_tables_under_care(lake, handle, cli):
    lake.table("a", register=False)
    lake.table("b", register=False)
    assert 0 == cli("register", "shop.a", "shop.b").exit_code
    assert [("shop", "a"), ("shop", "b")] == handle.registered()


def test_forget_takes_one_table_from_care(shop, cli):
    assert 0 == cli("forget", "shop.a").exit_code
    assert [("shop", "b")] == shop.open().registered()


def test_forget_all(shop, cli):
    assert 0 == cli("forget", "--all").exit_code
    assert [] == shop.open().registered()


# ------------------------------------------------------------------ repair


@pytest.mark.parametrize(("deed", "expected"), [("adopt", [1, 2, 9]), ("reject", [1, 2])])
def test_repair_ends_a_foreign_write(shop, cli, deed, expected):
    shop.another_catalog().load_table("shop.a").append(rows(9))
    assert 0 == cli("repair", deed, "shop.a").exit_code
    assert expected == ids(shop.open().snapshot().load_table("shop.a"))
    assert "ok" == json_of(cli("status", "--json"))["tables"][0]["state"]
