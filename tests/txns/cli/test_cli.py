"""The command line: what each command prints, and its exit code."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

import txns
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import Lake, ids, rows
from txns._cli import main
from txns._cli.words import DURATION, TS
from txns._clock import SystemClock
from txns._log.entry import derived_id
from txns._message import time_of

if TYPE_CHECKING:
    from collections.abc import Callable

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "python.md"
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def cli(lake: Lake) -> Callable[..., Result]:
    """Run a command over the lake's catalog, in a connection of its own."""

    def run(*arguments: Any) -> Result:
        options = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db"]
        options += ["--warehouse", f"file://{lake.folder}/warehouse"]
        return CliRunner().invoke(main, [*options, *map(str, arguments)])

    return run


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Two tables under care, with two rows each."""
    lake.table("a", [1, 2])
    lake.table("b", [1, 2])
    return lake


def _json(result: Result) -> Any:
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


def _died(lake: Lake) -> int:
    """Commit over both tables and die before anything is applied."""
    txn = lake.open().begin(comment="died")
    for name in ("shop.a", "shop.b"):
        txn.load_table(name).append(rows(3))
    return txn.commit_at().commit_ts


def _rewrite(lake: Lake, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the stored metadata of a table as no catalog would."""
    location = lake.another_catalog().load_table(table).metadata_location
    path = Path(location.removeprefix("file://"))
    metadata = json.loads(path.read_text("utf-8"))
    change(metadata)
    path.write_text(json.dumps(metadata), "utf-8")


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
    assert 2 == len(_json(cli("status", "--json"))["tables"])


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

    _rewrite(shop, "txns.commits", change)
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


# ------------------------------------------------------------------ init, register, forget


def test_init_creates_the_commit_table_once(lake, cli):
    assert [True, False] == [_json(cli("init", "--json"))["created"] for _ in range(2)]
    assert lake.catalog.table_exists("txns.commits")


def test_init_print_creates_nothing(lake, cli):
    needs = _json(cli("init", "--print", "--json"))
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


# ------------------------------------------------------------------ status


def test_status_counts_what_is_not_applied(shop, cli):
    commit_ts = _died(shop)
    found = _json(cli("status", "--json"))
    assert [("shop.a", "unapplied", 1), ("shop.b", "unapplied", 1)] == [
        (each["name"], each["state"], each["unapplied"]) for each in found["tables"]
    ]
    assert [(commit_ts, ["shop.a", "shop.b"])] == [
        (each["commit_ts"], each["tables"]) for each in found["unapplied"]
    ]


def test_status_gives_the_newest_consistent_cut(shop, cli):
    """The entry before the one that is not applied everywhere."""
    before = shop.open().upper
    _died(shop)
    assert before == _json(cli("status", "--json"))["cut"]["ts"]


@pytest.mark.parametrize(("deed", "state"), [("append", "foreign write"), ("delete", "quarantine")])
def test_status_names_strangers_and_the_cure(shop, cli, deed, state):
    table = shop.catalog.load_table("shop.a")
    table.append(rows(9)) if deed == "append" else table.delete("id = 1")
    (found, _) = _json(cli("status", "--json"))["tables"]
    assert (state, True) == (found["state"], "txns repair adopt shop.a" in found["words"])


def test_status_shows_a_table_that_is_gone(shop, cli):
    _died(shop)
    shop.another_catalog().drop_table("shop.a")
    (_, found) = _json(cli("status", "--json"))["tables"]
    assert ("shop.a", "quarantine", 1) == (found["name"], found["state"], found["unapplied"])


def test_status_warns_of_settings_that_endanger_the_log(shop, cli):
    with shop.catalog.load_table("txns.commits").transaction() as changes:
        changes.set_properties({"gc.enabled": "true"})
    (warning,) = _json(cli("status", "--json"))["warnings"]
    assert "commit table: gc.enabled is true, and must be false" == warning


