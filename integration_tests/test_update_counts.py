"""The count of a copy-on-write UPDATE, however its rows are distributed and its code is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.checks import affected, count, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000


@pytest.mark.parametrize("generated", [True, False], ids=["generated code", "interpreted"])
@pytest.mark.parametrize("distribution", ["none", "hash", "range"])
def test_counts_are_exact(
    spark: SparkSession, table: str, distribution: str, *, generated: bool
) -> None:
    """Rows that a range partitioning samples first are not counted twice."""
    spark.conf.set("spark.sql.codegen.wholeStage", str(generated).lower())
    mode = "CODEGEN_ONLY" if generated else "NO_CODEGEN"
    spark.conf.set("spark.sql.codegen.factoryMode", mode)
    spark.sql(
        f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ('write.update.mode' = 'copy-on-write') "
        f"AS SELECT /*+ REPARTITION(3) */ id, id % 10 AS v FROM range({ROWS})"
    )
    spark.sql(f"ALTER TABLE {table} WRITE ORDERED BY v")
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('write.update.distribution-mode' = "
        f"'{distribution}')"
    )
    assert ROWS // 2 == affected(spark, f"UPDATE {table} SET v = v + 100 WHERE id % 2 = 0")
    in_query = f"UPDATE {table} SET v = -1 WHERE id IN (SELECT id FROM {table} WHERE id < 7)"
    assert 7 == affected(spark, in_query)
    assert ROWS == affected(spark, f"UPDATE {table} SET id = id, v = 0")
    assert [(ROWS, 0)] == rows(spark, f"SELECT count(*), max(v) FROM {table}")


def test_an_update_of_nothing_leaves_nothing(spark: SparkSession, table: str) -> None:
    """No snapshot, no entry and no file comes of it, also where it has rewritten files."""
    spark.sql(
        f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ('write.update.mode' = 'copy-on-write') "
        f"AS SELECT id, id % 10 AS v FROM range({ROWS})"
    )
    before = count(spark, f"{table}.snapshots"), count(spark, "lake.txns.commits.snapshots")
    # No statistics can tell that nothing matches, and no file is left out at run time.
    spark.conf.set("spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled", "false")
    nothing = f"UPDATE {table} SET v = 0 WHERE id * 2 = 3"
    assert 0 == affected(spark, nothing)
    assert before == (
        count(spark, f"{table}.snapshots"),
        count(spark, "lake.txns.commits.snapshots"),
    )
    spark.sql("BEGIN")
    assert 0 == affected(spark, nothing)
    assert [] == spark.sql("SHOW TRANSACTION").collect()[0].tables
    assert 10 == affected(spark, f"UPDATE {table} SET v = 0 WHERE id < 10")
    assert 0 == affected(spark, nothing)
    spark.sql("COMMIT")
    assert before[0] + 1 == count(spark, f"{table}.snapshots")
