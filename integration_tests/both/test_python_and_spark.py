"""Python and Spark write the same tables in turns, and finish what the other has begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import txns
from integration_tests.checks import one, rows
from integration_tests.drivers import Driver, PythonDriver
from integration_tests.python_lake import rows as python_rows
from integration_tests.shared_lake import SCHEMA, T, batch, everywhere, make_lake
from txns._clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.shared_lake import Lake


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the table db.t (id, v) and its rows (1, 10), (2, 20)."""
    return make_lake(new_session, tmp_path / "lake")


def test_they_write_in_turns(lake: Lake) -> None:
    """Each sees and changes what the other has written, row by row and statement by statement."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((3, 30)))
        txn.load_table("db.t").delete("id = 1")
    assert [(2, 20), (3, 30)] == rows(spark, T)

    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = v + 1 WHERE id = 3")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    spark.sql("COMMIT")
    assert [(2, 20), (3, 31), (4, 40)] == python_rows(handle.catalog(), "db.t")

    with handle.begin() as txn:
        txn.load_table("db.t").upsert(batch((3, 33), (5, 50)), join_cols=["id"])
    spark.sql(
        "MERGE INTO lake.db.t USING (SELECT 5 AS id, 55 AS v) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    handle.catalog().load_table("db.t").append(batch((6, 60)))
    spark.sql("DELETE FROM lake.db.t WHERE id = 2")
    assert [(3, 33), (4, 40), (5, 55), (6, 60)] == everywhere(lake)


def test_they_create_alter_and_drop_in_turns(lake: Lake) -> None:
    """Tables, columns and names that one makes or takes away are the other's as well."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin() as txn:
        txn.create_table("db.made", SCHEMA).append(batch((1, 1)))
    spark.sql("INSERT INTO lake.db.made VALUES (2, 2)")
    spark.sql("ALTER TABLE lake.db.made ADD COLUMN word STRING")
    spark.sql("INSERT INTO lake.db.made VALUES (3, 3, 'spark')")
    with handle.begin() as txn:
        with txn.load_table("db.made").update_schema() as update:
            update.add_column("again", StringType())
        txn.load_table("db.made").delete("id = 1")
    assert [(2, 2, None, None), (3, 3, "spark", None)] == everywhere(lake, "db.made")

    spark.sql("DROP TABLE lake.db.made")
    assert not handle.catalog().table_exists("db.made")
    assert [("db", "t")] == handle.catalog().list_tables("db")
    with handle.begin() as txn:
        txn.create_table("db.made", SCHEMA).append(batch((7, 7)))
    assert [(7, 7)] == rows(spark, "SELECT * FROM lake.db.made")

    handle.catalog().drop_table("db.made")
    assert ["t"] == [row.tableName for row in spark.sql("SHOW TABLES IN lake.db").collect()]
    spark.sql("CREATE TABLE lake.db.made USING iceberg AS SELECT 8 AS other")
    assert [(8,)] == everywhere(lake, "db.made")


def test_python_reads_deletes_that_spark_left_in_files(lake: Lake) -> None:
    """A table of merge-on-read: Python applies the delete files, and appends beside them."""
    spark, handle = lake.spark(), lake.python()
    spark.sql(
        "ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'merge-on-read')"
    )
    spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    assert [(2, 20)] == python_rows(handle.catalog(), "db.t")
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((1, 11)))
    spark.sql("UPDATE lake.db.t SET v = 12 WHERE id = 1")
    assert [(1, 12), (2, 20)] == everywhere(lake)


def test_format_3_is_read_by_python_and_not_written(lake: Lake) -> None:
    """Python reads Spark's table of format 3, applied or not, and refuses to write it."""
    lake.spark().sql(
        "CREATE TABLE lake.db.v3 (id BIGINT, v BIGINT) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3')"
    )
    spark = lake.spark(txns_apply="next")
    spark.sql("INSERT INTO lake.db.v3 VALUES (1, 1)")
    handle = lake.python()
    assert [(1, 1)] == python_rows(handle.catalog(), "db.v3")
    with pytest.raises(txns.Unsupported, match="version 3"):
        handle.begin().load_table("db.v3").append(batch((2, 2)))
    assert [(1, 1)] == rows(lake.spark(), "SELECT * FROM lake.db.v3")