def test_status_warns_of_a_fast_clock(shop, cli):
    shop.clock.ahead_ms = 3_600_000
    with shop.open().begin() as txn:
        txn.load_table("shop.a").append(rows(3))
    shop.clock.ahead_ms = 0
    found = _json(cli("status", "--json"))
    assert any("some clock is fast" in warning for warning in found["warnings"])
    assert [] == found["cut"]["by_time"]


def test_status_for_people(shop, cli):
    _died(shop)
    shown = cli("status").stdout
    for words in ("not applied: 1 entries, on 2 tables", "shop.a, shop.b", "shop.a  unapplied"):
        assert words in shown
    assert re.search(r"  cut +\d+ \(.*Z\), everything at and below it is applied", shown)
    assert "SELECT" not in shown


def test_status_says_first_what_is_wrong(shop, cli):
    """The tables, the worst first; then the entries; then the log."""
    shop.table("c", [1])
    _died(shop)
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


# ------------------------------------------------------------------ log, show


def test_log_is_archive_and_head_in_order(shop, cli):
    shop.open().tidy()
    last = _died(shop)
    found = [json.loads(line) for line in cli("log", "--json").stdout.splitlines()]
    assert ["register", "register", "commit"] == [each["kind"] for each in found]
    assert (last, False, ["shop.a", "shop.b"]) == (
        found[-1]["commit_ts"],
        found[-1]["applied"],
        found[-1]["unapplied_tables"],
    )


def test_log_shows_the_newest_lines(shop, cli):
    _died(shop)
    (line,) = cli("log", "-n", 1, "--json").stdout.splitlines()
    assert "died" == json.loads(line)["comment"]


@pytest.mark.usefixtures("shop")
def test_log_of_one_table(cli):
    (line,) = cli("log", "--table", "shop.b", "--json").stdout.splitlines()
    assert "shop.b" == json.loads(line)["tables"][0]["table"]


def test_log_and_show_an_abort(shop, cli):
    """A refused try under an id of the user's own is an entry without tables."""
    txn = shop.open().begin(txn_id="nightly")
    txn.load_table("shop.a").delete("id == 1")
    with shop.open().begin() as other:
        other.load_table("shop.a").append(rows(3))
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert "  abort     nightly\n" in cli("log", "-n", 1).stdout
    shown = _json(cli("show", "nightly", "--json"))
    assert ("abort", [], True) == (shown["kind"], shown["tables"], shown["applied"])


def test_log_since_a_time(shop, cli):
    upper = shop.open().upper
    _died(shop)
    (line,) = cli("log", "--since", time_of(upper), "--json").stdout.splitlines()
    assert "died" == json.loads(line)["comment"]


def test_log_for_people_says_rows_and_what_is_not_applied(shop, cli):
    _died(shop)
    shown = cli("log").stdout
    assert ("died  not applied" in shown, "append    shop.a  +1 rows" in shown) == (True, True)


def test_log_follows(shop, cli, monkeypatch):
    """What commits while it waits is shown once."""
    steps = iter([lambda: _died(shop), lambda: None, lambda: None])
    real = SystemClock.sleep

    def sleep(clock, ms):
        next(steps, lambda: None)()
        real(clock, ms)

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    shown = cli("log", "-n", 0, "--follow", "--for", "900ms", "--json").stdout
    assert ["died"] == [json.loads(line)["comment"] for line in shown.splitlines()]


def test_show_finds_an_entry_by_id_and_by_commit_ts(shop, cli):
    commit_ts = _died(shop)
    by_ts = _json(cli("show", commit_ts, "--json"))
    by_id = _json(cli("show", by_ts["txn_id"], "--json"))
    assert (by_ts, "strict-serializable") == (by_id, by_ts["isolation"])


def test_show_the_payload(shop, cli):
    shown = _json(cli("show", _died(shop), "--payload", "--json"))
    actions = [each["action"] for each in shown["payload"][0]["updates"]]
    assert ["add-spec", "add-snapshot", "set-snapshot-ref"] == actions


