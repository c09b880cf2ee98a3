"""
Transactions over many Apache Iceberg tables in Spark SQL: the Python side.

::

    import txns_spark
    from pyspark.sql import SparkSession

    spark = txns_spark.configure(SparkSession.builder).getOrCreate()
    spark.sql("BEGIN")

The transactions themselves are in the jar that this package carries; see
docs/spark.md for the statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txns_spark import errors
from txns_spark._jar import JAR_VERSION, jar_path
from txns_spark._streaming import foreach_batch
from txns_spark.retries import run_transaction, transactional

if TYPE_CHECKING:
    from txns_spark._configure import configure

__all__ = [
    "JAR_VERSION",
    "configure",
    "errors",
    "foreach_batch",
    "jar_path",
    "run_transaction",
    "transactional",
]


def __getattr__(name: str) -> Any:
    # A client of Spark Connect or Thrift has no JVM's pyspark, and configures nothing.
    if name == "configure":
        from txns_spark._configure import configure  # noqa: PLC0415  (see above)

        return configure
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
