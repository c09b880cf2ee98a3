"""Read the bank beside its writers, and check its tables when they have ended."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from integration_tests import bank, sessions
from integration_tests.python_lake import open_lake, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    import txns


def sessions_over(
    new_session: Callable[[], SparkSession], folder: Path
) -> Callable[[str], SparkSession]:
    """Return what makes sessions over the catalog `lake` of a folder, by its class."""

    def session(catalog_class: str) -> SparkSession:
        made = new_session()
        options = {"txns.tidy-after": "5"} if catalog_class == sessions.TXNS else {}
        sessions.add_catalog(made, "lake", folder, catalog_class, **options)
        return made

    return session


class Report:
    """Print figures, and leave them in the report of the run."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._record = record

    def say(self, name: str, value: object) -> None:
        """Report one figure."""
        self._record(name, value)
        print(f"{name}: {value}", flush=True)


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
        """Read once."""
        read = next(self._ways)()
        faults = bank.faults(read)
        self.reads += 1
        self.states.add(sum(len(rows) for rows in read.values()))
        if faults:
            self.torn.append(faults)


def python_reader(handle: txns.Handle) -> Reader:
    """Read by Python, outside and inside of a transaction."""

    def in_transaction() -> dict[str, list[bank.Row]]:
        with handle.begin(read_only=True) as txn:
            return bank.read_by_python(txn)

    return Reader(lambda: bank.read_by_python(handle.snapshot()), in_transaction)


def spark_reader(session: SparkSession) -> Reader:
    """Read by Spark, outside and inside of a transaction."""

    def in_transaction() -> dict[str, list[bank.Row]]:
        session.sql("BEGIN READ ONLY")
        found = {
            table: [tuple(row) for row in session.sql(f"SELECT * FROM lake.{table}").collect()]
            for table in bank.TABLES
        }
        session.sql("COMMIT")
        return found

    return Reader(lambda: bank.read_by_spark(session), in_transaction)


def check_the_end(
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
