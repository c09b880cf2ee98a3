"""`txns status`: what is wrong, first."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.txns.cli.printed import died, json_of
from tests.txns.lake import Lake, rows
from txns._log.entry import derived_id


def test_status_counts_what_is_not_applied(shop, cli):
    commit_ts = died(shop)
    found = json_of(cli("status", "--json"))
    assert [("shop.a", "unapplied", 1), ("shop.b", "unapplied", 1)] == [
        (each["name"], each["state"], each["unapplied"]) for each in found["tables"]
    ]
    assert [(commit_ts, ["shop.a", "shop.b"])] == [
        (each["commit_ts"], each["tables"]) for each in found["unapplied"]
    ]


def test_status_gives_the_newest_consistent_cut(shop, cli):
    """The entry before the one that is not applied everywhere."""
    before = shop.open().upper
    died(shop)
    assert before == json_of(cli("status", "--json"))["cut"]["ts"]


def test_status_says_who_is_waited_for(shop, cli):
    """Its first try has lost; what it has touched is reserved for the second."""
    handle = shop.open()
    lost = handle.begin()
    lost.load_table("shop.a").scan().to_arrow()
    lost.load_table("shop.b").append(rows(7))
    shop.open().catalog().load_table("shop.a").append(rows(8))
    lost.rollback()
    again = handle.begin(after=lost)
    (found,) = json_of(cli("status", "--json"))["reserved"]
    assert (again.txn_id, ["shop.b", "shop.a"], 1) == (
        found["txn_id"],
        found["tables"],
        found["number"],
    )
    shown = cli("status").stdout
    assert again.txn_id in shown
    assert "shop.b, shop.a" in shown
    assert "for at most" in shown
    assert "times lost" in shown


@pytest.mark.parametrize(("deed", "state"), [("append", "foreign write"), ("delete", "quarantine")])
def test_status_names_strangers_and_the_cure(shop, cli, deed, state):
    table = shop.catalog.load_table("shop.a")
    table.append(rows(9)) if deed == "append" else table.delete("id = 1")
    (found, _) = json_of(cli("status", "--json"))["tables"]
    assert (state, True) == (found["state"], "txns repair adopt shop.a" in found["words"])


def test_status_shows_a_table_that_is_gone(shop, cli):
    died(shop)
    shop.another_catalog().drop_table("shop.a")
    (_, found) = json_of(cli("status", "--json"))["tables"]
    assert ("shop.a", "quarantine", 1) == (found["name"], found["state"], found["unapplied"])


def test_status_warns_of_settings_that_endanger_the_log(shop, cli):
    with shop.catalog.load_table("txns.commits").transaction() as changes:
        changes.set_properties({"gc.enabled": "true"})
    (warning,) = json_of(cli("status", "--json"))["warnings"]
    assert "commit table: gc.enabled is true, and must be false" == warning


def test_status_warns_of_a_fast_clock(shop, cli):
    shop.clock.ahead_ms = 3_600_000
    with shop.open().begin() as txn:
        txn.load_table("shop.a").append(rows(3))
    shop.clock.ahead_ms = 0
    found = json_of(cli("status", "--json"))
    assert any("some clock is fast" in warning for warning in found["warnings"])
    assert [] == found["cut"]["by_time"]


def test_status_for_people(shop, cli):
    died(shop)
    shown = cli("status").stdout
    for words in ("not applied: 1 entries, on 2 tables", "shop.a, shop.b", "shop.a  unapplied"):
        assert words in shown
    assert re.search(r"  cut +\d+ \(.*Z\), everything at and below it is applied", shown)
    assert "SELECT" not in shown


def test_status_says_first_what_is_wrong(shop, cli):
    """The tables, the worst first; then the entries; then the log."""
    shop.table("c", [1])
    died(shop)
    shop.catalog.load_table("shop.b").append(rows(9))
    shop.catalog.load_table("shop.c").delete("id = 1")
    first, second, third, fourth, *rest = cli("status").stdout.splitlines()
    assert "txns.commits in the catalog lake" == first
    assert second.startswith("shop.c: quarantine: ")
    assert third.startswith("shop.b: foreign write: ")
    assert "`txns repair adopt shop.b` or `txns repair reject shop.b`" in third
    assert fourth.startswith("not applied: 1 entries, on 2 tables, the oldest for ")
    assert any(line.startswith("  upper ") for line in rest)


SCREEN_LINES, SCREEN_COLUMNS = 24, 120


def _copies(lake: Lake, count: int) -> list[str]:
    """Put tables under care that are copies of one, quicker than by transactions."""
    location = lake.catalog.load_table(lake.table("a", [1])).metadata_location
    path = Path(location.removeprefix("file://"))
    stored = path.read_text("utf-8")
    metadata = json.loads(stored)
    uuid, main = metadata["table-uuid"], metadata["current-snapshot-id"]
    names = [f"t{number:03}" for number in range(count)]
    rows = []
    for number, name in enumerate(names):
        copy = path.with_name(f"{name}.metadata.json")
        own = f"{uuid[:-3]}{number:03x}"
        marked = derived_id("register", uuid, main), derived_id("register", own, main)
        copy.write_text(stored.replace(uuid, own).replace(*marked), "utf-8")
        rows.append(("lake", "shop", name, f"file://{copy}", "TABLE"))
    columns = "catalog_name, table_namespace, table_name, metadata_location, iceberg_type"
    with closing(sqlite3.connect(lake.folder / "catalog.db")) as database, database:
        database.executemany(f"INSERT INTO iceberg_tables ({columns}) VALUES (?, ?, ?, ?, ?)", rows)
    return [f"shop.{name}" for name in names]


def test_status_of_200_tables_fits_a_screen(lake, cli):
    """Also where more is wrong than a screen has lines."""
    names = _copies(lake, 199)
    for name in names[:8]:  # which also ends what main keeps: a warning each
        lake.catalog.load_table(name).append(rows(1))
    handle = lake.open(apply="next")
    for name in names[16:24]:
        with handle.begin() as txn:
            txn.load_table(name).append(rows(1))
    lines = cli("status").stdout.splitlines()
    assert SCREEN_LINES >= sum(1 + len(line) // SCREEN_COLUMNS for line in lines)
    for words in (
        "5 more tables with something wrong: `txns status --all` shows each",
        "not applied: 8 entries, on 8 tables",
        "5 more warnings",
        "200: 184 ok, 8 foreign write, 8 unapplied",
    ):
        assert any(words in line for line in lines), words
    everything = cli("status", "--all").stdout
    assert [] == [name for name in names if f"\n{name} " not in everything]
    assert 8 == everything.count(": foreign write: ")


def test_status_says_why_there_may_be_no_tables(handle, cli):
    assert handle.upper == 0
    assert "No table is under care" in cli("status").stdout
