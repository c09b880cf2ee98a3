"""What one language has staged in files, the other numbers anew, reads back and builds upon."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo

from integration_tests.checks import one, rows
from integration_tests.python_lake import rows as python_rows
from integration_tests.shared_lake import T, batch, everywhere, make_lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.shared_lake import Lake

COMPACTION = "CALL lake.system.rewrite_data_files('db.t', options => map('rewrite-all', 'true'))"


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the table db.t (id, v) and its rows (1, 10), (2, 20)."""
    return make_lake(new_session, tmp_path / "lake")


def _sequence_numbers(lake: Lake) -> list[int]:
    """Return the sequence numbers of main's history, the newest last."""
    metadata = lake.plain_python().load_table("db.t").metadata
    found, at = [], metadata.current_snapshot()
    while at is not None:
        found.append(at.sequence_number or 0)
        at = metadata.snapshot_by_id(at.parent_snapshot_id) if at.parent_snapshot_id else None
    return found[::-1]


def test_spark_numbers_python_files_anew(lake: Lake) -> None:
    """
    A stranger takes the numbers that Python's staged snapshots have; Spark applies them anew.

    1. Python commits an overwrite of several snapshots, and appends, with apply=next.
    2. A stranger compacts the table: its snapshot has the next sequence number.
    3. Spark applies: the compaction leaves main, the staged snapshots get greater numbers.
    4. Both change the rows again.
    """
    handle, spark = lake.python(apply="next"), lake.spark()
    with handle.begin() as txn:
        txn.load_table("db.t").upsert(batch((1, 11), (3, 30)), join_cols=["id"])
        txn.load_table("db.t").append(batch((4, 40)))
    handle.catalog().load_table("db.t").append(batch((5, 50)))
    lake.plain_spark().sql(COMPACTION)

    expected = [(1, 11), (2, 20), (3, 30), (4, 40), (5, 50)]
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert expected == everywhere(lake)
    assert sorted(set(_sequence_numbers(lake))) == _sequence_numbers(lake)
    handle.catalog().load_table("db.t").delete("id = 4")
    spark.sql("UPDATE lake.db.t SET v = 0 WHERE id = 5")
    assert [(1, 11), (2, 20), (3, 30), (5, 0)] == everywhere(lake)


def test_python_numbers_spark_files_anew(lake: Lake) -> None:
    """
    A stranger takes the numbers that Spark's staged snapshots have; Python applies them anew.

    1. Spark commits with txns.apply=next, and leaves delete files as well.
    2. A stranger compacts the table: its snapshot has the next sequence number.
    3. Python applies: the delete files still hit the rows that they were written for.
    4. Both change the rows again.
    """
    lake.spark().sql(
        "ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read',"
        " 'write.update.mode' = 'merge-on-read')"
    )
    spark, handle = lake.spark(txns_apply="next"), lake.python()
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (3, 30), (4, 40)")
    spark.sql("DELETE FROM lake.db.t WHERE id = 3")
    spark.sql("UPDATE lake.db.t SET v = 11 WHERE id = 1")
    spark.sql("COMMIT")
    spark.sql("DELETE FROM lake.db.t WHERE id = 2")
    lake.plain_spark().sql(COMPACTION)

    expected = [(1, 11), (4, 40)]
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    assert [] == handle.apply_le()
    assert expected == everywhere(lake)
    assert sorted(set(_sequence_numbers(lake))) == _sequence_numbers(lake)
    handle.catalog().load_table("db.t").append(batch((5, 50)))
    spark.sql("DELETE FROM lake.db.t WHERE id = 4")
    assert [] == handle.apply_le()
    assert [(1, 11), (5, 50)] == everywhere(lake)


@pytest.mark.parametrize("applies", ["python", "spark"])
def test_a_stranger_between_swap_and_apply(lake: Lake, applies: str) -> None:
    """
    A stranger's append after one's commit is kept by the other's apply, on a branch.

    1. One language commits with apply=next; a stranger appends.
    2. The other one applies, which puts the log's state on main; the first one adopts.
    """
    spark, handle = lake.spark(txns_apply="next"), lake.python(apply="next")
    if applies == "spark":
        handle.catalog().load_table("db.t").append(batch((3, 30)))
    else:
        spark.sql("INSERT INTO lake.db.t VALUES (3, 30)")
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (4, 40)")
    expected = [(1, 10), (2, 20), (3, 30)]
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")

    if applies == "spark":
        assert 0 == one(spark, "CALL lake.system.apply()").tables_left
        assert expected == everywhere(lake)
        handle.repair_adopt("db.t")
    else:
        assert [] == handle.apply_le()
        assert expected == everywhere(lake)
        spark.sql("CALL lake.system.repair(table => 'db.t', action => 'adopt')")
    assert [] == handle.apply_le()
    assert [*expected, (4, 40)] == everywhere(lake)
    assert ["main"] == list(lake.plain_python().load_table("db.t").metadata.refs)


