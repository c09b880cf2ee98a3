"""Transactions over the Iceberg tables of Spark's own catalog, spark_catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests import sessions
from integration_tests.checks import affected, count, one, refused, rows, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SESSION_CATALOG = "io.txns.spark.TxnSparkSessionCatalog"
PLAIN = "org.apache.iceberg.spark.SparkSessionCatalog"


@pytest.fixture
def session(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> Iterator[Callable[[], SparkSession]]:
    """Make sessions whose spark_catalog has transactions; drop Spark's own tables afterwards."""
    made: list[SparkSession] = []

    def make() -> SparkSession:
        one_session = new_session()
        sessions.add_catalog(one_session, "spark_catalog", tmp_path, SESSION_CATALOG)
        made.append(one_session)
        return one_session

    yield make
    made[0].sql("ROLLBACK")
    made[0].sql("DROP TABLE IF EXISTS spark_catalog.default.files")


def test_transactions_over_its_iceberg_tables(session: Callable[[], SparkSession]) -> None:
    """Names of one part, every kind of statement, COMMIT and ROLLBACK, seen by other sessions."""
    spark, other = session(), session()
    spark.sql("CREATE TABLE a (id BIGINT, v STRING) USING iceberg")
    spark.sql("CREATE TABLE default.b (id BIGINT, v STRING) USING iceberg")
    spark.sql("BEGIN")
    assert 2 == affected(spark, "INSERT INTO a VALUES (1, 'a'), (2, 'b')")
    assert 2 == affected(spark, "INSERT INTO spark_catalog.default.b SELECT * FROM a")
    assert 1 == affected(spark, "UPDATE b SET v = 'B' WHERE id = 2")
    spark.createDataFrame([(3, "c")], "id BIGINT, v STRING").writeTo("a").append()
    assert [] == rows(other, "SELECT * FROM a JOIN b ON a.id = b.id")
    row = one(spark, "COMMIT")
    assert ("committed", ["default.a", "default.b"]) == (row.state, sorted(row.tables))
    assert [(1, "a"), (2, "b"), (3, "c")] == rows(other, "SELECT * FROM a")
    assert [(1, "a"), (2, "B")] == rows(other, "SELECT * FROM default.b")
    spark.sql("BEGIN")
    spark.sql("DELETE FROM a")
    spark.sql("CREATE TABLE c USING iceberg AS SELECT * FROM b")
    assert {"a", "b", "c"} <= {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    assert "c" not in {row.tableName for row in other.sql("SHOW TABLES").collect()}
    spark.sql("ROLLBACK")
    assert (3, False) == (count(spark, "a"), spark.catalog.tableExists("c"))
    assert "commit" in {row.kind for row in spark.sql("CALL system.transactions()").collect()}


def test_a_dropped_table_is_gone(session: Callable[[], SparkSession]) -> None:
    """A drop hides the table from its session, and after COMMIT from everybody."""
    spark, other = session(), session()
    spark.sql("CREATE TABLE gone USING iceberg AS SELECT 1 AS id")
    spark.sql("BEGIN")
    spark.sql("DROP TABLE gone")
    assert (False, True) == tuple(s.catalog.tableExists("gone") for s in (spark, other))
    spark.sql("COMMIT")
    assert (False, False) == tuple(s.catalog.tableExists("gone") for s in (spark, other))
    assert "gone" not in {row.tableName for row in other.sql("SHOW TABLES").collect()}
    spark.sql("DROP TABLE IF EXISTS gone")
    other.sql("CREATE TABLE gone USING iceberg AS SELECT 2 AS other")
    assert [(2,)] == rows(spark, "SELECT * FROM gone")


def test_tables_of_other_formats_are_sparks(session: Callable[[], SparkSession]) -> None:
    """Parquet tables work as before outside a transaction, and are read in one unprotected."""
    spark = session()
    spark.sql("CREATE TABLE mine USING iceberg AS SELECT 1 AS id")
    spark.sql("CREATE TABLE files (id INT) USING parquet")
    assert [] == spark.sql("INSERT INTO files VALUES (1), (2)").collect()
    spark.sql("BEGIN")
    assert 2 == affected(spark, "INSERT INTO mine SELECT * FROM files")
    assert any("files" in name for name in one(spark, "SHOW TRANSACTION").unprotected)
    with refused("0A000"):
        spark.sql("INSERT INTO files VALUES (3)")
    assert "aborted" == state(spark)
    spark.sql("ROLLBACK")
    spark.sql("BEGIN")
    with refused("0A000"):
        spark.sql("CREATE TABLE more (id INT) USING parquet")
    spark.sql("ROLLBACK")
    assert (2, 1) == (count(spark, "files"), count(spark, "mine"))


def test_what_replaces_a_table_by_itself_sees_what_strangers_have_appended(
    session: Callable[[], SparkSession], new_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    """Also by a frame of before; Spark's own tables are replaced as ever."""
    spark, stranger = session(), new_session()
    uncached = {"cache-enabled": "false"}
    sessions.add_catalog(stranger, "spark_catalog", tmp_path, PLAIN, **uncached)
    select = "SELECT id + 10 AS id FROM own"
    for replace in (
        lambda frame: frame.writeTo("own").using("iceberg").createOrReplace(),
        lambda frame: frame.writeTo("own").using("iceberg").replace(),
        lambda frame: frame.write.format("iceberg").mode("overwrite").saveAsTable("own"),
        lambda frame: frame.write.mode("overwrite").insertInto("own"),
        lambda _: spark.sql(f"CREATE OR REPLACE TABLE own USING iceberg AS {select}"),
        lambda _: spark.sql(f"INSERT OVERWRITE own {select}"),
    ):
        spark.sql("CREATE OR REPLACE TABLE own USING iceberg AS SELECT 1 AS id")
        frame = spark.table("own").selectExpr("id + 10 AS id")
        stranger.sql("INSERT INTO own VALUES (7)")
        replace(frame)
        assert [(11,), (17,)] == rows(stranger, "SELECT * FROM own ORDER BY id")
    for number in (1, 2):
        files = spark.sql(f"SELECT {number} AS id").write.format("parquet")
        files.mode("overwrite").saveAsTable("files")
        assert [(number,)] == rows(spark, "SELECT * FROM files")
