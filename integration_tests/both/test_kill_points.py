"""Spark drivers die at each point of the protocol, while others write the same tables."""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration_tests import bank, kill_points, sessions
from integration_tests.background import Background
from integration_tests.bank_checks import (
    Report,
    check_the_end,
    python_reader,
    sessions_over,
    spark_reader,
)
from integration_tests.drivers import PythonDriver
from integration_tests.python_lake import open_lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.drivers import Driver

ROUNDS = 10
POINTS = ("STAGING", "AFTER_SWAP", "BETWEEN_APPLIES")
POINTS_OF_TIDY = ("BEFORE_TIDY", "AFTER_TIDY")
# How often at most a victim comes past its point, with the time that it stops.
SKIP = {"STAGING": 13, "AFTER_SWAP": 3, "BETWEEN_APPLIES": 3, "BEFORE_TIDY": 2, "AFTER_TIDY": 2}
# So that a Spark driver starts in a while, and wins now and then, on a machine of two cores.
PAUSE_OF_OTHERS_S = 2.0
PAUSE_OF_READERS_S = 3.0


class Ledger(NamedTuple):
    """
    What a lake has to hold: transactions that have committed, and that never will.

    Of those in `open` nobody can tell: a writer also applies what the one before it has left, and
    may die of that before its own swap.
    """

    there: set[str]
    lost: set[str]
    open: set[str]

    def add(self, point: str, said: list[list[str]]) -> None:
        """Note what a victim had begun and committed, and what it was at when it died."""
        self.there.update(label for word, label in said if word == "committed")
        last_word, label = said[-1]
        assert last_word == "begins"
        told = {"STAGING": self.lost, "BETWEEN_APPLIES": self.open}
        told.get(point, self.there).add(label)


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stops a driver."""
    return kill_points.make_jar(tmp_path_factory.mktemp("kill-points"))


@pytest.fixture
def session(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> Callable[[str], SparkSession]:
    """Sessions over a lake with a bank, by the class of their catalog."""
    made = sessions_over(new_session, tmp_path / "lake")
    spark = made(sessions.TXNS)
    spark.sql("CREATE NAMESPACE lake.db")
    bank.make(spark)
    return made


@pytest.fixture
def victim(jar: Path, tmp_path: Path) -> Callable[[str, str, int], Driver]:
    """Start a driver of a name that stops at a point, which it comes past so often before."""

    def start(name: str, point: str, skip: int) -> Driver:
        return kill_points.victim(jar, tmp_path / "lake", name, point=point, skip=skip)

    return start


def _kill_all(victims: dict[str, Driver], check: Callable[[], None], ledger: Ledger) -> None:
    """Kill each victim at its point, and check after each."""
    with ExitStack() as running:
        for driver in victims.values():
            running.enter_context(driver)
        for point, driver in victims.items():
            ledger.add(point, kill_points.kill_at(point, driver))
            check()


def _check_now(folder: Path, spark: SparkSession, ledger: Ledger) -> None:
    """Who reads through the protocol sees all of what has committed, and nothing else."""
    for read in (bank.read_by_spark(spark), bank.read_by_python(open_lake(folder).snapshot())):
        assert [] == bank.faults(read)
        labels = bank.labels(read["db.x"])
        assert ledger.there <= labels, "lost"
        assert not ledger.lost & labels, "committed by nobody"


def _check_the_end(
    folder: Path, session: Callable[[str], SparkSession], ledger: Ledger, *, others: int
) -> None:
    """The others were killed as well: each may have committed once without saying so."""
    committed = bank.labels(bank.read_by_python(open_lake(folder).snapshot())["db.x"])
    assert ledger.there <= committed
    assert len(committed - ledger.there - ledger.open) <= others
    assert not ledger.lost & committed
    check_the_end(folder, session, committed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_at_each_point_under_load(
    session: Callable[[str], SparkSession],
    victim: Callable[[str, str, int], Driver],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """
    Nothing is lost, doubled or torn, while others write and read the same tables.

    1. Two Python processes commit to three tables all the time; one does not apply.
    2. A Spark driver for each point commits to them as well, until it stops: it is killed there.
    3. What it had staged is nowhere, what it had swapped is everywhere; ten times.
    """
    seed, report = random.SystemRandom().randrange(2**32), Report(record_property)
    report.say("seed", seed)
    draw = random.Random(seed)
    folder, spark = tmp_path / "lake", session(sessions.TXNS)
    ledger, killed = Ledger(set(), set(), set()), Counter[str]()
    load = {"count": sys.maxsize, "seed": seed, "pause_s": PAUSE_OF_OTHERS_S}
    readers = [python_reader(open_lake(folder)), spark_reader(session(sessions.TXNS))]
    log = tmp_path / "others.log"
    with (
        PythonDriver("bank", folder, "one", log, **load) as one,
        PythonDriver("bank", folder, "two", log, **load, apply="next") as two,
        Background(readers[0].turn, pause_s=PAUSE_OF_READERS_S),
        Background(readers[1].turn, pause_s=PAUSE_OF_READERS_S),
    ):
        for number in range(ROUNDS):
            points = [*POINTS, POINTS_OF_TIDY[number % 2]]
            victims = {
                point: victim(f"{seed} {point} {number}", point, draw.randrange(SKIP[point]))
                for point in points
            }
            _kill_all(victims, lambda: _check_now(folder, spark, ledger), ledger)
            killed.update(points)
            print(f"round {number}: killed at {points}", flush=True)
    report.say("kills", dict(killed))
    report.say("committed by victims", len(ledger.there))
    ledger.there.update(line.split()[1] for each in (one, two) for line in each.lines)
    _check_the_end(folder, session, ledger, others=2)
    for reader in readers:
        assert [] == reader.torn
        assert len(reader.states) > ROUNDS
    report.say("committed in all", len(ledger.there))
    report.say("reads, none torn", sum(reader.reads for reader in readers))
