"""Spark drivers die at each point of the protocol, while others write the same tables."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration_tests import bank, kill_points, sessions
from integration_tests.background import Background
from integration_tests.bank_checks import (
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

KILLS = 10
# So that a Spark driver wins now and then.
PAUSE_OF_OTHERS_S = 0.5
SKIP_MAX = {"STAGING": 12, "AFTER_SWAP": 2, "BETWEEN_APPLIES": 2, "BEFORE_TIDY": 1, "AFTER_TIDY": 1}


class Ledger(NamedTuple):
    """What a lake has to hold: transactions that have committed, and that never will."""

    there: set[str]
    lost: set[str]


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
    assert len(committed - ledger.there) <= others
    assert not ledger.lost & committed
    check_the_end(folder, session, committed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "points",
    [["STAGING"], ["AFTER_SWAP"], ["BETWEEN_APPLIES"], ["BEFORE_TIDY", "AFTER_TIDY"]],
    ids=["while staging", "after the swap", "between two applies", "during tidy"],
)
def test_killed_at_a_point_under_load(
    session: Callable[[str], SparkSession],
    victim: Callable[[str, str, int], Driver],
    tmp_path: Path,
    points: list[str],
    record_property: Callable[[str, object], None],
) -> None:
    """
    Nothing is lost, doubled or torn, while others write and read the same tables.

    1. Two Python processes commit to three tables all the time; one does not apply.
    2. A Spark driver commits to them as well, and stops at a point: it is killed there.
    3. What it had staged is nowhere, what it had swapped is everywhere; ten times.
    """
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed={seed}")
    draw = random.Random(seed)
    folder, spark = tmp_path / "lake", session(sessions.TXNS)
    ledger = Ledger(set(), set())
    load = {"count": sys.maxsize, "seed": seed, "pause_s": PAUSE_OF_OTHERS_S}
    readers = [python_reader(open_lake(folder)), spark_reader(session(sessions.TXNS))]
    log = tmp_path / "others.log"
    with (
        PythonDriver("bank", folder, "one", log, **load) as one,
        PythonDriver("bank", folder, "two", log, **load, apply="next") as two,
        Background(readers[0].turn),
        Background(readers[1].turn),
    ):
        for number in range(KILLS):
            point = points[number % len(points)]
            name = f"{seed} {point} {number}"
            with victim(name, point, draw.randrange(SKIP_MAX[point] + 1)) as driver:
                said = kill_points.lines_until_stopped(driver)
            ledger.there.update(label for word, label in said if word == "committed")
            (ledger.lost if point == "STAGING" else ledger.there).add(said[-1][1])
            _check_now(folder, spark, ledger)
    figures = {"kills": KILLS, "committed by victims": len(ledger.there)}
    ledger.there.update(line.split()[1] for each in (one, two) for line in each.lines)
    _check_the_end(folder, session, ledger, others=2)
    for reader in readers:
        assert [] == reader.torn
    figures["committed in all"] = len(ledger.there)
    figures["reads"] = sum(reader.reads for reader in readers)
    for figure, value in figures.items():
        record_property(figure, value)
    print(figures)
