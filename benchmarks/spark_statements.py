"""
Measure what transactions cost in Spark: the same statements with and without them.

Five statements over two tables run in turns on plain Iceberg, in a transaction, and in a
transaction whose COMMIT does not apply (`txns.apply=next`). Each way has a catalog of its
own, in SQLite and local files. Then COMMIT alone, for transactions over 1, 5 and 20 tables.

    make bench NAME=spark_statements

Imports: _measure, txns_spark. Used by: make bench.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from _measure import Metric, Times, milliseconds, ratio, take_turns, write
from pyspark.sql import SparkSession

import txns_spark

if TYPE_CHECKING:
    from collections.abc import Callable

MODES = ("copy-on-write", "merge-on-read")
WARM_UP = 3
TURNS = 15
SWAP_TURNS = 12
SALES_ROWS = 200_000
DAYS = 20
SWAP_TABLES = (1, 5, 20)
# What the prototype of the design reached.
STATEMENT_TARGET = 1.10
COMMIT_SHARE_TARGET = 0.02

PLAIN_CLASS = "org.apache.iceberg.spark.SparkCatalog"

STATEMENTS = {
    "DELETE": "DELETE FROM {c}.db.sales WHERE day = {day}",
    "INSERT SELECT": "INSERT INTO {c}.db.sales SELECT * FROM delivery WHERE day = {day}",
    "UPDATE": "UPDATE {c}.db.totals SET amount = amount + 1 WHERE day = {day}",
    "MERGE": """
        MERGE INTO {c}.db.totals t
        USING (SELECT day, item % 100 AS item, sum(amount) AS amount
               FROM delivery WHERE day = {day} GROUP BY day, item % 100) s
        ON t.day = s.day AND t.item = s.item
        WHEN MATCHED THEN UPDATE SET amount = s.amount WHEN NOT MATCHED THEN INSERT *""",
    "INSERT VALUES": "INSERT INTO {c}.db.sales VALUES ({day}, -1, 0.0)",
}


def main() -> None:
    """Run all comparisons and write results/spark_statements.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
        spark = _start(Path(folder))
        metrics: list[Metric] = []
        for mode in MODES:
            metrics += _compare_statements(spark, mode)
        metrics += _compare_swaps(spark)
        spark.stop()
    write("spark_statements", metrics)


