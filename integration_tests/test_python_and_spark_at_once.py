"""Python processes and Spark sessions write the same three tables at once: a bank."""

from __future__ import annotations

import itertools
import random
import time
from typing import TYPE_CHECKING

import pytest

from integration_tests import bank, sessions
from integration_tests.background import Background
from integration_tests.drivers import PythonDriver
from integration_tests.python_lake import open_lake, plain
from txns_spark.errors import TransactionConflict, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    import txns


PAUSE_S = 0.1


class Reader:
    """
    Read all tables at one moment, one way after the other.

    Attributes:
        reads: How many reads were made.
        torn: What was wrong with those that were not of one moment.
        states: How many rows the states had that were read.
    """

    def __init__(self, *ways: Callable[[], dict[str, list[bank.Row]]]) -> None:
        self.reads = 0
        self.torn: list[list[str]] = []
        self.states: set[int] = set()
        self._ways = itertools.cycle(ways)

    def turn(self, _number: int) -> None:
        read = next(self._ways)()
        # A machine of two cores is there for the writers.
        time.sleep(PAUSE_S)
        faults = bank.faults(read)
        self.reads += 1
        self.states.add(sum(len(rows) for rows in read.values()))
        if faults:
            self.torn.append(faults)


class SparkWriter:
    """Commit transactions, each until it has won."""

    def __init__(self, session: SparkSession, moves: Iterator[bank.Move]) -> None:
        self.committed: list[str] = []
        self.conflicts = 0
        self._session = session
        self._moves = moves

    def turn(self, _number: int) -> None:
        move = next(self._moves)
        while True:
            try:
                with translated():
                    bank.commit_by_spark(self._session, move)
            except TransactionConflict:
                self.conflicts += 1
                self._session.sql("ROLLBACK")
            else:
                self.committed.append(move.label)
                return


def _python_reader(handle: txns.Handle) -> Reader:
    def in_transaction() -> dict[str, list[bank.Row]]:
        with handle.begin(read_only=True) as txn:
            return bank.read_by_python(txn)

    return Reader(lambda: bank.read_by_python(handle.snapshot()), in_transaction)


def _spark_reader(session: SparkSession) -> Reader:
    def in_transaction() -> dict[str, list[bank.Row]]:
        session.sql("BEGIN READ ONLY")
        found = {
            table: [tuple(row) for row in session.sql(f"SELECT * FROM lake.{table}").collect()]
            for table in bank.TABLES
        }
        session.sql("COMMIT")
        return found

    return Reader(lambda: bank.read_by_spark(session), in_transaction)


class Report:
    """Print figures, and leave them in the report of the run."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def say(self, name: str, value: object) -> None:
        self._record(name, value)
        print(f"{name}: {value}")


def _run(
    folder: Path, session: Callable[[str], SparkSession], report: Report, *, count: int
) -> None:
    """Let two Python processes and two Spark sessions commit `count` transactions each."""
    seed = random.SystemRandom().randrange(2**32)
    report.say("seed", seed)
    bank.make(session(sessions.TXNS))
    handle = open_lake(folder)
    readers = {"Python": _python_reader(handle), "Spark": _spark_reader(session(sessions.TXNS))}
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
        Background(readers["Python"].turn),
        Background(readers["Spark"].turn),
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
    _check_the_end(folder, session, {*by_python, *by_spark})


def _all(threads: Iterator[AbstractContextManager[object]]) -> None:
    """Run until all of them have ended."""
    running = list(threads)
    for thread in running:
        thread.__enter__()
    for thread in running:
        thread.__exit__(None, None, None)


def _check_the_end(
    folder: Path, session: Callable[[str], SparkSession], acknowledged: set[str]
) -> None:
    """Every acknowledged transaction is there once, for each kind of reader, and no other."""
    handle = open_lake(folder)
    assert [] == handle.apply_le()
    handle.tidy()
    reads = [
        bank.read_by_python(handle.catalog()),
        bank.read_by_python(plain(folder)),
        bank.read_by_spark(session(sessions.TXNS)),
        bank.read_by_spark(session(sessions.PLAIN)),
    ]
    for read in reads:
        assert [] == bank.faults(read)
        assert acknowledged == bank.labels(read["db.x"])
        assert {table: sorted(rows) for table, rows in read.items()} == {
            table: sorted(rows) for table, rows in reads[0].items()
        }
    logged = [row["txn_id"] for row in handle.transactions() if row["table_name"] == "db.x"]
    assert sorted(acknowledged) == sorted(txn_id for txn_id in logged if txn_id in acknowledged)


@pytest.fixture
def lake(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> tuple[Path, Callable[[str], SparkSession]]:
    """A lake of its own: its folder, and sessions over it by the class of their catalog."""

    def session(catalog_class: str) -> SparkSession:
        made = new_session()
        options = {"txns.tidy-after": "5"} if catalog_class == sessions.TXNS else {}
        sessions.add_catalog(made, "lake", tmp_path / "lake", catalog_class, **options)
        return made

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
