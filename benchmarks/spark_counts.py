"""
Measure what counted statements cost in Spark, beside the same on plain Iceberg, uncounted.

Two statements change one day of twenty and are undone: a copy-on-write UPDATE of every seventh
row, which Spark counts while it rewrites, and a DELETE of the whole day from a merge-on-read
table that has position delete files, which manifests count. Ours run in a transaction and do
not commit, those of plain Iceberg do. On small tables, and on 5 million rows.

    make bench NAME=spark_counts
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from _measure import Metric, Times, ratio, take_turns, write
from _spark import PLAIN, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP = 3
TURNS = 30
DAYS = 20
SIZES = {"small": 20_000, "5 million rows": 5_000_000}
STATEMENTS = {
    "UPDATE, copy-on-write": (
        "rewritten",
        "UPDATE {table} SET amount = amount + 1 WHERE day = {day} AND item % 7 = 0",
    ),
    "DELETE of whole files, merge-on-read": ("marked", "DELETE FROM {table} WHERE day = {day}"),
}


def main() -> None:
    """Run all comparisons and write results/spark_counts.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as name:
        spark = start("spark_counts", Path(name), {"lake": {}})
        metrics: list[Metric] = []
        for label, rows in SIZES.items():
            for catalog in ("lake", PLAIN):
                _make_tables(spark, catalog, rows)
            for what, (table, statement) in STATEMENTS.items():
                print(f"\n{what}, {label}", flush=True)
                metrics.append(_compare(spark, f"{label}: {what}", table, statement))
        spark.stop()
    write("spark_counts", metrics)


def _make_tables(spark: SparkSession, catalog: str, rows: int) -> None:
    for name in ("rewritten", "marked"):
        spark.sql(f"DROP TABLE IF EXISTS {catalog}.db.{name}")
        spark.sql(
            f"CREATE TABLE {catalog}.db.{name} USING iceberg PARTITIONED BY (day) "
            "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read') AS "
            f"SELECT id % {DAYS} AS day, id AS item, id * 0.5D AS amount FROM range({rows}) "
            "ORDER BY day"
        )
    spark.sql(f"DELETE FROM {catalog}.db.marked WHERE item % 100 < 20")


def _compare(spark: SparkSession, metric: str, table: str, statement: str) -> Metric:
    [[base]] = spark.sql(
        f"SELECT max_by(snapshot_id, committed_at) FROM {PLAIN}.db.{table}.snapshots"
    ).collect()

    def counted(times: Times, turn: int) -> None:
        spark.sql("USE lake.db")
        spark.sql("BEGIN")
        with times.part("statement"):
            [[affected]] = spark.sql(statement.format(table=table, day=turn % DAYS)).collect()
        spark.sql("ROLLBACK")
        if not affected:
            raise RuntimeError(f"the rows are not counted: {affected} of {statement}")

    def plain(times: Times, turn: int) -> None:
        with times.part("statement"):
            spark.sql(statement.format(table=f"{PLAIN}.db.{table}", day=turn % DAYS)).collect()
        spark.sql(f"CALL {PLAIN}.system.rollback_to_snapshot('db.{table}', {base})")

    times = take_turns({"counted": counted, "plain": plain}, warm_up=WARM_UP, turns=TURNS)
    ours, theirs = (times[which].parts["statement"] for which in ("counted", "plain"))
    return ratio(metric, ours, theirs, against="the same on plain Iceberg, uncounted")


if __name__ == "__main__":
    main()