def _start(folder: Path) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark_statements")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
    )
    builder = txns_spark.configure(builder, catalog="inline", warehouse=str(folder / "inline"))
    builder = txns_spark.configure(
        builder, catalog="next", warehouse=str(folder / "next"), **{"txns.apply": "next"}
    )
    plain = folder / "plain"
    plain.mkdir()
    uri = f"jdbc:sqlite:file:{plain}/catalog.db?journal_mode=WAL&busy_timeout=30000"
    for name, value in {
        "": PLAIN_CLASS,
        ".type": "jdbc",
        ".uri": uri,
        ".warehouse": str(plain),
        ".jdbc.schema-version": "V1",
        # The catalogs of transactions have no cache either.
        ".cache-enabled": "false",
    }.items():
        builder = builder.config(f"spark.sql.catalog.plain{name}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


# ------------------------------------------------------------ statements


def _compare_statements(spark: SparkSession, mode: str) -> list[Metric]:
    print(f"\nfive statements over two tables, {mode}")
    for catalog in ("plain", "inline", "next"):
        _make_tables(spark, catalog, mode)
    spark.sql("CALL next.system.apply()")
    rows = f"SELECT id % {DAYS} AS day, id AS item, id * 0.5D AS amount FROM range({SALES_ROWS})"
    spark.sql(rows).createOrReplaceTempView("delivery")
    times = take_turns(
        {
            "plain": lambda kept, turn: _run_plainly(spark, kept, turn),
            "inline": lambda kept, turn: _run_in_transaction(spark, "inline", kept, turn),
            "next": lambda kept, turn: _run_in_transaction(spark, "next", kept, turn),
        },
        warm_up=WARM_UP,
        turns=TURNS,
    )
    return _statement_metrics(mode, times)


def _make_tables(spark: SparkSession, catalog: str, mode: str) -> None:
    properties = (
        f"TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = '{mode}', "
        f"'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}')"
    )
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.db")
    for name in ("sales", "totals"):
        spark.sql(f"DROP TABLE IF EXISTS {catalog}.db.{name}")
    spark.sql(
        f"CREATE TABLE {catalog}.db.sales USING iceberg {properties} AS "
        f"SELECT id % {DAYS} AS day, id AS item, id * 0.5D AS amount FROM range({SALES_ROWS})"
    )
    spark.sql(
        f"CREATE TABLE {catalog}.db.totals USING iceberg {properties} AS "
        "SELECT day, item % 100 AS item, sum(amount) AS amount "
        f"FROM {catalog}.db.sales GROUP BY day, item % 100"
    )


def _run_plainly(spark: SparkSession, times: Times, turn: int) -> None:
    _run_statements(spark, "plain", times, turn)


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


def _run_statements(spark: SparkSession, catalog: str, times: Times, turn: int) -> None:
    for name, statement in STATEMENTS.items():
        with times.part(name):
            spark.sql(statement.format(c=catalog, day=turn % DAYS)).collect()


def _statement_metrics(mode: str, times: dict[str, Times]) -> list[Metric]:
    plain, inline, then = times["plain"], times["inline"], times["next"]
    names = list(STATEMENTS)
    whole = ["BEGIN", *names, "COMMIT"]
    against = "the same statement on plain Iceberg"
    metrics = [
        ratio(
            f"{mode}: {name}",
            inline.parts[name],
            plain.parts[name],
            against=against,
            target=STATEMENT_TARGET,
        )
        for name in names
    ]
    metrics += [
        ratio(
            f"{mode}: all statements",
            inline.total(names),
            plain.total(names),
            against="the same statements on plain Iceberg",
            target=STATEMENT_TARGET,
        ),
        ratio(
            f"{mode}: BEGIN, statements, COMMIT with apply",
            inline.total(whole),
            plain.total(names),
            against="the same statements on plain Iceberg",
        ),
    ]
    all_of_next = then.total([*whole, "apply"])
    against = "the whole transaction, with apply"
    metrics += [
        ratio(
            f"{mode}: COMMIT, applied by the next",
            then.parts["COMMIT"],
            all_of_next,
            against=against,
            target=COMMIT_SHARE_TARGET,
            unit="share",
        ),
        ratio(
            f"{mode}: CALL apply", then.parts["apply"], all_of_next, against=against, unit="share"
        ),
        ratio(
            f"{mode}: COMMIT with apply",
            inline.parts["COMMIT"],
            inline.total(whole),
            against=against,
            unit="share",
        ),
    ]
    return metrics


# ------------------------------------------------------------ the swap


def _compare_swaps(spark: SparkSession) -> list[Metric]:
    print("\nCOMMIT for transactions over 1, 5 and 20 tables, not applied")
    for number in range(max(SWAP_TABLES)):
        spark.sql(f"CREATE TABLE next.db.swap{number} (id BIGINT, v STRING) USING iceberg")
    spark.sql("CALL next.system.apply()")
    spark.sql("USE next.db")

    def commit(tables: int) -> Callable[[Times, int], None]:
        return lambda times, turn: _commit(spark, tables, times, turn)

    times = take_turns(
        {str(tables): commit(tables) for tables in SWAP_TABLES}, warm_up=2, turns=SWAP_TURNS
    )
    one = times[str(SWAP_TABLES[0])].parts["COMMIT"]
    against = "COMMIT over one table"
    return [
        milliseconds("COMMIT over 1 table", one, against="nothing: for orientation"),
        *(
            ratio(
                f"COMMIT over {tables} tables",
                times[str(tables)].parts["COMMIT"],
                one,
                against=against,
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


if __name__ == "__main__":
    main()
