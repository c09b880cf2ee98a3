"""`txns recover`: what it has found, and what it takes out."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlparse

import pytest

from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import SCHEMA, rows


def test_recover_says_what_it_has_found(shop, cli):
    """The dry run, and the run, which is the last one that has something to do."""
    backup = pointers(shop.catalog)
    with shop.open().begin() as txn:
        txn.load_table("shop.a").append(rows(3))
    restore(shop.catalog, backup, [LOG])
    assert 5 == cli("check").exit_code or "txns recover" in cli("check").output
    dry = cli("recover", "--dry-run")
    assert (0, True) == (dry.exit_code, "1 taken back into the log" in dry.stdout)
    assert txn.txn_id in dry.stdout
    done = cli("recover")
    assert 0 == done.exit_code
    assert "2 tables belong to it" in done.stdout
    found = json.loads(cli("recover", "--json").stdout)
    assert ([], [], [], []) == (
        found["taken_back"],
        found["told_by_tables"],
        found["gone"],
        found["unknown"],
    )
    assert ["shop.a", "shop.b"] == found["marked"]
    assert 0 == cli("check").exit_code


@pytest.mark.parametrize("command", ["recover", "recover --dry-run", "status", "init"])
def test_a_data_table_that_is_named_as_the_log(shop, cli, command):
    """By a mistake in an option: it is told so, and nothing is written."""
    before = pointers(shop.catalog)
    for named in ("shop.a", "shop.b"):
        done = cli("--commit-table", named, *command.split())
        assert 5 == done.exit_code, done.output
        assert "no record, so it is no commit table, or no more: look at the option" in done.stderr
    assert before == pointers(shop.catalog)


def test_a_dry_run_tells_what_only_a_recovery_forward_keeps(shop, cli):
    """Afterwards it is too late to say so."""
    backup = pointers(shop.catalog)
    for number in (3, 4):
        with shop.open().begin() as txn:
            txn.load_table("shop.a").append(rows(number))
    restore(shop.catalog, backup)
    assert "--forward" in cli("recover", "--dry-run").stdout
    assert "--forward" not in cli("recover", "--dry-run", "--forward").stdout
    assert "--forward" not in cli("recover").stdout


def test_recover_says_which_tables_it_takes_forward(shop, cli):
    """What has left the head is in no payload: the table's own later metadata has it."""
    backup = pointers(shop.catalog)
    handle = shop.open()
    for number in (3, 4):
        handle.catalog().load_table("shop.a").append(rows(number))
        handle.tidy()
    restore(shop.catalog, backup)
    for options, words in ((("--dry-run",), "would be taken"), ((), "is taken")):
        done = cli("recover", "--forward", *options)
        assert 0 == done.exit_code, done.output
        assert f"shop.a was behind the log: its own later metadata {words}" in done.stdout
    assert 0 == cli("check").exit_code
    assert "forward" in json.loads(cli("recover", "--json").stdout)


def test_a_dry_run_says_that_there_is_nothing_and_what_stays_broken(shop, cli):
    """It ends as the recovery will, which leaves a table that was set back to a person."""
    dry = cli("recover", "--dry-run")
    assert (0, "the log lacks nothing; nothing was written\n") == (dry.exit_code, dry.stdout)
    backup = pointers(shop.catalog)
    handle = shop.open()
    handle.catalog().load_table("shop.a").append(rows(3))
    handle.tidy()
    restore(shop.catalog, backup, ["shop.a"])
    for command in (("recover", "--dry-run"), ("recover",)):
        said = cli(*command)
        assert (1, True) == (said.exit_code, "`txns repair adopt shop.a`" in said.output)
    found = json.loads(cli("recover", "--dry-run", "--json").stdout)
    assert ["shop.a"] == list(found["broken"])


def test_a_dry_run_names_the_version_that_would_stand(shop, cli):
    shop.open().catalog().load_table("shop.a").append(rows(3))
    file = urlparse(pointers(shop.catalog)[LOG]).path
    shop.catalog.drop_table(LOG)
    dry = cli("recover", "--dry-run")
    assert (0, True) == (dry.exit_code, f"{file}, of" in dry.stdout), dry.output
    assert not shop.catalog.table_exists(LOG)
    assert file in cli("recover").stdout


def test_whoever_meets_a_file_that_is_gone_is_told_of_the_recovery(shop, cli):
    file = urlparse(pointers(shop.catalog)[LOG]).path
    Path(file).unlink()
    for command in ("status", "check"):
        said = cli(command)
        assert (2, True, True) == (
            said.exit_code,
            "`txns recover`" in said.output,
            file in said.output,
        )
    assert 0 == cli("recover").exit_code


def test_recover_void_takes_a_record_out(shop, cli):
    """Its tables are named, with the command that ends their quarantine."""
    handle = shop.open()
    handle.catalog().load_table("shop.a").append(rows(3))
    snapshot_id = handle.parts.log.load().snapshot_ids[handle.upper]
    refused = cli("recover", "--void", snapshot_id)
    assert (2, True) == (refused.exit_code, "--sound" in refused.output)
    said = cli("recover", "--void", snapshot_id, "--sound")
    assert 0 == said.exit_code
    assert f"the record {snapshot_id} is void" in said.stdout
    assert "shop.a" in said.stdout
    assert 2 == cli("recover", "--void", "17").exit_code
    assert 2 == cli("recover", "--void", "17", "--dry-run").exit_code


def test_recover_void_names_what_stands_on_a_creation(shop, cli):
    """Nobody creates its table any more; each command that is named takes one out."""
    handle = shop.open(apply="next")
    handle.catalog().create_table("shop.new", SCHEMA)
    created = handle.upper
    appended = []
    for number in (1, 2):
        handle.catalog().load_table("shop.new").append(rows(number))
        appended.append(handle.upper)
    said = cli("recover", "--void", created, "--sound")
    assert 0 == said.exit_code
    lines = said.stdout.splitlines()
    for ts in appended:
        words = f"shop.new is created by nobody now: `txns recover --void {ts}` takes out, too:"
        at = lines.index(words)
        assert str(ts) in lines[at + 1]
    assert 1 == cli("check").exit_code
    first = json.loads(cli("recover", "--void", appended[0], "--json").stdout)
    assert [appended[1]] == [each["commit_ts"] for each in first["stranded"]]
    assert "created by nobody" not in cli("recover", "--void", appended[1]).stdout
    assert 0 == cli("check").exit_code
