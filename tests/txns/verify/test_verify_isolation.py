"""`txns verify-isolation` on a catalog: sessions of their own processes, judged and cleaned up.

Those of Spark are in integration_tests/both/test_verify_isolation.py.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib import util
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError

from txns._cli import exit_codes, main
from txns._verify import disturbances, python_client, spark_client, spark_driver
from txns._verify import run as verify_run
from txns._verify.disturbances import STRANGERS_FROM
from txns._verify.history import Deed
from txns._verify.model import Row
from txns._verify.plan import clients_of
from txns._verify.processes import Worker
from txns._verify.run import Verdict
from txns._verify.session import journal_name, work
from txns._verify.statements import arrow
from txns._verify.workloads import EVENTS, TABLES
from txns.errors import InvalidUsage

WAIT_S = 240


def _where(lake):
    where = ["--uri", f"sqlite:///{lake.folder}/catalog.db?timeout=30", "--catalog", "lake"]
    return [*where, "--warehouse", f"file://{lake.folder}/warehouse", "verify-isolation"]


def _command(lake):
    return [sys.executable, "-c", "from txns._cli import main; main()", *_where(lake)]


def _verify(lake, *options):
    out = ["--out", str(lake.folder / "told")]
    return CliRunner().invoke(main, [*_where(lake), *out, *options], standalone_mode=False)


@pytest.mark.parametrize(
    "kill", [(), pytest.param(("--kill",), marks=pytest.mark.slow)], ids=["", "killed"]
)
@pytest.mark.usefixtures("handle")
def test_a_run_finds_nothing_and_leaves_nothing(lake, kill):
    """Journals, a page, and Elle's history are there; tables and namespace are gone."""
    done = _verify(lake, "--seconds", "6", "--sessions", "2", "--seed", "3", *kill)
    assert not done.return_value, done.output
    assert "anomalies=0" in done.output
    (folder,) = (lake.folder / "told").iterdir()
    page = (folder / "page.md").read_text()
    assert "None." in page
    told = (
        "6 s of 2 sessions at STRICT SERIALIZABLE, judged by STRICT SERIALIZABLE, conflicts by file"
    )
    assert f"On the catalog `lake` with the log `txns.commits`, {told}, seed 3: committed=" in page
    lines = [json.loads(line) for line in (folder / "list-append.jsonl").read_text().splitlines()]
    assert {"invoke", "ok"} <= {line["type"] for line in lines}
    assert lines == json.loads((folder / "list-append.json").read_text())
    assert [("shop",), ("txns",)] == sorted(lake.catalog.list_namespaces())
    assert "stay" not in done.output


@pytest.mark.slow
@pytest.mark.usefixtures("handle")
def test_what_goes_on_beside_the_sessions(lake):
    """Compaction, expiry and a stranger, all of them killed as well: it is told how often."""
    options = ("--seconds", "30", "--sessions", "3", "--seed", "5", "--kill", "--disturb")
    done = _verify(lake, *options)
    assert not done.return_value, done.output
    assert "stay" not in done.output
    (folder,) = (lake.folder / "told").iterdir()
    page = (folder / "page.md").read_text()
    for word in ("compacted", "expired", "adopted"):
        assert f" times: {word}\n" in page, page


@contextmanager
def _running(lake):
    """Run it for ten minutes as a process, and give that when a session has begun to work."""
    told = lake.folder / "told"
    options = ["--seconds", "600", "--sessions", "2", "--out", str(told)]
    with (lake.folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*_command(lake), *options],
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + WAIT_S
        while not any(each.stat().st_size for each in told.glob("*/session-*.jsonl")):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        signal.SIGTERM,
    ],
)
@pytest.mark.usefixtures("handle")
def test_one_that_is_stopped_leaves_nothing(lake, number):
    """
    Its tables and its namespace go, its sessions end, and say nothing of that.

    Ctrl-C reaches all processes of a terminal, as does its end, after which nobody reads it.
    """
    with _running(lake) as process:
        (os.kill if number == signal.SIGTERM else os.killpg)(process.pid, number)
        assert exit_codes.STOPPED == process.wait(WAIT_S)
    assert [("shop",), ("txns",)] == sorted(lake.another_catalog().list_namespaces())
    said = (lake.folder / "said").read_text()
    assert number == signal.SIGHUP or "Traceback" not in said
    assert "stopped before it was judged" in said


