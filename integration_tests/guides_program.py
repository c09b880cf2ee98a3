"""
Run the Spark and SQLAlchemy programs of README.md and the guides, as they stand, in one process.

test_guides starts it in an empty folder: each program begins with a lake of the working folder,
and one JVM is enough for all of them.
"""

from __future__ import annotations

from tests.guides import blocks, five_minutes

SHOWN = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sql({!r})
print(spark.table("lake.default.stock").first().amount)
"""

for page, programs in {
    "README.md": [block for block in blocks("README.md") if "pyiceberg" not in block],
    "docs/spark.md": five_minutes("docs/spark.md"),
    "docs/sqlalchemy.md": five_minutes("docs/sqlalchemy.md"),
    "docs/retries.md": [
        *map(SHOWN.format, blocks("docs/retries.md", "sql")),
        *(block for block in blocks("docs/retries.md") if "@task" not in block),
    ],
}.items():
    for program in programs:
        print(f"-- {page}")
        exec(compile(program, page, "exec", dont_inherit=True), {"__name__": "__main__"})
