"""`txns verify-isolation` with sessions of Spark, alone and beside those of Python."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from integration_tests.shared_lake import make_lake
from txns._cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result
    from pyspark.sql import SparkSession

LEAST = 6
"""So many transactions commit at least, also where a slow machine is shared."""
JVM_WITHIN_S = 300
"""Until a driver has begun to work, at most."""


@pytest.fixture
def folder(new_session: Callable[[], SparkSession], tmp_path: Path) -> Path:
    """The folder of a lake of its own."""
    return make_lake(new_session, tmp_path / "lake").folder


def _verify(folder: Path, *options: str) -> Result:
    where = ["--uri", f"sqlite:///{folder}/catalog.db?timeout=30", "--catalog", "lake"]
    out = ["--warehouse", str(folder), "verify-isolation", "--out", str(folder / "told")]
    return CliRunner().invoke(main, [*where, *out, *options], standalone_mode=False)


def _page(folder: Path) -> str:
    (told,) = (folder / "told").iterdir()
    return (told / "page.md").read_text()


def _row(page: str, *cells: str) -> list[int]:
    (line,) = (each for each in page.splitlines() if each.startswith(f"| {' | '.join(cells)} |"))
    return [int(cell) for cell in line.split("|")[1 + len(cells) : -1]]


@pytest.mark.timeout(600)
def test_both_clients_in_one_run(folder):
    """Python and Spark write the same tables at once: no anomaly, and nothing is left."""
    done = _verify(folder, "--client", "both", "--sessions", "4", "--seconds", "15", "--seed", "1")
    assert not done.return_value, done.output
    assert "anomalies=0" in done.output
    assert "stay" not in done.output
    page = _page(folder)
    by_client = _row(page, "committed")
    assert sum(by_client) >= LEAST, page
    assert all(by_client), page
    assert "| Python | Spark |" in page
    (told,) = (folder / "told").iterdir()
    lines = [json.loads(line) for line in (told / "list-append.jsonl").read_text().splitlines()]
    assert {"invoke", "ok"} <= {line["type"] for line in lines}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_snapshot_allows_is_found_in_spark(folder):
    """With reads unprotected, judged by a level that protects them."""
    options = ("--client", "spark", "--level", "snapshot", "--judge-by", "serializable")
    done = _verify(folder, *options, "--sessions", "4", "--seconds", "90", "--seed", "2")
    assert 1 == done.return_value, done.output
    assert "write skew or phantom" in done.output


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_drivers_are_killed(folder):
    """With all that goes on beside them: others finish what is left, and nothing is lost."""
    options = ("--client", "both", "--sessions", "4", "--kill", "--disturb")
    done = _verify(folder, *options, "--seconds", "120", "--seed", "3")
    assert not done.return_value, done.output
    assert "stay" not in done.output
    (told,) = (folder / "told").iterdir()
    assert len([*told.glob("spark-*.log")]) > 1, done.output


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_driver_whose_jvm_ends_is_told(folder):
    """As for want of memory, while Python's sessions go on: it is no run that is verified."""
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(_kill_jvm, folder)
        done = _verify(folder, "--client", "both", "--sessions", "2", "--seconds", "20")
        killed.result()
    assert 1 == done.return_value, done.output
    assert "Spark's driver of session 1 has ended by itself, with exit code 1" in done.output
    assert "committed=0" not in done.output
    (told,) = (folder / "told").iterdir()
    assert "Spark's JVM has ended, with exit code -9" in (told / "spark-0.log").read_text()


def _kill_jvm(folder: Path) -> None:
    """Kill the JVM of a run's driver, when a session of Spark's has begun to work."""
    until = time.monotonic() + JVM_WITHIN_S
    while not any(path.stat().st_size for path in folder.glob("told/*/session-1-0.jsonl")):
        assert time.monotonic() < until
        time.sleep(0.1)
    parents = {int(path.name): _parent(path) for path in Path("/proc").glob("[0-9]*")}
    servers = [pid for pid, parent in parents.items() if parents.get(parent) == os.getpid()]
    (jvm,) = (pid for pid, parent in parents.items() if parent in servers and _is_java(pid))
    os.kill(jvm, signal.SIGKILL)


def _parent(process: Path) -> int:
    """Give the id of a process's parent; 0 where it has ended."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _is_java(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "java\n"