@pytest.mark.slow
@pytest.mark.usefixtures("handle")
def test_one_that_nobody_listens_to_leaves_nothing(lake):
    """As before `| head -0`: it ends where it first says something."""
    command = [*_command(lake), "--seconds", "600", "--out", str(lake.folder / "told")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait(WAIT_S)
    assert [("shop",), ("txns",)] == sorted(lake.another_catalog().list_namespaces())


def test_what_a_stranger_has_left_keeps_no_table(lake, handle):
    """It was stopped between its append and the adoption."""
    names = {name: f"shop.{name}" for name in TABLES}
    verify_run.make_tables(handle, names)
    stranger = lake.another_catalog().load_table(names[EVENTS])
    stranger.append(arrow([Row(STRANGERS_FROM, 4, 0)]))
    verify_run.drop_tables(handle, names)
    assert [] == lake.catalog.list_tables("shop")


@pytest.mark.usefixtures("handle")
def test_who_may_not_make_a_namespace_is_told(lake, monkeypatch):
    """Before any session begins; no folder is left."""

    def refuse(*_args, **_options):
        raise ForbiddenError("no rights on txns_verify")

    monkeypatch.setattr(SqlCatalog, "create_namespace", refuse)
    done = _verify(lake)
    assert isinstance(done.exception, click.UsageError)
    assert "the right to make and drop one" in str(done.exception)
    assert "no rights on txns_verify" in str(done.exception)
    assert [] == [*(lake.folder / "told").iterdir()]


@pytest.mark.usefixtures("handle")
def test_where_there_is_no_room_for_the_page_the_verdict_is_told(lake, monkeypatch):
    """What a run of hours has found."""
    workers = [Worker(_fails, [1])]
    monkeypatch.setattr(verify_run, "workers_of", lambda *_args, **_options: workers)

    def write_text(*_args, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", write_text)
    done = _verify(lake, "--seconds", "1", "--sessions", "2")
    assert isinstance(done.exception, OSError)
    assert "no transaction that writes has committed" in done.output
    assert "committed=0" in done.output


@pytest.mark.usefixtures("handle")
def test_sessions_end_with_who_leads_them(lake):
    """Where it was killed, nobody stops them."""
    with _running(lake) as process:
        sessions = [pid for pid, parent in _processes() if parent == process.pid]
        assert len(sessions) > 1
        process.kill()
        process.wait()
        until = time.monotonic() + WAIT_S
        while left := {*sessions} & {pid for pid, _ in _processes()}:
            assert time.monotonic() < until, left
            time.sleep(0.1)


def _processes():
    """Give the ids of all processes, and of their parents; not of those that have ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if state != "Z":
                yield int(path.parent.name), int(parent)


def test_a_run_in_which_nothing_has_committed_shows_nothing():
    """It is not told as one without an anomaly."""
    verdict = Verdict([Deed("one", 0, 0, 1)], [])
    assert ["no transaction that writes has committed: nothing is shown"] == verdict.doubts
    standing = Deed("two", 0, 0, 1, wrote=True, commit_ts=2)
    assert [] == Verdict([standing], []).doubts
    assert ["it hangs"] == Verdict([standing], [], wrong=["it hangs"]).doubts


@pytest.mark.usefixtures("handle")
def test_a_session_that_dies_of_itself_is_told(lake, monkeypatch):
    """So is one whose transactions do not begin: it goes on, and may do better."""
    workers = [Worker(_dies, [0]), Worker(_fails, [1])]
    monkeypatch.setattr(verify_run, "workers_of", lambda *_args, **_options: workers)
    done = _verify(lake, "--seconds", "2", "--sessions", "2")
    assert 1 == done.return_value, done.output
    assert "session 0 has ended by itself, with exit code 7" in done.output
    assert "no transaction that writes has committed" in done.output
    assert "times: OSError: the catalog is away, password=***\n" in done.output
    (folder,) = (lake.folder / "told").iterdir()
    page = (folder / "page.md").read_text()
    assert "times: OSError: the catalog is away" in page
    assert "session 0 has ended by itself" in page
    assert not [each for each in folder.iterdir() if "hunter2" in each.read_text()]


def _dies(_plan, timing, _sessions, _life):
    timing.wait("session-0")
    os._exit(7)


@pytest.mark.slow
@pytest.mark.usefixtures("handle")
def test_one_that_dies_of_itself_is_told_where_others_are_killed(lake, monkeypatch):
    """Another one begins in its place, as after a kill, and that is no cure."""
    monkeypatch.setattr(verify_run, "workers_of", lambda *_args, **_options: [Worker(_tires, [0])])
    done = _verify(lake, "--seconds", "12", "--sessions", "1", "--kill")
    assert 1 == done.return_value, done.output
    assert "session 0 has ended by itself, with exit code 7" in done.output


def _tires(plan, timing, sessions, life):
    """Write something down, and end; who comes after it works on."""
    if life:
        python_client.run(plan, timing, sessions, life)
        return
    Path(plan.folder, journal_name(sessions[0], life)).write_text('{"failed": "soon"}\n')
    _dies(plan, timing, sessions, life)


@pytest.mark.usefixtures("handle")
def test_a_driver_that_ends_by_itself_is_told(lake, monkeypatch):
    """While others go on, and commit."""
    workers = [Worker(python_client.run, [0]), Worker(_loses_its_driver, [1, 2])]
    monkeypatch.setattr(verify_run, "workers_of", lambda *_args, **_options: workers)
    done = _verify(lake, "--seconds", "4", "--sessions", "3")
    assert "committed=0" not in done.output
    assert 1 == done.return_value, done.output
    assert "session 1 and session 2 has ended by itself, with exit code 1" in done.output
    (folder,) = (lake.folder / "told").iterdir()
    failed = [*(folder / journal_name(1, 0)).read_text().splitlines()]
    assert len(failed) <= 1, failed  # it does not ask again and again


def _loses_its_driver(plan, timing, sessions, life):
    spark_driver._PROGRAM = "tests.txns.verify.driver_that_ends"
    spark_client.run(plan, timing, sessions, life)


class _Away:
    def begin(self):
        raise OSError("the catalog is away, password=hunter2; at=`now`")


def _fails(plan, timing, sessions, life):
    timing.wait("session-1")
    work(plan, timing, _Away(), sessions[0], life)


def test_the_rows_of_a_stranger_are_there_once(tmp_path):
    """Each that it was told of is; one whose append was cut off may be."""
    first, second, third = (STRANGERS_FROM + number for number in range(3))
    lines = [
        {"deed": "appends", "row": first},
        {"deed": "adopted", "row": first},
        {"deed": "appends", "row": second},
        {"deed": "failed", "why": "ForeignWrite: once; again"},
        {"deed": "expired", "snapshots": 2},
    ]
    told = "\n".join(map(json.dumps, lines)) + '\n{"deed": "app'
    (tmp_path / disturbances.journal_name("stranger", 3)).write_text(told)
    beside = disturbances.read(tmp_path)
    assert 1 == beside.deeds["failed: ForeignWrite: once"]
    assert 2 == beside.deeds["snapshots that expiry has taken"]

    def wrong(*ids):
        return [*beside.wrong(tuple(Row(each, 4, 0) for each in ids))]

    assert [] == wrong(first)
    assert [] == wrong(first, second)
    assert [f"of a stranger's rows lost [{first}], more []"] == wrong(second)
    assert [f"of a stranger's rows lost [], more [{first}]"] == wrong(first, first)
    assert [f"of a stranger's rows lost [], more [{third}]"] == wrong(first, third)


def test_of_both_clients_every_other_session_is_sparks():
    assert ("python", "spark", "python") == clients_of("both", 3)
    assert ("spark", "spark") == clients_of("spark", 2)


@pytest.mark.usefixtures("handle")
def test_both_are_two_sessions_at_least(lake):
    done = _verify(lake, "--client", "both", "--sessions", "1")
    assert isinstance(done.exception, click.UsageError)
    assert not (lake.folder / "told").exists()


@pytest.mark.usefixtures("handle")
def test_where_there_is_no_spark_it_is_told_what_to_install(lake, monkeypatch):
    """Before anything is made."""
    real = util.find_spec
    monkeypatch.setattr(
        "txns._verify.spark_driver.find_spec",
        lambda name: None if name == "pyspark" else real(name),
    )
    done = _verify(lake, "--client", "spark")
    assert isinstance(done.exception, InvalidUsage)
    assert "need pyspark: `pip install '.[spark]'`" in str(done.exception)
    assert [("shop",), ("txns",)] == sorted(lake.catalog.list_namespaces())


@pytest.mark.slow
@pytest.mark.usefixtures("handle")
def test_what_snapshot_allows_is_found(lake):
    """With reads unprotected, judged by a level that protects them: within a few hundred."""
    options = ("--seconds", "12", "--sessions", "3", "--level", "snapshot", "--seed", "6")
    done = _verify(lake, *options, "--judge-by", "serializable")
    assert 1 == done.return_value, done.output
    assert "write skew or phantom" in done.output