def test_show_for_people(shop, cli):
    shown = cli("show", _died(shop)).stdout
    assert "in the head, not applied to shop.a, shop.b" in shown


# ------------------------------------------------------------------ apply, tidy, upkeep


def test_apply_applies(shop, cli):
    _died(shop)
    assert 0 == cli("apply").exit_code
    assert [1, 2, 3] == shop.plain_ids("shop.a")


def test_apply_up_to_a_timestamp(shop, cli):
    first = _died(shop)
    _died(shop)
    assert 0 == cli("apply", "--to", first).exit_code
    assert 1 == len(_json(cli("status", "--json"))["unapplied"])


def test_apply_says_what_is_left(shop, cli):
    _died(shop)
    shop.another_catalog().load_table("shop.a").delete("id = 1")
    result = cli("apply")
    assert (1, True) == (result.exit_code, "entries are left on shop.a" in result.stderr)


@pytest.mark.usefixtures("shop")
def test_tidy_empties_the_head(cli):
    assert 2 == _json(cli("tidy", "--json"))["tidied_entries"]
    assert 0 == _json(cli("status", "--json"))["entries_in_head"]


@pytest.mark.usefixtures("shop")
def test_tidy_dry_run_changes_nothing(cli):
    assert 2 == _json(cli("tidy", "--dry-run", "--json"))["tidied_entries"]
    assert 2 == _json(cli("status", "--json"))["entries_in_head"]


def test_tidy_files_removes_what_nothing_refers_to(shop, cli):
    """Superseded metadata files of owners that died, and a payload file of no entry."""
    orphan = shop.folder / "warehouse/txns/commits/metadata/txns-payload-x-00000000.json"
    orphan.write_text("{}")
    shop.open().advance(shop.open().upper + 1)
    shop.age_log(11)
    removed = _json(cli("tidy", "--files", "--json"))["files"]
    assert any(path.endswith(orphan.name) for path in removed)
    assert any(path.endswith(".metadata.json") for path in removed)
    assert not orphan.exists()
    assert 0 == cli("check").exit_code
    assert [1, 2] == ids(shop.open().snapshot().load_table("shop.a"))


def test_tidy_files_keeps_what_is_younger_than_the_grace_period(shop, cli):
    shop.age_log(9)
    assert [] == _json(cli("tidy", "--files", "--json"))["files"]


def test_tidy_files_keeps_the_payload_of_an_entry(shop, cli):
    """An entry in the head, of a transaction with a payload in a file."""
    txn = shop.open().begin()
    for number in range(60):
        txn.create_table(f"shop.t{number}", rows(1).schema)
    txn.commit_at()
    shop.age_log(11)
    result = _json(cli("tidy", "--files", "--json"))
    assert not any("txns-payload-" in path for path in result["files"])
    assert 0 == cli("apply").exit_code


def test_tidy_files_leaves_files_of_other_kinds_alone(shop, cli):
    other = shop.folder / "warehouse/txns/commits/metadata/version-hint.text"
    other.write_text("1")
    shop.age_log(60)
    cli("tidy", "--files")
    assert other.exists()


def test_tidy_files_dry_run_removes_nothing(shop, cli):
    shop.open().advance(shop.open().upper + 1)
    shop.age_log(11)
    before = shop.files()
    assert _json(cli("tidy", "--files", "--dry-run", "--json"))["files"]
    assert before == shop.files()


def test_advance_moves_the_upper(shop, cli):
    wanted = SystemClock().now_ms()
    assert 0 == cli("advance", wanted).exit_code
    assert wanted == shop.open().upper


@pytest.mark.usefixtures("shop")
def test_advance_refuses_the_far_future(cli):
    assert 2 == cli("advance", SystemClock().now_ms() + DAY_MS).exit_code


def test_off_applies_and_turns_writers_away_until_on(shop, cli):
    _died(shop)
    assert 0 == cli("off").exit_code
    assert [1, 2, 3] == shop.plain_ids("shop.a")
    assert (2, True) == (cli("forget", "shop.a").exit_code, _json(cli("status", "--json"))["off"])
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
    asked = _json(cli("upgrade", "--json"))
    expected = {"reader_features": [], "writer_features": [], "known_features": []}
    assert asked == {"format_version": 1} | expected
    assert "format version   1" in cli("upgrade").stdout