def test_spark_reads_what_python_has_not_applied(lake: Lake) -> None:
    """Python's entries are in Spark's overlay; who knows no txns sees them after apply."""
    handle = lake.python(apply="next")
    spark, outside = lake.spark(), lake.plain_spark()
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 1")
        txn.create_table("db.new", SCHEMA).append(batch((1, 1)))
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((3, 30)))
        txn.load_table("db.new").append(batch((2, 2)))

    assert [(2, 20), (3, 30)] == rows(spark, T)
    assert [(1, 1), (2, 2)] == rows(spark, "SELECT * FROM lake.db.new")
    assert [(1, 10), (2, 20)] == rows(outside, T) == python_rows(lake.plain_python(), "db.t")
    assert not lake.plain_python().table_exists("db.new")

    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert [(2, 20), (3, 30)] == everywhere(lake)
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.new")


def test_python_reads_what_spark_has_not_applied(lake: Lake) -> None:
    """Spark's entries are in Python's overlay; who knows no txns sees them after apply."""
    spark, handle = lake.spark(txns_apply="next"), lake.python()
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = v + 1")
    spark.sql("CREATE TABLE lake.db.new (id BIGINT, v BIGINT) USING iceberg")
    spark.sql("INSERT INTO lake.db.new VALUES (1, 1)")
    spark.sql("COMMIT")
    spark.sql("INSERT INTO lake.db.new VALUES (2, 2)")

    assert [(1, 11), (2, 21)] == python_rows(handle.catalog(), "db.t")
    assert [(1, 1), (2, 2)] == python_rows(handle.begin(), "db.new")
    assert [(1, 10), (2, 20)] == python_rows(lake.plain_python(), "db.t")
    assert not lake.plain_python().table_exists("db.new")

    assert [] == handle.apply_le()
    assert [(1, 11), (2, 21)] == everywhere(lake)
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.new")


def test_a_payload_in_a_file_is_read_by_the_other(lake: Lake) -> None:
    """Changes of more than 64 KiB stand in a file, whose digest the other language checks."""
    handle, spark = lake.python(apply="next"), lake.spark(txns_apply="next")
    wide = pa.schema([pa.field(f"column_{n}", pa.int64()) for n in range(1500)])
    with handle.begin() as txn:
        txn.create_table("db.from_python", wide)
    columns = ", ".join(f"column_{n} BIGINT" for n in range(1500))
    spark.sql(f"CREATE TABLE lake.db.from_spark ({columns}) USING iceberg")

    files = [path.name for path in lake.folder.rglob("txns-payload-*.json")]
    assert 2 == len(files)
    assert 1500 == len(spark.table("lake.db.from_python").columns)
    assert wide.names == handle.catalog().load_table("db.from_spark").schema().column_names
    assert 0 == one(spark, "CALL lake.system.apply('db.from_python')").tables_left
    assert [] == handle.apply_le()
    assert [] == everywhere(lake, "db.from_python") == everywhere(lake, "db.from_spark")


@pytest.fixture
def three_tables(lake: Lake) -> Lake:
    """The same lake with the tables a and b, empty, and a counter at 0."""
    spark = lake.spark()
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE lake.db.{name} (name STRING, number INT) USING iceberg")
    spark.sql("CREATE TABLE lake.db.counter (n INT) USING iceberg")
    spark.sql("INSERT INTO lake.db.counter VALUES (0)")
    return lake


def _counted(lake: Lake) -> list[list[tuple[Any, ...]]]:
    return [everywhere(lake, f"db.{name}") for name in ("a", "b", "counter")]


def test_killed_python_is_recovered_by_spark(three_tables: Lake) -> None:
    """
    What Python committed is Spark's to finish; what it only staged has not happened.

    1. A Python process commits with apply=next, and is killed; another one while it stages.
    2. Spark reads all of the first; nothing of the second.
    3. Spark writes one of the tables, which applies that one; CALL apply() does the others.
    """
    lake, log = three_tables, three_tables.folder.parent / "driver.log"
    with PythonDriver("commit", lake.folder, "killed", log, apply="next") as driver:
        assert "committed None" == driver.wait_for_line()
    with PythonDriver("stage", lake.folder, "lost", log) as driver:
        assert "staged" == driver.wait_for_line()
    spark = lake.spark()
    assert [("killed", 0)] == rows(spark, "SELECT * FROM lake.db.a")
    assert [] == rows(lake.plain_spark(), "SELECT * FROM lake.db.a")

    spark.sql("UPDATE lake.db.counter SET n = n + 10")
    assert [(11,)] == rows(lake.plain_spark(), "SELECT * FROM lake.db.counter")
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert [[("killed", 0)], [("killed", 0)], [(11,)]] == _counted(lake)


