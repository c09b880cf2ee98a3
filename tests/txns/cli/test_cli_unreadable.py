"""One table that cannot be read stops no command from telling of the others."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import txns
from tests.txns.lake import rows
from txns._cli import main

if TYPE_CHECKING:
    from tests.txns.lake import Lake


def run(lake: Lake, *arguments: str) -> Result:
    options = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db"]
    return CliRunner().invoke(main, [*options, *arguments])


def states(lake: Lake) -> dict[str, str]:
    result = run(lake, "status", "--json")
    assert 0 == result.exit_code, result.output
    return {each["name"]: each["state"] for each in json.loads(result.stdout)["tables"]}


@pytest.fixture
def nameless(lake: Lake) -> Lake:
    """
    Two tables under care, and `orders`, which has no namespace.

    A transaction over `orders` and `shop.a` has committed and is applied to neither. Spark's
    catalog alone makes such a table: here the stored names of `shop.orders` lose their namespace.
    """
    lake.table("a", [1])
    lake.table("b", [1])
    lake.table("orders", [1])
    txn = lake.open().begin()
    for name in ("shop.orders", "shop.a"):
        txn.load_table(name).append(rows(2))
    txn.commit_at()
    location = lake.another_catalog().load_table("txns.commits").metadata_location
    path = Path(location.removeprefix("file://"))
    metadata = json.loads(path.read_text("utf-8"))
    for snapshot in metadata["snapshots"]:
        snapshot["summary"] = {key: _moved(value) for key, value in snapshot["summary"].items()}
    path.write_text(json.dumps(metadata), "utf-8")
    with closing(sqlite3.connect(lake.folder / "catalog.db")) as database, database:
        database.execute(
            "UPDATE iceberg_tables SET table_namespace = '' WHERE table_name = 'orders'"
        )
    return lake


def _moved(value: str) -> str:
    """A value of a summary, with the names of `shop.orders` in it without their namespace."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return json.dumps(_without_namespace(found)) if isinstance(found, dict | list) else value


def _without_namespace(found: Any) -> Any:
    if isinstance(found, list):
        return [_without_namespace(each) for each in found]
    if not isinstance(found, dict):
        return found
    moved = {key: _without_namespace(value) for key, value in found.items()}
    return moved | {"namespace": []} if moved.get("name") == "orders" else moved


def test_status_names_a_table_without_a_namespace_and_the_cure(nameless):
    assert {"shop.a": "unapplied", "shop.b": "ok", "orders": "unreadable"} == states(nameless)
    assert "ALTER TABLE lake.t RENAME TO default.t" in run(nameless, "status").stdout


@pytest.mark.parametrize("command", ["log", "read-at", "tidy", "holds"])
def test_commands_that_look_go_on(nameless, command):
    assert 0 == run(nameless, command).exit_code


def test_check_says_that_it_could_not_check_everything(nameless):
    result = run(nameless, "check")
    assert (1, True) == (result.exit_code, "tables without a namespace" in result.stdout)


def test_the_other_tables_are_written_applied_and_held(nameless):
    handle = nameless.open(nameless.another_catalog())
    with handle.begin() as txn:
        txn.load_table("shop.a").append(rows(3))
    assert [("orders",)] == handle.apply_le()
    assert [1, 2, 3] == nameless.plain_ids("shop.a")
    assert {("shop", "a"), ("shop", "b")} == set(handle.hold("x").tables)


def test_a_name_without_a_namespace_is_refused(handle, lake):
    schema = rows(1).schema
    deeds = [
        lambda: handle.catalog().create_table("orders", schema),
        lambda: handle.begin().create_table("orders", schema),
        lambda: handle.register("orders"),
    ]
    for deed in deeds:
        with pytest.raises(txns.InvalidUsage, match=r"a table needs a namespace.*`orders`") as told:
            deed()
        assert "42602" == told.value.sqlstate
    result = run(lake, "register", "orders")
    assert (2, True) == (result.exit_code, "give its name as default.orders" in result.stderr)


def test_a_table_whose_metadata_is_gone_hides_no_other(lake):
    """Nothing is known of it: its entries are not called applied."""
    lake.table("a", [1])
    lake.table("b", [1])
    with lake.open().begin() as txn:
        for name in ("shop.a", "shop.b"):
            txn.load_table(name).append(rows(2))
    location = lake.another_catalog().load_table("shop.b").metadata_location
    Path(location.removeprefix("file://")).unlink()
    assert {"shop.a": "ok", "shop.b": "unreadable"} == states(lake)
    assert "not applied" in run(lake, "log").stdout