def test_partitions_and_types_of_both(lake: Lake) -> None:
    """Values of all usual types, with their statistics and partitions, are found by both."""
    spark, handle = lake.spark(), lake.python()
    spark.sql(
        "CREATE TABLE lake.db.typed (day DATE, at TIMESTAMP, price DECIMAL(9, 2), ok BOOLEAN,"
        " ratio DOUBLE, word STRING, raw BINARY, parts ARRAY<INT>, pair STRUCT<a: INT, b: STRING>)"
        " USING iceberg PARTITIONED BY (day, word)"
    )
    spark.sql(
        "INSERT INTO lake.db.typed VALUES (DATE '2013-01-01', TIMESTAMP '2013-01-01 10:00:00',"
        " 12.50, true, 0.5, 'spark', X'00ff', array(1, 2), named_struct('a', 1, 'b', 'x'))"
    )
    first = handle.catalog().load_table("db.typed").scan().to_arrow()
    row = {
        "day": date(2013, 1, 2),
        "at": datetime(2013, 1, 2, 10, tzinfo=UTC),
        "price": Decimal("99.99"),
        "ok": False,
        "ratio": -1.5,
        "word": "python",
        "raw": b"\x01",
        "parts": [3],
        "pair": {"a": 2, "b": None},
    }
    with handle.begin() as txn:
        txn.load_table("db.typed").append(pa.Table.from_pylist([row], schema=first.schema))
    for day, price, word in (("2013-01-01", "12.50", "spark"), ("2013-01-02", "99.99", "python")):
        where = f"day = DATE '{day}' AND price = {price} AND word = '{word}'"
        assert [(word,)] == rows(spark, f"SELECT word FROM lake.db.typed WHERE {where}")
        scan = handle.catalog().load_table("db.typed").scan(EqualTo("day", day))
        assert [word] == scan.to_arrow()["word"].to_pylist()

    spark.sql("ALTER TABLE lake.db.typed ADD PARTITION FIELD ok")
    changed = row | {"ratio": 7.0}
    with handle.begin() as txn:
        txn.load_table("db.typed").overwrite(
            pa.Table.from_pylist([changed], schema=first.schema), EqualTo("word", "python")
        )
    spark.sql("UPDATE lake.db.typed SET ratio = ratio + 1 WHERE day = DATE '2013-01-02'")
    query = "SELECT word, ratio, price, raw, parts, pair.a, pair.b FROM lake.db.typed"
    expected = [
        ("python", 8.0, Decimal("99.99"), b"\x01", [3], 2, None),
        ("spark", 0.5, Decimal("12.50"), b"\x00\xff", [1, 2], 1, "x"),
    ]
    assert expected == rows(spark, query) == rows(lake.plain_spark(), query)
    for catalog in (handle.catalog(), lake.plain_python()):
        found = catalog.load_table("db.typed").scan().to_arrow().to_pylist()
        flat = [{**each, **each["pair"]} for each in found]
        names = ("word", "ratio", "price", "raw", "parts", "a", "b")
        assert expected == sorted(tuple(each[name] for name in names) for each in flat)


def test_branches_and_tags_of_both(lake: Lake) -> None:
    """A branch that one makes is written by the other, and tags are seen by both."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("ALTER TABLE lake.db.t CREATE BRANCH audit")
    with handle.begin() as txn:
        table = txn.load_table("db.t")
        table.append(batch((3, 30)), branch="audit")
        current = table.metadata.current_snapshot_id
        assert current is not None
        table.manage_snapshots().create_tag(current, "made_by_python").commit()
    spark.sql("INSERT INTO lake.db.t.branch_audit VALUES (4, 40)")

    on_branch = [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert on_branch == rows(spark, "SELECT * FROM lake.db.t VERSION AS OF 'audit'")
    audit = handle.catalog().load_table("db.t").scan().use_ref("audit").to_arrow()
    assert on_branch == sorted(zip(*audit.to_pydict().values(), strict=True))
    tagged = "SELECT * FROM lake.db.t VERSION AS OF 'made_by_python'"
    assert [(1, 10), (2, 20)] == rows(spark, tagged) == everywhere(lake)