def test_killed_spark_is_recovered_by_python(three_tables: Lake) -> None:
    """
    What a Spark driver committed is Python's to finish.

    1. A driver commits with txns.apply=next, and is killed with its JVM.
    2. Python reads all of it, and writes one of the tables, which applies that one.
    3. apply_le does the others.
    """
    lake, log = three_tables, three_tables.folder.parent / "driver.log"
    lake.python().change_settings(apply="next")
    with Driver("commit", lake.folder, "killed", log, **{"txns.apply": "next"}) as driver:
        assert "committed False" == driver.wait_for_line()
    handle = lake.python()
    assert [("killed", 0)] == python_rows(handle.catalog(), "db.a")
    assert [] == python_rows(lake.plain_python(), "db.a")

    with handle.begin() as txn:
        counter = txn.load_table("db.counter")
        assert [1] == counter.scan().to_arrow()["n"].to_pylist()
        counter.overwrite(pa.table({"n": [11]}, schema=pa.schema([pa.field("n", pa.int32())])))
    assert [(11,)] == python_rows(lake.plain_python(), "db.counter")
    assert [] == handle.apply_le()
    assert [[("killed", 0)], [("killed", 0)], [(11,)]] == _counted(lake)


class AheadClock(SystemClock):
    """The system's clock, some time ahead."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


@pytest.mark.parametrize("ahead_ms", [130_000, 365 * 24 * 3600 * 1000])
def test_spark_goes_on_with_what_a_fast_clock_has_written(lake: Lake, ahead_ms: int) -> None:
    """Python with a wrong clock writes, creates and tidies; Spark reads and writes all of it."""
    fast = lake.python(clock=AheadClock(ahead_ms))
    with fast.begin() as txn:
        txn.load_table("db.t").append(batch((3, 30)))
        txn.load_table("db.t").delete("id = 1")
    fast.catalog().create_table("db.made", SCHEMA).append(batch((1, 1)))
    fast.tidy()
    spark = lake.spark()
    assert [(2, 20), (3, 30)] == rows(lake.plain_spark(), T) == rows(spark, T)
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = v + 1 WHERE id = 3")
    spark.sql("INSERT INTO lake.db.made SELECT id, v FROM lake.db.t")
    spark.sql("COMMIT")
    assert [(2, 20), (3, 31)] == everywhere(lake)
    handle = lake.python()
    first = handle.catalog().load_table("db.t").snapshots()[0].snapshot_id
    handle.catalog().load_table("db.t").manage_snapshots().set_current_snapshot(first).commit()
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    assert (4, 40) in everywhere(lake)
    assert [(1, 1), (2, 20), (3, 31)] == everywhere(lake, "db.made")


def test_spark_reads_what_python_has_created_again(lake: Lake) -> None:
    """Other columns and partitions than the dropped table had: no id stands for two of them."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("CREATE TABLE lake.db.made (id BIGINT, dt BIGINT) PARTITIONED BY (dt)")
    spark.sql("INSERT INTO lake.db.made VALUES (1, 10)")
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    names = ("id", "name", "dt")
    schema = Schema(*(NestedField(at, name, LongType()) for at, name in enumerate(names, 1)))
    with handle.begin() as txn:
        txn.drop_table("db.made")
        made = txn.create_table("db.made", schema, partition_spec=spec)
        made.append(pa.table({"id": [2], "name": [20], "dt": [200]}))
    spark.sql("INSERT INTO lake.db.made VALUES (3, 30, 300)")
    made = "lake.db.made"
    assert [(2, 20, 200), (3, 30, 300)] == rows(spark, f"SELECT * FROM {made}")
    for found in ("dt = 200", "name = 20"):
        assert [(2, 20, 200)] == rows(spark, f"SELECT * FROM {made} WHERE {found}")
    partitions = spark.sql(f"SELECT partition.name FROM {made}.partitions").collect()
    assert [20, 30] == sorted(row[0] for row in partitions)
    spark.sql("UPDATE lake.db.made SET dt = 301 WHERE id = 3")
    spark.sql("DELETE FROM lake.db.made WHERE name = 20")
    assert [(3, 30, 301)] == python_rows(handle.catalog(), "db.made")
