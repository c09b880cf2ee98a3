"""
Small transactions of several Spark sessions: a row into each of two tables, beside plain Iceberg.

BEGIN, two INSERTs and COMMIT against the same two INSERTs on plain Iceberg, by 1, 4 and 8 sessions
of one Spark application, each a thread, on two tables of each session's own and on two that all
share. Both ways have a catalog in a PostgreSQL database of its own, of the package pgserver, and
files in a folder; they take turns, on new tables in each. Who loses on plain Iceberg after its own
retries runs the statement again, as a user would, and who loses a transaction of ours the whole of
it; both are counted. Every row is counted afterwards. Some hundreds of both run before all cells.
For a local file Hadoop starts two processes where its native library is missing, as in Spark's
distributions; ours writes metadata, manifests and their lists without it, and plain Iceberg does
not. On an object store that difference is none.

    make bench NAME=spark_sessions
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from _measure import Metric, Times, rate_ratio, ratio, show, single, take_turns, write
from _spark import PLAIN, start

from integration_tests.cut_connections import Proxy
from integration_tests.postgres import running_postgres
from txns_spark.errors import TransactionConflict, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

OURS = "ours"
CATALOGS = (OURS, PLAIN)
WARM_UP = 1
TURNS = 9
WARMING_TURNS = 12
TRANSACTIONS = 48
"""Of one turn, shared among the sessions."""
TRIES = 100
OWN, SHARED = "disjoint tables", "same tables"
SESSIONS = {OWN: (1, 4, 8), SHARED: (4, 8)}
TARGETS = {OWN: 0.95, SHARED: 1.0}
"""The least share of plain Iceberg's rate that is wanted."""
_LOST = "CommitFailedException"


@dataclass(frozen=True)
class Cell:
    """
    Sessions that write at once.

    Attributes:
        sessions: How many.
        sharing: Which tables they write.
        each: How many transactions each of them runs in a turn.
    """

    sessions: int
    sharing: str
    each: int

    @property
    def label(self) -> str:
        """Say it."""
        return f"{self.sessions} session{'s' * (self.sessions > 1)}, {self.sharing}"

    def tables(self, turn: int, session: int) -> tuple[str, str]:
        """Give the two tables of a session."""
        owner = "all" if self.sharing == SHARED else f"s{session}"
        cell = f"n{self.sessions}_t{turn}_{owner}"
        return f"{cell}_a", f"{cell}_b"


