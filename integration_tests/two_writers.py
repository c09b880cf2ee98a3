"""Two writes of one table at once: under care, and on a plain Iceberg table."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyspark.errors import PySparkException

import txns
from integration_tests import sessions
from integration_tests.python_lake import open_lake, plain
from integration_tests.write_cases import FIRST, SCHEMA, Rows, Run, Write, batch
from txns_spark.errors import translation

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

OUTSIDE = "outside"
_ROW_LEVEL = ("merge", "update", "delete")
_ICEBERG = "org.apache.iceberg.exceptions."
_REFUSED = (f"{_ICEBERG}ValidationException", f"{_ICEBERG}CommitFailedException")


class Cell(NamedTuple):
    """
    Two writes at once.

    Attributes:
        first: The one that commits first.
        second: The one that has begun before the first one commits, and ends behind it.
        mode: How the table's rows are changed: copy-on-write or merge-on-read.
        level: The isolation level of both, or `OUTSIDE` for two single statements.
    """

    first: Write
    second: Write
    mode: str
    level: str

    def __str__(self) -> str:
        return f"{self.second.name} while {self.first.name}, {self.mode}, {self.level}"


class Outcome(NamedTuple):
    """
    What became of the two.

    Attributes:
        both: Whether the second one was committed; the first one always is.
        rows: The table's rows in the end.
    """

    both: bool
    rows: Rows


class Gate:
    """The function `gate` of a session: a statement's first row waits in it until it is opened."""

    def __init__(self, folder: Path, session: SparkSession) -> None:
        self._reached, self._open = folder / "reached", folder / "open"
        reached, opened = str(self._reached), str(self._open)

        def wait(value: int) -> int:
            try:
                # One row alone: Spark's second thread is for the other statement.
                Path(reached).touch(exist_ok=False)
            except FileExistsError:
                return value
            while not Path(opened).exists():
                time.sleep(0.005)
            return value

        session.udf.register("gate", wait, "BIGINT")

    def close(self) -> None:
        self._reached.unlink(missing_ok=True)
        self._open.unlink(missing_ok=True)

    def open(self) -> None:
        self._open.touch()

    def wait_until_reached(self, statement: Future[bool]) -> None:
        """Wait until a statement stands at the gate: it has planned its scans then."""
        while not self._reached.exists():
            assert not statement.done(), f"it ended before any row: {statement.exception()}"
            time.sleep(0.005)


class Lake:
    """Tables of one catalog, with sessions of Spark's over it."""

    def __init__(
        self, root: SparkSession, folder: Path, catalog_class: str, catalog: Callable[[], Catalog]
    ) -> None:
        self.catalog = catalog
        self.sessions = [self._session(root, folder, catalog_class) for _ in range(2)]
        self._held = self._session(root, folder, catalog_class)
        self._gate = Gate(folder, self._held)
        self._numbers = itertools.count(1)
        catalog().create_namespace("db")

    @staticmethod
    def _session(root: SparkSession, folder: Path, catalog_class: str) -> SparkSession:
        session = root.newSession()
        sessions.add_catalog(session, "lake", folder, catalog_class)
        session.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        return session

    def new_table(self, mode: str) -> str:
        """Make a table with its first rows; return its name without the catalog."""
        name = f"db.t{next(self._numbers)}"
        modes = {f"write.{what}.mode": mode for what in _ROW_LEVEL}
        self.catalog().create_table(name, SCHEMA, properties=modes).append(batch(FIRST))
        return name

    def rows(self, table: str) -> Rows:
        found = self.catalog().load_table(table).scan().to_arrow().to_pylist()
        return Counter((row["id"], row["v"]) for row in found)

    def statements(self, cell: Cell) -> Outcome:
        """
        Run two writes as single statements.

        1. The second one loads the table, plans its scans of it, and waits at the gate.
        2. The first one runs and commits.
        3. The second one writes its rows and commits.
        """
        table = self.new_table(cell.mode)
        if cell.second.python:
            loaded, write = self.catalog().load_table(table), cell.second.python
            self._run_first(table, cell.first)
            return Outcome(not _is_refused(lambda: write(loaded, 2)), self.rows(table))
        self._gate.close()
        with ThreadPoolExecutor(1) as beside:
            refused = beside.submit(self._is_held_one_refused, table, cell.second)
            try:
                self._gate.wait_until_reached(refused)
                self._run_first(table, cell.first)
            finally:
                self._gate.open()
        return Outcome(not refused.result(), self.rows(table))

    def _run_first(self, table: str, write: Write) -> None:
        if write.python:
            write.python(self.catalog().load_table(table), 1)
        else:
            write.in_spark(Run(self.sessions[0], f"lake.{table}", 1))

    def _is_held_one_refused(self, table: str, write: Write) -> bool:
        run = Run(self._held, f"lake.{table}", 2, "gate")
        return _is_refused(lambda: write.in_spark(run))


class TxnsLake(Lake):
    """Tables under care."""

    def __init__(self, root: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._handle = open_lake(folder)
        super().__init__(root, folder, sessions.TXNS, self._handle.catalog)

    def outcome(self, cell: Cell) -> Outcome:
        return self.statements(cell) if cell.level == OUTSIDE else self._transactions(cell)

    def _transactions(self, cell: Cell) -> Outcome:
        """
        Run two writes, each in a transaction.

        1. The second one begins, and writes.
        2. The first one begins, writes and commits.
        3. The second one commits.
        """
        table = self.new_table(cell.mode)
        try:
            second = self._staged(1, cell, table)
            self._staged(0, cell, table)()
            return Outcome(not _is_refused(second), self.rows(table))
        finally:
            for session in self.sessions:
                session.sql("ROLLBACK")

    def _staged(self, number: int, cell: Cell, table: str) -> Callable[[], Any]:
        """Begin one of the two, and write; return what commits it."""
        write = (cell.first, cell.second)[number]
        if write.python:
            transaction = self._handle.begin(isolation=cell.level)
            write.python(transaction.load_table(table), number + 1)
            return transaction.commit
        session = self.sessions[number]
        session.sql(f"BEGIN ISOLATION LEVEL {cell.level}")
        write.in_spark(Run(session, f"lake.{table}", number + 1))
        return lambda: session.sql("COMMIT")


class PlainLake(Lake):
    """Tables of plain Iceberg's, whose outcomes are kept: it knows no levels."""

    def __init__(self, root: SparkSession, folder: Path) -> None:
        folder.mkdir()
        super().__init__(root, folder, sessions.PLAIN, lambda: plain(folder))
        self._known: dict[Cell, Outcome] = {}

    def outcome(self, cell: Cell) -> Outcome:
        statements = cell._replace(level=OUTSIDE)
        if statements not in self._known:
            self._known[statements] = self.statements(statements)
        return self._known[statements]


def _is_refused(commit: Callable[[], Any]) -> bool:
    """Commit; say whether it lost a race. Every other error is raised."""
    try:
        commit()
    except (txns.Conflict, CommitFailedException, ValidationException):
        return True
    except (PySparkException, Py4JJavaError) as error:
        ours = translation(error)
        if ours is None:
            # Iceberg's own errors have no SQLSTATE; their class tells, and Spark wraps it.
            refused = any(name in str(error) for name in _REFUSED)
        else:
            refused = ours.sqlstate == "40001"
        if not refused:
            raise
        return True
    return False
