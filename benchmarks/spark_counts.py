"""
Measure what the counts of rows cost in Spark: the same statements with and without them.

Two statements change one day of twenty, each in a transaction that is rolled back, with
`spark.sql.txns.count-rows` on and off in turns: a copy-on-write UPDATE of every seventh row,
whose tasks count, and a DELETE of the whole day from a merge-on-read table that has position
delete files, which is counted by a scan. On small tables, and on 5 million rows.

    make bench NAME=spark_counts

Imports: _measure, _spark. Used by: make bench.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from _measure import Metric, Times, ratio, take_turns, write
from _spark import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

WARM_UP = 3
TURNS = 30
DAYS = 20
SIZES = {"small": 20_000, "5 million rows": 5_000_000}
STATEMENTS = {
    "UPDATE, copy-on-write": (
        "UPDATE rewritten SET amount = amount + 1 WHERE day = {day} AND item % 7 = 0"
    ),
    "DELETE of whole files, merge-on-read": "DELETE FROM marked WHERE day = {day}",
}


def main() -> None:
    """Run all comparisons and write results/spark_counts.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as name:
        spark = start("spark_counts", Path(name), {"lake": {}})
        spark.sql("USE lake.db")
        metrics: list[Metric] = []
        for label, rows in SIZES.items():
            _make_tables(spark, rows)
            for what, statement in STATEMENTS.items():
                print(f"\n{what}, {label}", flush=True)
                metrics.append(_compare(spark, f"{label}: {what}", statement))
        spark.stop()
    write("spark_counts", metrics)


def _make_tables(spark: SparkSession, rows: int) -> None:
    for name in ("rewritten", "marked"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(
            f"CREATE TABLE {name} USING iceberg PARTITIONED BY (day) "
            "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read') AS "
            f"SELECT id % {DAYS} AS day, id AS item, id * 0.5D AS amount FROM range({rows}) "
            "ORDER BY day"
        )
    spark.sql("DELETE FROM marked WHERE item % 100 < 20")


def _compare(spark: SparkSession, metric: str, statement: str) -> Metric:
    def run(counts: str) -> Callable[[Times, int], None]:
        return lambda times, turn: _run(spark, counts, statement.format(day=turn % DAYS), times)

    times = take_turns(
        {counts: run(counts) for counts in ("true", "false")}, warm_up=WARM_UP, turns=TURNS
    )
    counted, uncounted = (times[counts].parts["statement"] for counts in ("true", "false"))
    return ratio(metric, counted, uncounted, against="the same, uncounted")


def _run(spark: SparkSession, counts: str, statement: str, times: Times) -> None:
    spark.conf.set("spark.sql.txns.count-rows", counts)
    spark.sql("BEGIN")
    with times.part("statement"):
        [[affected]] = spark.sql(statement).collect()
    spark.sql("ROLLBACK")
    if (affected is None) != (counts == "false"):
        raise RuntimeError(f"the option decides about the count: {affected} of {statement}")


if __name__ == "__main__":
    main()