def main() -> None:
    """Run all cells, and write results/spark_sessions.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="Try it out; nothing is written.")
    small = parser.parse_args().small
    transactions, turns = (4, 1) if small else (TRANSACTIONS, TURNS)
    cells = [
        Cell(sessions, sharing, transactions // sessions)
        for sharing, counts in SESSIONS.items()
        for sessions in (counts[-2:-1] if small else counts)
    ]
    metrics: list[Metric] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txns-bench-")))
        server = stack.enter_context(running_postgres())
        proxy = stack.enter_context(Proxy(server.socket))
        for catalog in CATALOGS:
            server.create_database(catalog)
        uri_of = partial(server.jdbc_uri, port=proxy.port)
        spark = start("spark_sessions", folder, {OURS: {}}, uri_of=uri_of)
        sessions = {catalog: _sessions(spark, catalog) for catalog in CATALOGS}
        if not small:
            # Applications run for hours, and what the JVM has not compiled yet costs twice as much.
            _compare(spark, sessions, Cell(7, OWN, transactions // 7), WARMING_TURNS)
        for cell in cells:
            metrics += _compare(spark, sessions, cell, turns)
        spark.stop()
    if small:
        show(metrics)
    else:
        write("spark_sessions", metrics)


def _sessions(spark: SparkSession, catalog: str) -> list[SparkSession]:
    made = [spark.newSession() for _ in range(8)]
    for session in made:
        session.sql(f"USE {catalog}.db")
    return made


def _compare(
    spark: SparkSession, sessions: dict[str, list[SparkSession]], cell: Cell, turns: int
) -> list[Metric]:
    print(f"\n{cell.label}", flush=True)
    lost: Counter[str] = Counter()

    def run(catalog: str, times: Times, turn: int) -> None:
        _make_tables(spark, catalog, cell, turn)
        again = _run(sessions[catalog][: cell.sessions], catalog, cell, times, turn)
        _count_rows(spark, catalog, cell, turn)
        if turn >= WARM_UP:
            lost[catalog] += again

    ways: dict[str, Callable[[Times, int], None]] = {each: partial(run, each) for each in CATALOGS}
    kept = take_turns(ways, warm_up=WARM_UP, turns=turns)
    return _metrics(cell, kept, lost)


def _make_tables(spark: SparkSession, catalog: str, cell: Cell, turn: int) -> None:
    names = {name for session in range(cell.sessions) for name in cell.tables(turn, session)}
    for name in sorted(names):
        spark.sql(f"CREATE TABLE {catalog}.db.{name} (session BIGINT, number BIGINT) USING iceberg")


def _run(sessions: list[SparkSession], catalog: str, cell: Cell, times: Times, turn: int) -> int:
    """Run all transactions of a turn; give how often something was run again."""
    transaction = _in_transaction if catalog == OURS else _plainly

    def work(number: int) -> tuple[int, list[float]]:
        own = Times()
        again = 0
        for count in range(cell.each):
            with own.part("transaction"):
                inserts = [
                    f"INSERT INTO {table} VALUES ({number}, {count})"
                    for table in cell.tables(turn, number)
                ]
                again += transaction(sessions[number], inserts)
        return again, own.parts["transaction"]

    with ThreadPoolExecutor(len(sessions)) as pool, times.part("all"):
        done = list(pool.map(work, range(len(sessions))))
    latencies = [each for _, some in done for each in some]
    times.parts.setdefault("median", []).append(statistics.median(latencies))
    return sum(again for again, _ in done)


def _in_transaction(session: SparkSession, inserts: list[str]) -> int:
    """Run statements as one transaction; give how often it was run again."""
    for again in range(TRIES):
        try:
            with translated():
                for statement in ("BEGIN", *inserts, "COMMIT"):
                    session.sql(statement).collect()
        except TransactionConflict:
            session.sql("ROLLBACK")
            continue
        return again
    raise RuntimeError(f"a transaction has lost {TRIES} times")


def _plainly(session: SparkSession, inserts: list[str]) -> int:
    """Run statements one by one; give how often one was run again."""
    return sum(_one_plainly(session, statement) for statement in inserts)


def _one_plainly(session: SparkSession, statement: str) -> int:
    for again in range(TRIES):
        try:
            session.sql(statement).collect()
        except Exception as error:
            if _LOST not in str(error):
                raise
            continue
        return again
    raise RuntimeError(f"a statement has lost {TRIES} times")


def _count_rows(spark: SparkSession, catalog: str, cell: Cell, turn: int) -> None:
    wanted = {(session, cell.each) for session in range(cell.sessions)}
    for session in range(cell.sessions):
        for table in cell.tables(turn, session):
            rows = spark.sql(
                "SELECT session, count(*), count(DISTINCT number), max(number)"
                f" FROM {catalog}.db.{table} GROUP BY session"
            ).collect()
            mine = wanted if cell.sharing == SHARED else {(session, cell.each)}
            assert {(of, count) for of, count, _, _ in rows} == mine, (table, rows)
            assert all(count == distinct == last + 1 for _, count, distinct, last in rows), rows


def _metrics(cell: Cell, kept: dict[str, Times], lost: Counter[str]) -> list[Metric]:
    seconds = {catalog: kept[catalog].parts["all"] for catalog in CATALOGS}
    against = "the same two INSERTs on plain Iceberg"
    count = cell.sessions * cell.each

    def rate(catalog: str) -> float:
        return count / statistics.median(seconds[catalog])

    return [
        # The rate of each is the same count by its time.
        rate_ratio(
            f"{cell.label}: rate",
            seconds[PLAIN],
            seconds[OURS],
            against=against,
            target=TARGETS[cell.sharing],
        ),
        ratio(
            f"{cell.label}: a transaction",
            kept[OURS].parts["median"],
            kept[PLAIN].parts["median"],
            against=against,
        ),
        single(f"{cell.label}: ours", rate(OURS), "1/s", "higher", "transactions a second"),
        single(f"{cell.label}: plain", rate(PLAIN), "1/s", "higher", "pairs of INSERTs a second"),
        single(f"{cell.label}: ours, run again", lost[OURS], "count", "lower", "transactions"),
        single(f"{cell.label}: plain, run again", lost[PLAIN], "count", "lower", "statements"),
    ]


if __name__ == "__main__":
    main()
