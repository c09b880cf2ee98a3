"""`txns adopt`: what strangers append is taken in, once or until it is stopped."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest

import txns
from tests.txns.lake import ids, rows
from txns._admin.adopt import adopt_all
from txns._commit.adoption import Adoption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.txns.lake import Lake

WAIT_S = 60


def test_once_for_all_tables(shop, cli):
    for name in ("shop.a", "shop.b"):
        shop.another_catalog().load_table(name).append(rows(8, 9))
    done = cli("adopt")
    assert (0, 2) == (done.exit_code, done.output.count("adopted 2 rows at "))
    snapshot = shop.open().snapshot()
    assert [1, 2, 8, 9] == ids(snapshot.load_table("shop.a")) == ids(snapshot.load_table("shop.b"))
    assert "" == cli("adopt").output


def test_once_for_one_table(shop, cli):
    for name in ("shop.a", "shop.b"):
        shop.another_catalog().load_table(name).append(rows(9))
    assert 0 == cli("adopt", "shop.b").exit_code
    snapshot = shop.open().snapshot()
    assert [1, 2] == ids(snapshot.load_table("shop.a"))
    assert [1, 2, 9] == ids(snapshot.load_table("shop.b"))


@pytest.mark.usefixtures("shop")
def test_a_name_that_no_table_has(cli):
    assert 2 == cli("adopt", "shop.nothing").exit_code


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("options", [("--every", "1s"), ("--watch", "--every", "0s")])
def test_a_pause_is_one_between_looks(cli, options):
    """It is not ignored, nor does nobody pause."""
    done = cli("adopt", *options)
    assert (2, True) == (done.exit_code, "--every goes with --watch" in done.output)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("length", ["36501d", "999999999999999999999d", 5000 * "9" + "s"])
@pytest.mark.parametrize(
    "command",
    [("adopt", "--watch", "--every"), ("hold", "kept", "--ttl"), ("wait", "shop.a", "--timeout")],
)
def test_a_length_of_time_that_no_clock_has(cli, command, length):
    """It is told before it is waited for, or logged."""
    done = cli(*command, length)
    assert (2, True) == (done.exit_code, "36500d at most" in done.output)


def test_what_cannot_be_adopted_keeps_nothing_else_from_it(shop, cli):
    plain = shop.another_catalog().load_table("shop.a")
    with plain.update_schema() as update:
        update.rename_column("name", "title")
    plain.append(rows(9).rename_columns(["id", "title"]))
    with plain.update_schema() as update:
        update.rename_column("title", "name")
    shop.another_catalog().load_table("shop.b").append(rows(9))
    done = cli("adopt")
    assert 1 == done.exit_code
    assert "shop.a: not adopted: " in done.output
    assert [1, 2, 9] == ids(shop.open().snapshot().load_table("shop.b"))


def kept_with_other_columns(lake: Lake, name: str) -> None:
    """1. A column is renamed, which is not applied. 2. A stranger appends. 3. It is applied."""
    later = lake.open(apply="next")
    with later.begin() as txn, txn.load_table(name).update_schema() as update:
        update.rename_column("name", "title")
    lake.another_catalog().load_table(name).append(rows(9))
    later.apply_le()


def test_a_branch_that_cannot_be_adopted_keeps_nothing_else_from_it(shop, cli):
    """It is told, as often as somebody asks: exit code 1."""
    kept_with_other_columns(shop, "shop.a")
    shop.another_catalog().load_table("shop.b").append(rows(9))
    done = cli("adopt")
    assert (1, 1) == (done.exit_code, done.output.count("shop.a: not adopted: "))
    assert "`title` of the log is `name`" in done.output
    assert "shop.b: adopted 1 rows at " in done.output
    again = cli("adopt", "shop.a", "shop.b")
    assert (1, 1) == (again.exit_code, again.output.count("shop.a: not adopted: "))


def test_what_was_rejected_is_nothing_to_adopt(shop, cli):
    """Nor on a table of a format that Python cannot write; others go on."""
    shop.another_catalog().load_table("shop.a").append(rows(9))
    shop.open().repair_reject("shop.a")
    path = Path(urlparse(shop.catalog.load_table("shop.a").metadata_location).path)
    stored = json.loads(path.read_text("utf-8")) | {"format-version": 3, "next-row-id": 9}
    path.write_text(json.dumps(stored), "utf-8")
    assert (0, "") == (cli("adopt", "shop.a").exit_code, cli("adopt", "shop.a").output)
    shop.another_catalog().load_table("shop.b").append(rows(9))
    done = cli("adopt")
    assert (0, 1) == (done.exit_code, done.output.count("shop.b: adopted 1 rows at "))


@contextmanager
def watching(lake: Lake, *tables: str) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str]]]:
    """Run `txns adopt --watch` as a process; give it, and its lines as they come."""
    options = ["--catalog", "lake", "--uri", f"sqlite:///{lake.folder}/catalog.db?timeout=30"]
    options += ["--warehouse", f"file://{lake.folder}/warehouse"]
    options += ["adopt", *tables, "--watch", "--every", "100ms"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from txns._cli import main; main()", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: [*map(lines.put, process.stdout or ())], daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_watch_adopts_until_it_is_stopped(shop, number):
    """A line for each adoption; a signal ends it, and is no error."""
    with watching(shop) as (process, lines):
        for value in (7, 8, 9):
            shop.another_catalog().load_table("shop.a").append(rows(value))
            assert lines.get(timeout=WAIT_S).startswith("shop.a: adopted 1 rows at ")
        process.send_signal(number)
        assert 0 == process.wait(WAIT_S)
        assert process.stderr is not None
        assert "" == process.stderr.read()
    assert lines.empty()
    snapshot = shop.open().snapshot()
    assert [1, 2, 7, 8, 9] == ids(snapshot.load_table("shop.a")) == shop.plain_ids("shop.a")
    assert [1, 2] == ids(snapshot.load_table("shop.b"))


def test_what_is_wrong_with_a_table_that_is_named_is_told(shop, cli):
    """Who names it wants to know why nothing is adopted; of all others `txns status` tells."""
    shop.another_catalog().load_table("shop.a").append(rows(9))
    shop.another_catalog().load_table("shop.a").delete("id = 1")
    shop.catalog.create_table("shop.plain", rows(1).schema)
    for name, why in (
        ("shop.a", "txns repair adopt shop.a"),
        ("shop.plain", "txns register shop.plain"),
    ):
        done = cli("adopt", name)
        assert 1 == done.exit_code
        assert f"{name}: not adopted: " in done.output
        assert why in done.output
    assert (0, "") == (cli("adopt").exit_code, cli("adopt").output)


def test_watch_tells_once_that_its_table_is_gone(shop):
    """It may come back."""
    shop.another_catalog().load_table("shop.a").append(rows(8))
    with watching(shop, "shop.a", "shop.b") as (process, lines):
        assert lines.get(timeout=WAIT_S).startswith("shop.a: adopted 1 rows at ")
        shop.catalog.rename_table("shop.a", "shop.other")
        assert process.stderr is not None
        # A warning of the log may stand before it.
        assert next(line for line in process.stderr if "shop.a: not adopted: " in line)
        shop.another_catalog().load_table("shop.b").append(rows(9))
        assert lines.get(timeout=WAIT_S).startswith("shop.b: adopted 1 rows at ")
        shop.catalog.rename_table("shop.other", "shop.a")
        shop.another_catalog().load_table("shop.a").append(rows(9))
        assert lines.get(timeout=WAIT_S).startswith("shop.a: adopted 1 rows at ")


def test_a_look_ends_between_two_tables(shop, cli):
    """There may be thousands, and a catalog that takes a minute for each."""
    parts, looked = shop.open().parts, []

    def is_over():
        looked.append(len(looked))
        return len(looked) > 1

    for name in ("shop.a", "shop.b"):
        shop.another_catalog().load_table(name).append(rows(9))
    assert [("shop", "a")] == [each.identifier for each in adopt_all(parts, is_over)]
    assert cli("adopt").output.startswith("shop.b: adopted 1 rows at ")


@pytest.fixture
def losing(shop, monkeypatch):
    """
    Let each adoption of `shop.a` lose a race.

    Gives the transactions that win, while there are any, and the files before each look.

    1. They append to the table, and are not committed yet. 2. A stranger appends. 3. As often as
    that is to be adopted one of them commits.
    """
    handle = shop.open(apply="next")
    begun = [handle.begin() for _ in range(20)]
    for number, txn in enumerate(begun):
        txn.load_table("shop.a").append(rows(100 + number))
    shop.another_catalog().load_table("shop.a").append(rows(9))
    due, before = Adoption.due, []

    def due_and_late(adoption, table):
        before.append(shop.files())
        found = due(adoption, table)
        if begun:
            begun.pop().commit()
        return found

    monkeypatch.setattr(Adoption, "due", due_and_late)
    return begun, before


def test_what_loses_each_race_is_told(shop, cli, losing):
    """Something was appended, and is not adopted: exit code 1, and a line."""
    for names in ((), ("shop.a",)):
        done = cli("adopt", *names)
        assert (1, 1) == (done.exit_code, done.output.count("shop.a: not adopted: "))
        assert "40001" in done.output
    losing[0].clear()
    done = cli("adopt")
    assert (0, True) == (done.exit_code, "shop.a: adopted 1 rows at " in done.output)
    assert 9 in ids(shop.open().snapshot().load_table("shop.a"))


def test_who_adopts_on_his_way_goes_on(shop, losing):
    """He pauses between his rounds, and the rest is left to who comes next; so are no files."""
    begun, before = losing
    del begun[10:]
    committer, slept_ms = shop.open().parts.committer, shop.clock.slept_ms
    assert [] == committer.adopt(("shop", "a"))
    assert shop.clock.slept_ms > slept_ms
    with pytest.raises(txns.Conflict):
        [*committer.adopting(("shop", "a"))]
    left = shop.files() - before[-1]
    assert ([], []) == (begun, [path for path in left if path.endswith(".avro")])
    assert 1 == len(committer.adopt(("shop", "a")))