def test_upgrade_shows_a_feature_that_it_does_not_know(shop, cli):
    """Nobody may write such a log, and what is asked for can be seen."""

    def ask(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["summary"]["txns.writer-features"] = "leases"

    _rewrite(shop, "txns.commits", ask)
    assert ["leases"] == _json(cli("upgrade", "--json"))["writer_features"]
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
    commit_ts = _died(shop)
    assert f"{commit_ts}\n" == cli("wait", "shop.a", "--after", before).stdout


@pytest.mark.usefixtures("shop")
def test_wait_ends_in_time(cli):
    assert 1 == cli("wait", "shop.a", "--timeout", "1ms").exit_code


# ------------------------------------------------------------------ repair


@pytest.mark.parametrize(("deed", "expected"), [("adopt", [1, 2, 9]), ("reject", [1, 2])])
def test_repair_ends_a_foreign_write(shop, cli, deed, expected):
    shop.another_catalog().load_table("shop.a").append(rows(9))
    assert 0 == cli("repair", deed, "shop.a").exit_code
    assert expected == ids(shop.open().snapshot().load_table("shop.a"))
    assert "ok" == _json(cli("status", "--json"))["tables"][0]["state"]


# ------------------------------------------------------------------ read-at, holds


def _ids_at(lake: Lake, snapshots: dict[str, int]) -> list[list[int]]:
    tables = {name: lake.another_catalog().load_table(name) for name in snapshots}
    return [
        sorted(tables[name].scan(snapshot_id=at).to_arrow()["id"].to_pylist())
        for name, at in snapshots.items()
    ]


def test_read_at_names_the_snapshots_of_one_moment(shop, cli):
    at = shop.open().upper
    _died(shop)
    cli("apply")
    assert [[1, 2], [1, 2]] == _ids_at(shop, _json(cli("read-at", at, "--json"))["snapshots"])
    assert [[1, 2, 3], [1, 2, 3]] == _ids_at(shop, _json(cli("read-at", "--json"))["snapshots"])


def test_read_at_prints_the_time_where_every_table_resolves_to_the_right_snapshot(shop, cli):
    _died(shop)
    cli("apply")
    found = _json(cli("read-at", "--json"))
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
    found = _json(cli("read-at", "--json"))
    assert ["spark", "trino"] == found["by_time"]
    at = found["snapshots"]["shop.b"]
    assert found["queries"]["duckdb"][1].endswith(f"snapshot_from_id = {at})")


def test_read_at_prints_ids_for_a_table_registered_later(shop, cli):
    """Its rows are older than its registration, and a time between the two resolves to none."""
    at = shop.open().upper
    shop.catalog.create_table("shop.c", rows(1).schema).append(rows(1))
    assert 0 == cli("register", "shop.c").exit_code
    found = _json(cli("read-at", at, "--json"))
    assert [] == found["by_time"]
    assert [[1, 2], [1, 2], [1]] == _ids_at(shop, found["snapshots"])


def test_read_at_refuses_what_is_not_applied(shop, cli):
    result = cli("read-at", _died(shop))
    assert (2, True) == (result.exit_code, "run `txns apply` first" in result.stderr)


@pytest.mark.usefixtures("shop")
def test_read_at_of_one_engine(cli):
    assert ["trino"] == list(_json(cli("read-at", "--engine", "trino", "--json"))["queries"])


@pytest.mark.usefixtures("handle")
def test_read_at_quotes_names(lake, cli):
    lake.catalog.create_table("shop.Odd Name", rows(1).schema)
    assert 0 == cli("register", "shop.Odd Name").exit_code
    queries = _json(cli("read-at", "--json"))["queries"]
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


# --------------------------------------------------------------------- recover


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
