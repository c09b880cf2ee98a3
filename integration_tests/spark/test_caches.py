"""Spark's caches serve nothing rolled back, of another transaction, or older than was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from integration_tests.checks import affected, count, one, rows
from integration_tests.python_lake import open_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def empty_caches(spark: SparkSession) -> Iterator[None]:
    """The cache is one for all sessions of a JVM."""
    yield
    spark.sql("ROLLBACK")
    spark.catalog.clearCache()


@pytest.fixture
def python(root_session: SparkSession, lake_folder: Path) -> Callable[[list[str], list[int]], None]:
    """Append rows to tables in one transaction, from a process that Spark knows nothing of."""
    del root_session  # it makes the lake
    handle = open_lake(lake_folder)

    def append(tables: list[str], ids: list[int]) -> None:
        added = pa.table({"id": ids, "v": [0] * len(ids)})
        with handle.begin() as transaction:
            for name in tables:
                transaction.load_table(name.removeprefix("lake.")).append(added)

    return append


def _cache(session: SparkSession, table: str) -> int:
    session.sql(f"CACHE TABLE {table}")
    return count(session, table)


@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK TO s"])
def test_what_was_rolled_back(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], end: str
) -> None:
    """A table that was cached with staged rows shows them to nobody else, and later to nobody."""
    a, _ = two_tables
    spark.sql("BEGIN")
    spark.sql("SAVEPOINT s")
    affected(spark, f"INSERT INTO {a} VALUES (3, 0)")
    assert 3 == _cache(spark, a)
    assert 2 == count(other, a)
    spark.sql(end)
    assert (2, 2) == (count(spark, a), count(other, a))
    assert [(1,), (2,)] == rows(spark, f"SELECT id FROM {a}")


def test_a_frame_of_rolled_back_rows(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A cached DataFrame of staged rows counts the committed ones after ROLLBACK, or fails."""
    a, _ = two_tables
    spark.sql("BEGIN")
    affected(spark, f"INSERT INTO {a} VALUES (3, 0)")
    frame = spark.table(a).where("v = 0").cache()
    assert 3 == frame.count()
    spark.sql("ROLLBACK")
    assert 2 == frame.count()
    assert 2 == frame.select("id").distinct().count()
    assert 2 == other.table(a).where("v = 0").count()


def test_an_executed_frame_of_rolled_back_rows(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A DataFrame that was executed keeps its plan: its files are gone, and it says so."""
    a, _ = two_tables
    spark.sql("BEGIN")
    affected(spark, f"INSERT INTO {a} VALUES (3, 0)")
    frame = spark.table(a).cache()
    assert 3 == len(frame.collect())
    spark.sql("ROLLBACK")
    with pytest.raises((PySparkException, Exception)) as caught:
        frame.collect()
    assert "parquet" in str(caught.value)
    assert 2 == spark.table(a).count()


def test_own_changes(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """A cached table shows a transaction its own changes after each statement, and after COMMIT."""
    a, b = two_tables
    assert 2 == _cache(spark, a)
    spark.sql("BEGIN")
    affected(spark, f"INSERT INTO {a} VALUES (3, 0)")
    assert 3 == _cache(spark, a)
    affected(spark, f"DELETE FROM {a} WHERE id < 3")
    assert [(3, 0)] == rows(spark, f"SELECT * FROM {a}")
    affected(spark, f"INSERT INTO {b} SELECT * FROM {a}")
    spark.sql("COMMIT")
    assert [(3, 0)] == rows(spark, f"SELECT * FROM {a}")
    assert 3 == count(spark, b)


def test_cached_by_somebody_else(
    spark: SparkSession,
    other: SparkSession,
    python: Callable[[list[str], list[int]], None],
    two_tables: tuple[str, str],
) -> None:
    """A transaction reads its own moment, whatever other sessions cache while it runs."""
    a, b = two_tables
    spark.sql("BEGIN")
    assert 2 == count(spark, b)
    python([a], [3])
    assert 3 == _cache(other, a)
    assert 2 == count(spark, a)
    other.sql("BEGIN")
    affected(other, f"INSERT INTO {a} VALUES (4, 0)")
    assert 4 == _cache(other, a)
    assert 2 == count(spark, a)
    assert [(1,), (2,)] == rows(spark, f"SELECT id FROM {a}")
    other.sql("ROLLBACK")
    spark.sql("COMMIT")
    assert (3, 3) == (count(spark, a), count(other, a))


def test_older_than_what_was_seen(
    spark: SparkSession,
    python: Callable[[list[str], list[int]], None],
    two_tables: tuple[str, str],
) -> None:
    """
    A cached table is as new as what the session reads beside it and has read before.

    1. A session caches a table.
    2. A transaction of another process changes it together with a second one.
    3. The session reads the second one, and then both.
    """
    a, b = two_tables
    assert 2 == _cache(spark, a)
    python([a, b], [3])
    assert 3 == count(spark, b)
    assert 3 == count(spark, a)
    assert [(3, 3)] == rows(spark, f"SELECT (SELECT count(*) FROM {a}), (SELECT count(*) FROM {b})")
    frame = spark.table(a)
    python([a], [4])
    assert (4, 4) == (frame.count(), count(spark, a))


def test_a_cache_is_used(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """While nobody writes it, a cached table is served from memory, in transactions too."""
    a, b = two_tables
    assert 2 == _cache(spark, a)
    affected(spark, f"INSERT INTO {b} VALUES (3, 0)")
    plan = one(spark, f"EXPLAIN SELECT count(*) FROM {a}")[0]
    assert "InMemoryRelation" in plan
    spark.sql("BEGIN")
    assert 2 == _cache(spark, a)
    assert "InMemoryRelation" in one(spark, f"EXPLAIN SELECT count(*) FROM {a}")[0]
