"""The command line as a whole: its commands, its exit codes, the words that it reads."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.txns.cli.printed import json_of, rewrite
from tests.txns.lake import rows
from txns._cli import main
from txns._cli.words import DURATION, TS

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "python.md"
DAY_MS = 24 * 3600 * 1000


# ------------------------------------------------------------------ the group


def _commands(group: click.Group, prefix: str = "") -> list[tuple[str, click.Command]]:
    found = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += _commands(command, f"{prefix}{name} ")
        else:
            found.append((prefix + name, command))
    return found


@pytest.mark.parametrize(("name", "command"), _commands(main), ids=lambda value: str(value)[:20])
def test_every_command_has_help_and_stands_in_the_guide(name, command):
    assert command.help
    assert f"`txns {name}" in GUIDE.read_text("utf-8")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name


def test_the_operators_page_names_no_command_that_is_not_there():
    """Nor an option that its command has not."""
    known = dict(_commands(main))
    page = GUIDE.with_name("operations.md").read_text("utf-8")
    used = re.findall(r"`txns ((?:repair )?[a-z-]+)((?: --[a-z-]+)?)", page)
    assert len(used) > 20
    for name, option in used:
        opts = [opt for each in known[name].params for opt in each.opts]
        assert not option or option.strip() in opts, (name, option)


def test_the_guide_names_no_command_that_is_not_there():
    known = {name.split()[0] for name, _ in _commands(main)}
    named = set(re.findall(r"`txns ([a-z][a-z-]*)", GUIDE.read_text("utf-8")))
    assert known == named


def test_help_lists_the_exit_codes():
    assert "1 violation, 2 usage, 3 conflict" in CliRunner().invoke(main, ["--help"]).output


def test_options_may_stand_behind_the_command(shop):
    uri = f"sqlite:///{shop.folder}/catalog.db"
    result = CliRunner().invoke(main, ["status", "--catalog", "lake", "--uri", uri])
    assert 0 == result.exit_code


@pytest.mark.usefixtures("shop")
def test_an_option_of_the_command_line_wins_over_the_environment(cli, monkeypatch):
    monkeypatch.setenv("TXNS_CATALOG", "another")
    assert 2 == len(json_of(cli("status", "--json"))["tables"])


def test_another_package_adds_a_command(tmp_path, monkeypatch):
    """Its entry point in the group `txns.commands` is enough."""
    (tmp_path / "extra_command.py").write_text(
        "import click\n@click.command()\ndef hello():\n    'Greet.'\n    click.echo('from extra')\n"
    )
    info = tmp_path / "extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[txns.commands]\nhello = extra_command:hello\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "from extra\n" == CliRunner().invoke(main, ["hello"]).stdout
    assert "Greet." in CliRunner().invoke(main, ["--help"]).stdout


def test_a_command_that_cannot_be_loaded_is_named(tmp_path, monkeypatch):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[txns.commands]\nbroken = no_such_module:x\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(main, ["broken"])
    assert "the command broken of no_such_module:x cannot be loaded" in result.stderr


# ------------------------------------------------------------------ exit codes


def test_exit_code_1_a_violation(shop, cli):
    shop.catalog.load_table("shop.a").delete("id = 1")
    result = cli("check")
    assert (1, True) == (result.exit_code, "shop.a" in result.stdout)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-command"], "No such command"),
        (["read-at", "yesterday"], "neither milliseconds since the epoch nor a time"),
        (["hold", "x", "--ttl", "soon"], "not a time such as"),
        (["forget"], "name the tables, or give --all"),
        (["register", "shop.none"], "Table does not exist: shop.none"),
        (["show", "nobody"], "no entry has this id or commit_ts"),
        (["release", "nothing"], "there is no such hold"),
        (["repair", "adopt", "shop.a"], "there is nothing to repair"),
        (["-p", "nonsense", "status"], "KEY=VALUE is wanted"),
        (["--commit-table", "txns.others", "status"], "create it with `txns init`"),
    ],
    ids=lambda value: " ".join(value)[:24] if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("shop")
def test_exit_code_2_usage(cli, arguments, words):
    result = cli(*arguments)
    assert (2, True) == (result.exit_code, words in result.stderr), result.output
    assert "Traceback" not in result.output


def test_exit_code_2_no_catalog(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["status"])
    assert (2, True) == (result.exit_code, "give --uri and --warehouse" in result.stderr)


def test_exit_code_3_a_conflict(shop, cli):
    """A hold from before the tables were there: nothing of them is left from that time."""
    with shop.open().begin() as txn:
        txn.create_table("shop.c", rows(1).schema)
    created_ts = shop.open().upper
    result = cli("hold", "early", "shop.c", "--at", created_ts - 1)
    assert (3, True) == (result.exit_code, "SQLSTATE 40001" in result.stderr), result.output


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
def test_exit_code_4_an_unknown_outcome(cli):
    """The answers of the catalog are lost, and the log does not tell."""
    mute = "py-catalog-impl=tests.txns.mute_catalog.MuteCatalog"
    result = cli("-p", mute, "on")
    assert (4, 1) == (result.exit_code, result.stderr.count("\n")), result.output
    asked = re.search(r"`txns show ([0-9a-f-]+)`", result.stderr)
    assert asked
    assert 2 == cli("show", asked[1]).exit_code


def test_exit_code_5_a_corrupt_log(shop, cli):
    def change(metadata):
        metadata["snapshots"][-1]["summary"]["txns.prev-ts"] = "1"

    rewrite(shop, "txns.commits", change)
    result = cli("status")
    assert (5, True) == (result.exit_code, "invariant I1 does not hold" in result.stderr)


@pytest.mark.usefixtures("shop")
def test_an_error_is_one_line(cli):
    assert 1 == cli("register", "shop.none").stderr.count("\n")


@pytest.mark.usefixtures("shop")
def test_debug_shows_the_traceback(cli):
    result = cli("--debug", "register", "shop.none")
    assert (2, True) == (result.exit_code, "Traceback" in result.stderr)
    assert "NoSuchTableError: Table does not exist: shop.none" in result.stderr


# ------------------------------------------------------------------ demo, words


def test_demo_shows_all_scenes():
    result = CliRunner().invoke(main, ["demo"])
    assert 0 == result.exit_code, result.output
    for words in (
        "a reader after COMMIT    7 of 7 in stock, 3 sold",
        "transaction lost a race, run it again",
        "the tables themselves    4 of 7 in stock, 6 sold",
        "a reader                 3 of 7 in stock, 7 sold",
        "10 of 7 in stock, 0 sold",
    ):
        assert words in result.stdout


def test_demo_keeps_its_catalog_where_it_is_told(tmp_path):
    folder = tmp_path / "kept"
    assert 0 == CliRunner().invoke(main, ["demo", "--keep", str(folder)]).exit_code
    uri = f"sqlite:///{folder}/catalog.db"
    assert 0 == CliRunner().invoke(main, ["check", "--catalog", "demo", "--uri", uri]).exit_code


def test_demo_does_not_write_into_a_folder_of_others(tmp_path):
    (tmp_path / "mine").write_text("x")
    assert 2 == CliRunner().invoke(main, ["demo", "--keep", str(tmp_path)]).exit_code


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("1767225600123", 1767225600123),
        ("2026-01-01T00:00:00.123Z", 1767225600123),
        ("2026-01-01 00:00:00.123", 1767225600123),
        ("2026-01-01T01:00:00.123+01:00", 1767225600123),
        ("2026-01-01", 1767225600000),
    ],
)
def test_a_timestamp_is_milliseconds_or_a_time(words, expected):
    assert expected == TS.convert(words, None, None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("12h", 43_200_000), ("7d", 7 * DAY_MS)],
)
def test_a_duration_has_a_unit(words, expected):
    assert expected == DURATION.convert(words, None, None)
