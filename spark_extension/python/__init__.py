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

from txns_spark import errors
from txns_spark._configure import configure
from txns_spark._jar import jar_path
from txns_spark._streaming import foreach_batch

__all__ = ["configure", "errors", "foreach_batch", "jar_path"]
