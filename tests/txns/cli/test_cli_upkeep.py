"""`txns apply`, `tidy`, `advance`, `off` and `on`, `upgrade`, `wait`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.txns.cli.printed import died, json_of, rewrite
from tests.txns.lake import ids, rows
from txns._clock import SystemClock

DAY_MS = 24 * 3600 * 1000


def test_apply_applies(shop, cli):
    died(shop)
    assert 0 == cli("apply").exit_code
    assert [1, 2, 3] == shop.plain_ids("shop.a")


def test_apply_up_to_a_timestamp(shop, cli):
    first = died(shop)
    died(shop)
    assert 0 == cli("apply", "--to", first).exit_code
    assert 1 == len(json_of(cli("status", "--json"))["unapplied"])


def test_apply_says_what_is_left(shop, cli):
    died(shop)
    shop.another_catalog().load_table("shop.a").delete("id = 1")
    result = cli("apply")
    assert (1, True) == (result.exit_code, "entries are left on shop.a" in result.stderr)


@pytest.mark.usefixtures("shop")
def test_tidy_empties_the_head(cli):
    assert 2 == json_of(cli("tidy", "--json"))["tidied_entries"]
    assert 0 == json_of(cli("status", "--json"))["entries_in_head"]


@pytest.mark.usefixtures("shop")
def test_tidy_dry_run_changes_nothing(cli):
    assert 2 == json_of(cli("tidy", "--dry-run", "--json"))["tidied_entries"]
    assert 2 == json_of(cli("status", "--json"))["entries_in_head"]


def test_tidy_files_removes_what_nothing_refers_to(shop, cli):
    """Superseded metadata files of owners that died, and a payload file of no entry."""
    orphan = shop.folder / "warehouse/txns/commits/metadata/txns-payload-x-00000000.json"
    orphan.write_text("{}")
    shop.open().advance(shop.open().upper + 1)
    shop.age_log(61)
    removed = json_of(cli("tidy", "--files", "--json"))["files"]
    assert any(path.endswith(orphan.name) for path in removed)
    assert any(path.endswith(".metadata.json") for path in removed)
    assert not orphan.exists()
    assert 0 == cli("check").exit_code
    assert [1, 2] == ids(shop.open().snapshot().load_table("shop.a"))


def test_tidy_files_keeps_what_is_younger_than_the_grace_period(shop, cli):
    shop.age_log(59)
    assert [] == json_of(cli("tidy", "--files", "--json"))["files"]


def test_tidy_files_keeps_the_payload_of_an_entry(shop, cli):
    """An entry in the head, of a transaction with a payload in a file."""
    txn = shop.open().begin()
    for number in range(60):
        txn.create_table(f"shop.t{number}", rows(1).schema)
    txn.commit_at()
    shop.age_log(61)
    result = json_of(cli("tidy", "--files", "--json"))
    assert not any("txns-payload-" in path for path in result["files"])
    assert 0 == cli("apply").exit_code


def test_tidy_files_leaves_files_of_other_kinds_alone(shop, cli):
    other = shop.folder / "warehouse/txns/commits/metadata/version-hint.text"
    other.write_text("1")
    shop.age_log(90)
    cli("tidy", "--files")
    assert other.exists()


def test_tidy_files_dry_run_removes_nothing(shop, cli):
    shop.open().advance(shop.open().upper + 1)
    shop.age_log(61)
    before = shop.files()
    assert json_of(cli("tidy", "--files", "--dry-run", "--json"))["files"]
    assert before == shop.files()


def test_advance_moves_the_upper(shop, cli):
    wanted = SystemClock().now_ms()
    assert 0 == cli("advance", wanted).exit_code
    assert wanted == shop.open().upper


@pytest.mark.usefixtures("shop")
def test_advance_refuses_the_far_future(cli):
    assert 2 == cli("advance", SystemClock().now_ms() + DAY_MS).exit_code


def test_off_applies_and_turns_writers_away_until_on(shop, cli):
    died(shop)
    assert 0 == cli("off").exit_code
    assert [1, 2, 3] == shop.plain_ids("shop.a")
    assert (2, True) == (cli("forget", "shop.a").exit_code, json_of(cli("status", "--json"))["off"])
    shop.catalog.load_table("shop.a").append(rows(4))
    assert 0 == cli("on").exit_code
    assert [1, 2, 3, 4] == ids(shop.open().snapshot().load_table("shop.a"))
    assert 0 == cli("forget", "shop.a").exit_code


def test_on_says_what_it_cannot_adopt(shop, cli):
    shop.open().catalog().drop_table("shop.a")
    cli("off")
    shop.catalog.load_table("shop.a").append(rows(4))
    said = cli("on")
    assert (1, True) == (said.exit_code, "not adopted: shop.a" in said.stderr)


@pytest.mark.usefixtures("shop")
def test_upgrade_shows_version_and_features(cli):
    asked = json_of(cli("upgrade", "--json"))
    expected = {"reader_features": [], "writer_features": [], "known_features": []}
    assert asked == {"format_version": 1} | expected
    assert "format version   1" in cli("upgrade").stdout


def test_upgrade_shows_a_feature_that_it_does_not_know(shop, cli):
    """Nobody may write such a log, and what is asked for can be seen."""

    def ask(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["txns.writer-features"] = "leases"

    rewrite(shop, "txns.commits", ask)
    assert ["leases"] == json_of(cli("upgrade", "--json"))["writer_features"]
    refused = cli("forget", "shop.a")
    assert (2, True) == (refused.exit_code, "leases" in refused.stderr)


def test_upgrade_refuses_a_feature_that_it_does_not_know(shop, cli):
    before = shop.open().parts.log.load().main_id
    refused = cli("upgrade", "--feature", "leases")
    assert 2 == refused.exit_code
    assert "known: none" in refused.stderr
    assert before == shop.open().parts.log.load().main_id


def test_wait_gives_the_commit_ts(shop, cli):
    before = shop.open().upper
    commit_ts = died(shop)
    assert f"{commit_ts}\n" == cli("wait", "shop.a", "--after", before).stdout


@pytest.mark.usefixtures("shop")
def test_wait_ends_in_time(cli):
    assert 1 == cli("wait", "shop.a", "--timeout", "1ms").exit_code
