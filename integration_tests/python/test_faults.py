"""Faults of databases, disks, storage and clocks, in the middle of what processes write."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import txns
from integration_tests.fault_program import SCHEMA
from integration_tests.faults import (
    Lake,
    ObjectStore,
    carry_out,
    check_order,
    end,
    fill,
    small_filesystem,
    wrong_clock,
)
from integration_tests.postgres import Postgres, running_postgres
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITERS = 4
FULL = ("files", "database")
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server that nobody else uses: it is stopped, and made read-only."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> str:
    """The name of an empty database."""
    name = f"lake_{next(_NUMBERS)}"
    postgres.create_database(name)
    return name


@pytest.fixture
def writers() -> Iterator[ExitStack]:
    """What ends the writers of a test."""
    with ExitStack() as stack:
        yield stack


def _start(lake: Lake, stack: ExitStack, count: int = WRITERS, **options):
    return [
        stack.enter_context(lake.writer(f"w{number}", **options)) for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(
    ("full", "lasts_s"),
    [
        ("both", 4),
        pytest.param("files", 4, marks=pytest.mark.slow),
        # Longer than attempts go on: what a database has told is no unknown outcome.
        pytest.param("database", 34, marks=pytest.mark.slow),
    ],
)
def test_the_disk_is_full(full, lasts_s, writers, tmp_path: Path):
    """
    What cannot be written is told as the disk's own error; with room again all go on.

    The disk is a tmpfs of 48 MiB, for the warehouse, SQLite's database, or both.
    """
    try:
        disk = writers.enter_context(small_filesystem(tmp_path / "disk", 48))
    except PermissionError as error:
        pytest.skip(f"a small file system has to be mounted: {error}")
    files, database = (disk if full in {"both", each} else tmp_path for each in FULL)
    uri = f"sqlite:///{database}/catalog.db?timeout=60"
    lake = Lake(tmp_path, uri, warehouse=f"file://{files}/files").make()
    running = _start(lake, writers)
    course = carry_out(lake, running, lambda: fill(disk), (disk / "filler").unlink, lasts_s=lasts_s)
    end(lake, running)
    print(course)
    assert course.failed
    assert (0, 0) == (course.unknown, course.refused)


@pytest.mark.slow
def test_a_storage_call_hangs(writers, tmp_path: Path):
    """
    It ends by its time-out, and who writes other tables goes on all the while.

    The store is a process that is stopped; the log and the other tables are on the local disk.
    """
    store = writers.enter_context(ObjectStore(tmp_path))
    lake = Lake(
        tmp_path,
        f"sqlite:///{tmp_path}/catalog.db?timeout=60",
        tables=["shop.a", "shop.b", "shop.far"],
        locations={"shop.far": f"s3://{store.bucket}/far"},
        options=store.options,
    ).make()
    near = [writers.enter_context(lake.writer(name, tables=["shop.a"])) for name in ("n1", "n2")]
    far = writers.enter_context(lake.writer("far", tables=["shop.far", "shop.b"]))
    hung_s = []

    def hang() -> None:
        store.hang()
        hung_s.append(time.monotonic())

    def go_on() -> None:
        far.wait_for("failed", hung_s[0])
        hung_s.append(time.monotonic())
        store.go_on()

    course = carry_out(lake, [*near, far], hang, go_on, lasts_s=0)
    end(lake, [*near, far])
    began_s, ended_s = hung_s
    print(f"told after {ended_s - began_s:.1f} s;", course)
    for writer in near:
        done = [s for s in writer.said if s.word == "committed" and began_s < s.at_s < ended_s]
        assert len(done) > 1
    assert 0 == course.unknown


@pytest.mark.slow
def test_hosts_whose_clocks_are_wrong(postgres, database, writers, tmp_path: Path):
    """
    Hours and days apart, they commit in one order, and nobody destroys what is younger.

    1. A transaction begins, one under an id commits, and a table is dropped.
    2. Hosts write whose clocks are right, an hour fast, and an hour slow; then one 8 days fast.
    3. The transaction commits, the id is known, and the drop is as young as it was.
    4. Those who are wrong are told so, whatever they want to destroy.
    """
    lake = Lake(tmp_path, postgres.uri(database)).make()
    handle = txns.open(lake.catalog())
    for name in ("shop.old", "shop.gone"):
        handle.catalog().create_table(name, SCHEMA)
    row = pa.table({"id": ["once"]}, schema=SCHEMA)
    long = handle.begin()
    long.load_table("shop.old").append(row)
    with handle.begin(txn_id="once") as txn:
        txn.load_table("shop.old").append(row)
    handle.catalog().drop_table("shop.gone")
    clocks = {"right": {}, "fast": wrong_clock("+1h"), "slow": wrong_clock("-1h")}
    days = wrong_clock("+8d")
    running = [
        writers.enter_context(lake.writer(name, environment=clock))
        for name, clock in clocks.items()
    ]

    def strike() -> None:
        running.append(writers.enter_context(lake.writer("days", environment=days)))
        running[-1].wait_for("committed", 0)

    course = carry_out(lake, running, strike, lambda: None, lasts_s=1)
    end(lake, running)
    print(course)
    check_order(lake, running)
    assert not course.failed
    long.commit()
    assert handle.begin(txn_id="once").committed
    files = sorted(tmp_path.rglob("files/**/*"))
    for name, clock in {**clocks, "days": days}.items():
        program = lake.writer(
            f"{name}-destroys", what="destroy", tables=["shop.gone", "shop.old"], environment=clock
        )
        writers.enter_context(program).join()
        told = {each.word: each.words for each in program.said}
        assert ["purge", "expire", "tidy"] == list(told)
        purge = "0A000" if name == "right" else "58000"
        assert told["purge"].startswith(purge)
        assert told["expire"].startswith("done" if name == "right" else "58000")
        assert "done []" == told["tidy"]
    assert set(files) <= {*tmp_path.rglob("files/**/*")}
    assert ["once", "once"] == list(lake.ids("shop.old").elements())
    assert [] == check_all(handle.parts).violations
