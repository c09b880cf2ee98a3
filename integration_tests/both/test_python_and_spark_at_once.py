"""Python processes and Spark sessions write the same three tables at once: a bank."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from integration_tests import bank, sessions
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
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

# A machine of two cores is there for the writers.
PAUSE_S = 0.1


class SparkWriter:
    """Commit transactions, each until it has won."""

    def __init__(self, session: SparkSession, moves: Iterator[bank.Move]) -> None:
        self.committed: list[str] = []
        self.conflicts = 0
        self._session = session
        self._moves = moves

    def turn(self, _number: int) -> None:
        move = next(self._moves)
        self.conflicts += bank.win_by_spark(self._session, move)
        self.committed.append(move.label)


def _run(
    folder: Path, session: Callable[[str], SparkSession], report: Report, *, count: int
) -> None:
    """Let two Python processes and two Spark sessions commit `count` transactions each."""
    seed = random.SystemRandom().randrange(2**32)
    report.say("seed", seed)
    bank.make(session(sessions.TXNS))
    handle = open_lake(folder)
    readers = {"Python": python_reader(handle), "Spark": spark_reader(session(sessions.TXNS))}
    spark_count = max(1, count // 4)
    writers = [
        SparkWriter(session(sessions.TXNS), bank.moves(name, spark_count, seed))
        for name in ("spark one", "spark two")
    ]
    log = folder.parent / "python.log"
    options = {"count": count, "seed": seed, "tidy_after": 5}
    with (
        PythonDriver("bank", folder, "python one", log, **options) as one,
        PythonDriver("bank", folder, "python two", log, **options, apply="next") as two,
        Background(readers["Python"].turn, pause_s=PAUSE_S),
        Background(readers["Spark"].turn, pause_s=PAUSE_S),
    ):
        _all(Background(writer.turn, turns=spark_count) for writer in writers)
        lines = [line.split(maxsplit=1) for each in (one, two) for line in each.read_to_end()]

    by_python = [what for word, what in lines if word == "committed"]
    by_spark = [label for writer in writers for label in writer.committed]
    report.say("transactions of Python", len(by_python))
    report.say("transactions of Spark", len(by_spark))
    report.say("conflicts of Python", sum(int(what) for word, what in lines if word == "conflicts"))
    report.say("conflicts of Spark", sum(writer.conflicts for writer in writers))
    for name, reader in readers.items():
        report.say(f"torn reads of {name}", f"{len(reader.torn)} of {reader.reads}")
    for reader in readers.values():
        assert [] == reader.torn
        # The reads were not all of one state: the test would see a tear.
        assert len(reader.states) > 2
    assert (2 * count, 2 * spark_count) == (len(by_python), len(by_spark))
    check_the_end(folder, session, {*by_python, *by_spark})


def _all(threads: Iterator[AbstractContextManager[object]]) -> None:
    """Run until all of them have ended."""
    running = list(threads)
    for thread in running:
        thread.__enter__()
    for thread in running:
        thread.__exit__(None, None, None)


@pytest.fixture
def lake(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> tuple[Path, Callable[[str], SparkSession]]:
    """A lake of its own: its folder, and sessions over it by the class of their catalog."""
    session = sessions_over(new_session, tmp_path / "lake")
    session(sessions.TXNS).sql("CREATE NAMESPACE lake.db")
    return tmp_path / "lake", session


def test_a_bank_of_both(
    lake: tuple[Path, Callable[[str], SparkSession]], record_property: Callable[..., None]
) -> None:
    """The sum never changes, no read is torn, and every row is accounted for."""
    _run(*lake, Report(record_property), count=12)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_large_bank_of_both(
    lake: tuple[Path, Callable[[str], SparkSession]], record_property: Callable[..., None]
) -> None:
    """The same with a few hundred transactions."""
    _run(*lake, Report(record_property), count=100)
