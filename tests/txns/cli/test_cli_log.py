"""`txns log` and `txns show`: who committed what."""

from __future__ import annotations

import json

import pytest

import txns
from tests.txns.cli.printed import died, json_of
from tests.txns.lake import ids, rows
from txns._clock import SystemClock
from txns._message import time_of


def test_log_is_archive_and_head_in_order(shop, cli):
    shop.open().tidy()
    last = died(shop)
    found = [json.loads(line) for line in cli("log", "--json").stdout.splitlines()]
    assert ["register", "register", "commit"] == [each["kind"] for each in found]
    assert (last, False, ["shop.a", "shop.b"]) == (
        found[-1]["commit_ts"],
        found[-1]["applied"],
        found[-1]["unapplied_tables"],
    )


def test_log_shows_the_newest_lines(shop, cli):
    died(shop)
    (line,) = cli("log", "-n", 1, "--json").stdout.splitlines()
    assert "died" == json.loads(line)["comment"]


@pytest.mark.usefixtures("shop")
def test_log_of_one_table(cli):
    (line,) = cli("log", "--table", "shop.b", "--json").stdout.splitlines()
    assert "shop.b" == json.loads(line)["tables"][0]["table"]


@pytest.mark.usefixtures("shop")
def test_log_of_a_table_that_nobody_wrote(cli):
    """A name may be mistyped, and a script reads standard output."""
    done = cli("log", "--table", "shop.typo", "--json")
    assert ("", "no entry names shop.typo: is it under care?\n") == (done.stdout, done.stderr)


@pytest.mark.usefixtures("shop")
def test_log_of_less_than_nothing(cli):
    done = cli("log", "-n", "-3")
    assert 2 == done.exit_code
    assert "-3 is not in the range x>=0" in done.stderr


def test_log_and_show_an_abort(shop, cli):
    """A refused try under an id of the user's own is an entry without tables."""
    txn = shop.open().begin(txn_id="nightly")
    ids(txn.load_table("shop.a"))
    txn.load_table("shop.a").delete("id == 1")
    with shop.open().begin() as other:
        other.load_table("shop.a").append(rows(3))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert "  abort     nightly\n" in cli("log", "-n", 1).stdout
    shown = json_of(cli("show", "nightly", "--json"))
    assert ("abort", [], True) == (shown["kind"], shown["tables"], shown["applied"])


def test_log_since_a_time(shop, cli):
    upper = shop.open().upper
    died(shop)
    (line,) = cli("log", "--since", time_of(upper), "--json").stdout.splitlines()
    assert "died" == json.loads(line)["comment"]


def test_log_for_people_says_rows_and_what_is_not_applied(shop, cli):
    died(shop)
    shown = cli("log").stdout
    assert ("died  not applied" in shown, "append    shop.a  +1 rows" in shown) == (True, True)


@pytest.mark.usefixtures("shop")
def test_log_follows_for_a_time_only_where_it_follows(cli):
    done = cli("log", "--for", "1s")
    assert (2, True) == (done.exit_code, "--for goes with --follow" in done.output)


def test_log_follows(shop, cli, monkeypatch):
    """What commits while it waits is shown once."""
    steps = iter([lambda: died(shop), lambda: None, lambda: None])
    real = SystemClock.sleep

    def sleep(clock, ms):
        next(steps, lambda: None)()
        real(clock, ms)

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    shown = cli("log", "-n", 0, "--follow", "--for", "900ms", "--json").stdout
    assert ["died"] == [json.loads(line)["comment"] for line in shown.splitlines()]


def test_show_finds_an_entry_by_id_and_by_commit_ts(shop, cli):
    commit_ts = died(shop)
    by_ts = json_of(cli("show", commit_ts, "--json"))
    by_id = json_of(cli("show", by_ts["txn_id"], "--json"))
    assert (by_ts, "strict-serializable") == (by_id, by_ts["isolation"])


def test_show_the_payload(shop, cli):
    shown = json_of(cli("show", died(shop), "--payload", "--json"))
    actions = [each["action"] for each in shown["payload"][0]["updates"]]
    assert ["add-spec", "add-snapshot", "set-snapshot-ref"] == actions


def test_show_for_people(shop, cli):
    shown = cli("show", died(shop)).stdout
    assert "in the head, not applied to shop.a, shop.b" in shown
