"""
Measure what transactions cost in Spark: the same statements with and without them.

Five statements over two tables and a SELECT run in turns on plain Iceberg, in a transaction,
and in a transaction whose COMMIT does not apply (`txns.apply=next`); on small tables, and on
5 million rows. Each way has a catalog of its own, in SQLite and local files, for each of
which plain Iceberg has Hadoop start two processes, and ours for data files alone. Then COMMIT by
itself, for transactions over 1, 5 and 20 tables; and the small tables again on a lake with 1,000
registered tables and 10,000 past transactions, against an empty one.

    make bench NAME=spark_statements
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from _history import add_history
from _measure import Metric, Times, milliseconds, ratio, take_turns, write
from _spark import PLAIN, start
from pyiceberg.catalog.sql import SqlCatalog

import txns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

MODES = ("copy-on-write", "merge-on-read")
WARM_UP = 3
TURNS = 30
DAYS = 20
SWAP_TABLES = (1, 5, 20)
REGISTERED = 1000
PAST = 10_000
STATEMENT_TARGET = 1.03
INSERT_TARGET = 1.10
"""Of the one that is over soonest: a row by itself."""
SELECT_TARGET = 1.02
COMMIT_SHARE_TARGET = 0.10
SWAP_TARGET = 1.5
GROWTH_TARGET = 1.1


class Size(NamedTuple):
    """Tables to measure on: `sales`, partitioned by day, and `totals`."""

    label: str
    rows: int
    ours: tuple[str, ...]


SIZES = (Size("small", 20_000, ("inline", "next")), Size("5 million rows", 5_000_000, ("inline",)))

STATEMENTS = {
    "DELETE": "DELETE FROM {c}.db.sales WHERE day = {day} AND item % 2 = 0",
    "INSERT SELECT": (
        "INSERT INTO {c}.db.sales SELECT * FROM delivery WHERE day = {day} AND item % 2 = 0"
    ),
    "UPDATE": "UPDATE {c}.db.sales SET amount = amount + 1 WHERE day = {day} AND item % 7 = 0",
    "MERGE": """
        MERGE INTO {c}.db.totals t
        USING (SELECT day, item % 100 AS item, sum(amount) AS amount
               FROM delivery WHERE day = {day} GROUP BY day, item % 100) s
        ON t.day = s.day AND t.item = s.item
        WHEN MATCHED THEN UPDATE SET amount = s.amount WHEN NOT MATCHED THEN INSERT *""",
    "INSERT VALUES": "INSERT INTO {c}.db.sales VALUES ({day}, -1, 0.0)",
}
SELECT = """
    SELECT s.day, sum(s.amount), max(t.amount)
    FROM {c}.db.sales s JOIN (SELECT day, sum(amount) AS amount FROM {c}.db.totals GROUP BY day) t
    ON s.day = t.day GROUP BY s.day"""


def main() -> None:
    """Run all comparisons and write results/spark_statements.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as name:
        folder = Path(name)
        ours = {"inline": {}, "next": {"txns.apply": "next"}, "empty": {}, "full": {}}
        spark = start("spark_statements", folder, ours)
        metrics: list[Metric] = []
        for size in SIZES:
            for mode in MODES:
                metrics += _compare_statements(spark, size, mode)
        metrics += _compare_swaps(spark)
        metrics += _compare_lakes(spark, folder)
        spark.stop()
    write("spark_statements", metrics)


# ------------------------------------------------------------ statements


def _compare_statements(spark: SparkSession, size: Size, mode: str) -> list[Metric]:
    label = f"{size.label}, {mode}"
    print(f"\nfive statements over two tables, {label}", flush=True)
    for catalog in (PLAIN, *size.ours):
        _make_tables(spark, catalog, size.rows, mode)
    ways: dict[str, Callable[[Times, int], None]] = {
        catalog: lambda kept, turn, c=catalog: _run_in_transaction(spark, c, kept, turn)
        for catalog in size.ours
    }
    ways[PLAIN] = lambda kept, turn: _run_plainly(spark, kept, turn)
    times = take_turns(ways, warm_up=WARM_UP, turns=TURNS)
    metrics = _statement_metrics(label, times["inline"], times[PLAIN])
    return metrics + (_commit_metrics(label, times["next"]) if "next" in times else [])


def _make_tables(spark: SparkSession, catalog: str, rows: int, mode: str) -> None:
    properties = (
        f"TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = '{mode}', "
        f"'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}')"
    )
    delivery = f"SELECT id % {DAYS} AS day, id AS item, id * 0.5D AS amount FROM range({rows})"
    spark.sql(delivery).createOrReplaceTempView("delivery")
    for name in ("sales", "totals"):
        spark.sql(f"DROP TABLE IF EXISTS {catalog}.db.{name}")
    spark.sql(
        f"CREATE TABLE {catalog}.db.sales USING iceberg PARTITIONED BY (day) {properties} AS "
        f"{delivery} ORDER BY day"
    )
    spark.sql(
        f"CREATE TABLE {catalog}.db.totals USING iceberg {properties} AS "
        "SELECT day, item % 100 AS item, sum(amount) AS amount "
        f"FROM {catalog}.db.sales GROUP BY day, item % 100"
    )
    if catalog != PLAIN:
        spark.sql(f"CALL {catalog}.system.apply()")
    if catalog == "next":  # a process leaves its applies to others where the log says so alone
        spark.sql("CALL next.system.settings(apply => 'next')")


def _run_plainly(spark: SparkSession, times: Times, turn: int) -> None:
    _run_statements(spark, PLAIN, times, turn)
    _select(spark, PLAIN, times)


