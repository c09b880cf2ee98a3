"""Faults of a database, in the middle of what Spark and Python write to one lake."""

from __future__ import annotations

import functools
import itertools
import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration_tests.cut_connections import Cut, Proxy
from integration_tests.faults import Lake, Writer, carry_out, end
from integration_tests.postgres import Postgres, running_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PYTHON_WRITERS = 3
SHARE_CUT = 0.4
ATTEMPTS_S = 30
"""How long a commit tries (docs/spec.md 11.1)."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server that nobody else uses: it is stopped, and made read-only."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    """What stands in front of it, and can cut connections."""
    with Proxy(postgres.socket) as running:
        yield running


@pytest.fixture
def writers() -> Iterator[ExitStack]:
    """What ends the writers of a test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def lake(postgres: Postgres, tmp_path: Path) -> Lake:
    """A lake in a database that nobody else uses."""
    postgres.create_database(tmp_path.name)
    return Lake(tmp_path, postgres.uri(tmp_path.name)).make()


def _start(
    lake: Lake, postgres: Postgres, proxy: Proxy, stack: ExitStack, apply: str
) -> list[Writer]:
    """Start a Spark driver and Python processes, all by way of the proxy."""
    database, port = lake.folder.name, proxy.port
    spark = lake.spark_writer("spark", postgres.jdbc_uri(database, port=port), apply=apply)
    uri = postgres.uri(database, port=port)
    names = [f"python{number}" for number in range(1, PYTHON_WRITERS + 1)]
    running = [spark, *(lake.writer(name, uri=uri) for name in names)]
    return [stack.enter_context(writer) for writer in running]


@pytest.mark.slow
@pytest.mark.parametrize("apply", ["inline", "atomic"])
def test_what_a_database_does(lake, postgres, proxy, writers, apply):
    """
    Nothing is lost or doubled, and everybody goes on by himself, a Spark driver as well.

    1. It is stopped at once, as by a crash, and started again 2 s later.
    2. It is read-only for 2 s: that is told, in its own words.
    3. Connections are cut for 6 s: before a COMMIT arrives, behind it, and before it arrives
       later. Whether it has landed is told by the log, and by nobody else.
    """
    running = _start(lake, postgres, proxy, writers, apply)
    course = carry_out(lake, running, postgres.stop_at_once, postgres.start, lasts_s=2)
    print("restarted:", course)
    assert course.failed
    assert 0 == course.refused

    course = carry_out(
        lake,
        running,
        lambda: postgres.set_read_only(True),
        lambda: postgres.set_read_only(False),
        lasts_s=2,
    )
    print("read-only:", course)
    assert course.failed
    assert (0, 0) == (course.unknown, course.refused)

    seed = random.randrange(2**32)
    print(f"seed={seed}")
    draw = random.Random(seed)
    kinds = itertools.cycle(draw.sample(list(Cut), len(Cut)))  # each of them, however few there are

    def cut() -> Cut | None:
        return next(kinds) if draw.random() < SHARE_CUT else None

    course = carry_out(
        lake,
        running,
        lambda: setattr(proxy, "draw", cut),
        lambda: setattr(proxy, "draw", lambda: None),
        lasts_s=6,
    )
    print("cut:", course, proxy.cuts)
    assert set(Cut) == set(proxy.cuts)
    assert (0, 0) == (course.unknown, course.refused)
    end(lake, running)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["python", "spark", "spark_atomic"])
def test_a_database_is_cut_off_for_longer_than_attempts_go_on(
    lake, postgres, proxy, writers, language
):
    """
    Whether a commit has landed nobody knows then (08007), until the log can be asked.

    1. The COMMIT of a swap of the log arrives, and its answer does not; or it does not arrive. From
       then on nobody can connect.
    2. After 30 s the writer is told that the outcome is unknown.
    3. With connections it asks by its id: what has landed is not done again, what has not is.
    """
    database, port = lake.folder.name, proxy.port
    if language.startswith("spark"):
        apply = language.removeprefix("spark").removeprefix("_") or "inline"
        uri = postgres.jdbc_uri(database, port=port)
        writer = lake.spark_writer(language, uri, apply=apply)
    else:
        writer = lake.writer(language, uri=postgres.uri(database, port=port))
    writers.enter_context(writer)
    proxy.only = b"/txns/commits/"
    for kind in (Cut.ANSWER, Cut.MESSAGE):
        cut_s = []

        def cut(kind: Cut = kind, cut_s: list[float] = cut_s) -> Cut:
            proxy.refuses = True
            cut_s.append(time.monotonic())
            return kind

        def go_on(cut_s: list[float] = cut_s) -> None:
            told_s = writer.wait_for("unknown", cut_s[0] if cut_s else time.monotonic())
            assert told_s - cut_s[0] > ATTEMPTS_S - 1
            proxy.draw = lambda: None
            proxy.refuses = False

        strike = functools.partial(setattr, proxy, "draw", cut)
        course = carry_out(lake, [writer], strike, go_on, lasts_s=2)
        print(kind, course)
        assert 1 == course.unknown
        assert 0 == course.refused
    assert [Cut.ANSWER, Cut.MESSAGE] == proxy.cuts
    end(lake, [writer])
