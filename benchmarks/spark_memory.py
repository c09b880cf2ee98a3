"""
Measure what a driver keeps of transactions that are over: memory and open files.

1,000 small transactions run one after the other, over two tables, in turns on a session
that stays. After every twentieth part the JVM collects its garbage, and what is left is
noted: bytes of its heap, threads, file descriptors. The slope of the line through these
points is what a transaction costs for good; the first parts, in which classes are loaded
and caches are filled, are left out. Threads are those of Spark's pools, which come and go.
The same statements on plain Iceberg, each in a commit of its own, stand beside it.

    make bench NAME=spark_memory
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from _measure import Metric, single, write
from _spark import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TRANSACTIONS = 1000
POINTS = 20
WARM_UP_POINTS = 5
COLLECTIONS = 3


class Point(NamedTuple):
    """What the driver holds after so many transactions."""

    transactions: int
    heap_kib: float
    open_files: int
    threads: int


def main() -> None:
    """Run both ways and write results/spark_memory.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
        spark = _start(Path(folder))
        metrics: list[Metric] = []
        for name, run in (("transactions", _transaction), ("plain Iceberg", _plain)):
            print(name, flush=True)
            metrics += _slopes(name, _points(spark, run))
        spark.stop()
    write("spark_memory", metrics)


def _start(folder: Path) -> SparkSession:
    # Spark keeps what its UI shows of past queries, up to these numbers.
    retained = {
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "10",
    }
    spark = start("spark_memory", folder, {"lake": {}}, retained)
    for catalog in ("lake", "plain"):
        for table in ("a", "b"):
            # Old metadata files and snapshots are no memory of the driver's: keep few.
            spark.sql(
                f"CREATE TABLE {catalog}.db.{table} (id BIGINT) USING iceberg TBLPROPERTIES "
                "('write.metadata.delete-after-commit.enabled' = 'true', "
                "'write.metadata.previous-versions-max' = '2')"
            )
    return spark


def _transaction(spark: SparkSession, number: int) -> None:
    spark.sql("BEGIN")
    for table in ("a", "b"):
        spark.sql(f"INSERT OVERWRITE lake.db.{table} VALUES ({number})")
    # One in ten is rolled back.
    spark.sql("COMMIT" if number % 10 else "ROLLBACK")


def _plain(spark: SparkSession, number: int) -> None:
    for table in ("a", "b"):
        spark.sql(f"INSERT OVERWRITE plain.db.{table} VALUES ({number})")


def _points(spark: SparkSession, run: Callable[[SparkSession, int], None]) -> list[Point]:
    points = []
    for number in range(1, TRANSACTIONS + 1):
        run(spark, number)
        if number % (TRANSACTIONS // POINTS) == 0:
            _expire(spark)
            points.append(_point(spark, number))
            print(f"  {points[-1]}", flush=True)
    return points


def _expire(spark: SparkSession) -> None:
    """Keep the tables' metadata small: its size is not what is measured."""
    newest = "TIMESTAMP '2100-01-01 00:00:00'"
    for catalog in ("lake", "plain"):
        for table in ("a", "b"):
            spark.sql(f"CALL {catalog}.system.expire_snapshots('db.{table}', {newest}, 10)")


def _point(spark: SparkSession, transactions: int) -> Point:
    jvm: Any = spark._jvm
    for _turn in range(COLLECTIONS):
        jvm.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    name = str(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getName())
    descriptors = list(Path(f"/proc/{name.partition('@')[0]}/fd").iterdir())
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean().getThreadCount()
    return Point(
        transactions,
        (runtime.totalMemory() - runtime.freeMemory()) / 1024,
        len(descriptors),
        int(threads),
    )


def _slopes(name: str, points: list[Point]) -> list[Metric]:
    """Fit lines by least squares."""
    kept = points[WARM_UP_POINTS:]
    at = [point.transactions for point in kept]
    lines = {
        "heap, KiB": [point.heap_kib for point in kept],
        "open files": [float(point.open_files) for point in kept],
        "threads": [float(point.threads) for point in kept],
    }
    return [
        single(
            f"{name}: {what} per 1,000 transactions",
            1000 * statistics.linear_regression(at, values).slope,
            "count",
            "lower",
            "nothing kept",
        )
        for what, values in lines.items()
    ]


if __name__ == "__main__":
    main()