def _run_in_transaction(spark: SparkSession, catalog: str, times: Times, turn: int) -> None:
    spark.sql(f"USE {catalog}.db")
    with times.part("BEGIN"):
        spark.sql("BEGIN").collect()
    _run_statements(spark, catalog, times, turn)
    with times.part("COMMIT"):
        spark.sql("COMMIT").collect()
    if catalog == "next":
        with times.part("apply"):
            spark.sql(f"CALL {catalog}.system.apply()").collect()
    _select(spark, catalog, times)


def _run_statements(spark: SparkSession, catalog: str, times: Times, turn: int) -> None:
    for name, statement in STATEMENTS.items():
        with times.part(name):
            spark.sql(statement.format(c=catalog, day=turn % DAYS)).collect()


def _select(spark: SparkSession, catalog: str, times: Times) -> None:
    with times.part("SELECT"):
        spark.sql(SELECT.format(c=catalog)).collect()


def _statement_metrics(label: str, ours: Times, plain: Times) -> list[Metric]:
    names = list(STATEMENTS)
    whole = ["BEGIN", *names, "COMMIT"]
    against = "the same on plain Iceberg"

    def compared(what: str, parts: list[str], target: float | None) -> Metric:
        theirs = [part for part in parts if part in plain.parts]
        return ratio(
            f"{label}: {what}",
            ours.total(parts),
            plain.total(theirs),
            against=against,
            target=target,
        )

    return [
        *(
            compared(name, [name], INSERT_TARGET if name == "INSERT VALUES" else None)
            for name in names
        ),
        compared("all statements", names, STATEMENT_TARGET),
        compared("BEGIN, statements, COMMIT with apply", whole, None),
        compared("SELECT", ["SELECT"], SELECT_TARGET),
        ratio(
            f"{label}: COMMIT with apply",
            ours.parts["COMMIT"],
            ours.total(whole),
            against="the whole transaction",
            unit="share",
        ),
    ]


def _commit_metrics(label: str, then: Times) -> list[Metric]:
    whole = then.total(["BEGIN", *STATEMENTS, "COMMIT", "apply"])
    against = "the whole transaction, with apply"
    return [
        ratio(
            f"{label}: COMMIT, applied by the next",
            then.parts["COMMIT"],
            whole,
            against=against,
            target=COMMIT_SHARE_TARGET,
            unit="share",
        ),
        ratio(f"{label}: CALL apply", then.parts["apply"], whole, against=against, unit="share"),
    ]


# ------------------------------------------------------------ the swap


def _compare_swaps(spark: SparkSession) -> list[Metric]:
    print("\nCOMMIT for transactions over 1, 5 and 20 tables, not applied", flush=True)
    for number in range(max(SWAP_TABLES)):
        spark.sql(f"CREATE TABLE next.db.swap{number} (id BIGINT, v STRING) USING iceberg")
    spark.sql("CALL next.system.apply()")
    spark.sql("USE next.db")

    def commit(tables: int) -> Callable[[Times, int], None]:
        return lambda times, turn: _commit(spark, tables, times, turn)

    times = take_turns(
        {str(tables): commit(tables) for tables in SWAP_TABLES}, warm_up=WARM_UP, turns=TURNS
    )
    one = times[str(SWAP_TABLES[0])].parts["COMMIT"]
    return [
        milliseconds("COMMIT over 1 table", one, against="nothing: for orientation"),
        *(
            ratio(
                f"COMMIT over {tables} tables",
                times[str(tables)].parts["COMMIT"],
                one,
                against="COMMIT over one table",
                target=SWAP_TARGET,
            )
            for tables in SWAP_TABLES[1:]
        ),
    ]


def _commit(spark: SparkSession, tables: int, times: Times, turn: int) -> None:
    spark.sql("BEGIN").collect()
    for number in range(tables):
        spark.sql(f"INSERT INTO next.db.swap{number} VALUES ({turn}, 'x')").collect()
    with times.part("COMMIT"):
        spark.sql("COMMIT").collect()
    # Every COMMIT meets a head of the same length.
    spark.sql("CALL next.system.apply()").collect()
    spark.sql("CALL next.system.tidy()").collect()


# ------------------------------------------------------------ a lake with a past


def _compare_lakes(spark: SparkSession, folder: Path) -> list[Metric]:
    print("\nfive statements on an empty lake and on a full one", flush=True)
    rows = SIZES[0].rows
    _fill(folder / "full")
    for catalog in ("empty", "full"):
        _make_tables(spark, catalog, rows, MODES[0])
    times = take_turns(
        {
            catalog: lambda kept, turn, c=catalog: _run_in_transaction(spark, c, kept, turn)
            for catalog in ("empty", "full")
        },
        warm_up=WARM_UP,
        turns=TURNS,
    )
    whole = ["BEGIN", *STATEMENTS, "COMMIT", "SELECT"]
    return [
        ratio(
            f"a transaction with {REGISTERED} registered tables, {PAST} past transactions",
            times["full"].total(whole),
            times["empty"].total(whole),
            against="the same on an empty lake",
            target=GROWTH_TARGET,
        )
    ]


def _fill(folder: Path) -> None:
    catalog = SqlCatalog(
        folder.name, uri=f"sqlite:///{folder}/catalog.db?timeout=30", warehouse=str(folder)
    )
    handle = txns.open(catalog)
    schema = pa.schema([pa.field("id", pa.int64())])
    for number in range(REGISTERED):
        catalog.create_table(f"db.past{number}", schema)
        handle.register(f"db.past{number}")
    handle.tidy()
    add_history(handle, PAST)
    handle.close()


if __name__ == "__main__":
    main()
