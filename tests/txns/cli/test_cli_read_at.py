"""`txns read-at`, `hold` and `release`: one moment of all tables."""

from __future__ import annotations

import json

import pytest

from tests.txns.cli.printed import died, json_of
from tests.txns.lake import Lake, rows
from txns._clock import SystemClock
from txns._message import time_of

DAY_MS = 24 * 3600 * 1000


def _ids_at(lake: Lake, snapshots: dict[str, int]) -> list[list[int]]:
    tables = {name: lake.another_catalog().load_table(name) for name in snapshots}
    return [
        sorted(tables[name].scan(snapshot_id=at).to_arrow()["id"].to_pylist())
        for name, at in snapshots.items()
    ]


def test_read_at_names_the_snapshots_of_one_moment(shop, cli):
    at = shop.open().upper
    died(shop)
    cli("apply")
    assert [[1, 2], [1, 2]] == _ids_at(shop, json_of(cli("read-at", at, "--json"))["snapshots"])
    assert [[1, 2, 3], [1, 2, 3]] == _ids_at(shop, json_of(cli("read-at", "--json"))["snapshots"])


def test_read_at_prints_the_time_where_every_table_resolves_to_the_right_snapshot(shop, cli):
    died(shop)
    cli("apply")
    found = json_of(cli("read-at", "--json"))
    at = time_of(found["ts"])[:-1]
    assert ["duckdb", "spark", "trino"] == found["by_time"]
    assert [
        f"SELECT * FROM lake.shop.a FOR TIMESTAMP AS OF TIMESTAMP '{at}Z'",
        f"SELECT * FROM lake.shop.b FOR TIMESTAMP AS OF TIMESTAMP '{at}Z'",
    ] == found["queries"]["spark"]
    assert f"TIMESTAMP '{at} UTC'" in found["queries"]["trino"][0]


def test_read_at_prints_ids_where_a_time_would_be_wrong(shop, cli):
    """A branch that is written at the same moment: DuckDB takes the newest of all branches."""
    with shop.open().begin() as txn:
        table = txn.load_table("shop.a")
        main_id = table.metadata.current_snapshot_id
        table.manage_snapshots().create_branch(main_id, "audit").commit()
        table.append(rows(9), branch="audit")
        txn.load_table("shop.b").append(rows(3))
    found = json_of(cli("read-at", "--json"))
    assert ["spark", "trino"] == found["by_time"]
    at = found["snapshots"]["shop.b"]
    assert found["queries"]["duckdb"][1].endswith(f"snapshot_from_id = {at})")


def test_read_at_prints_ids_for_a_table_registered_later(shop, cli):
    """Its rows are older than its registration, and a time between the two resolves to none."""
    at = shop.open().upper
    shop.catalog.create_table("shop.c", rows(1).schema).append(rows(1))
    assert 0 == cli("register", "shop.c").exit_code
    found = json_of(cli("read-at", at, "--json"))
    assert [] == found["by_time"]
    assert [[1, 2], [1, 2], [1]] == _ids_at(shop, found["snapshots"])


def test_read_at_refuses_what_is_not_applied(shop, cli):
    result = cli("read-at", died(shop))
    assert (2, True) == (result.exit_code, "run `txns apply` first" in result.stderr)


@pytest.mark.usefixtures("shop")
def test_read_at_of_one_engine(cli):
    assert ["trino"] == list(json_of(cli("read-at", "--engine", "trino", "--json"))["queries"])


@pytest.mark.usefixtures("handle")
def test_read_at_quotes_names(lake, cli):
    lake.catalog.create_table("shop.Odd Name", rows(1).schema)
    assert 0 == cli("register", "shop.Odd Name").exit_code
    queries = json_of(cli("read-at", "--json"))["queries"]
    assert "FROM lake.shop.`Odd Name` FOR" in queries["spark"][0]
    assert 'FROM lake.shop."Odd Name" FOR' in queries["trino"][0]


@pytest.mark.usefixtures("shop")
def test_hold_and_release(cli):
    assert 0 == cli("hold", "end", "--ttl", "3d").exit_code
    (line,) = cli("holds", "--json").stdout.splitlines()
    found = json.loads(line)
    assert ("end", "txns-hold-end", {"shop.a", "shop.b"}) == (
        found["name"],
        found["tag"],
        set(found["tables"]),
    )
    assert abs(found["expires_ms"] - SystemClock().now_ms() - 3 * DAY_MS) < 60_000
    assert 0 == cli("release", "end").exit_code
    assert "" == cli("holds", "--json").stdout


@pytest.mark.usefixtures("shop")
def test_release_of_several_ends_none_where_one_is_unknown(cli):
    cli("hold", "one", "shop.a")
    assert 2 == cli("release", "one", "two").exit_code
    assert "one" in cli("holds").stdout
