"""Python and Spark validate against each other: in the head, in the archive, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import txns
from integration_tests.checks import one, refused, rows
from integration_tests.shared_lake import SCHEMA, batch, everywhere, make_lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.shared_lake import Lake


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the table db.t (id, v) and its rows (1, 10), (2, 20)."""
    return make_lake(new_session, tmp_path / "lake")


def test_python_loses_to_spark(lake: Lake) -> None:
    """A Python transaction whose table Spark has written gets 40001 that names Spark's."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.load_table("db.t").delete("id = 1")
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = 0 WHERE id = 1")
    first = one(spark, "COMMIT")

    with pytest.raises(txns.Conflict) as lost:
        txn.commit()
    assert "40001" == lost.value.sqlstate
    assert (first.txn_id, first.commit_ts, "db.t") == (
        lost.value.other_txn_id,
        lost.value.least_ts,
        lost.value.table,
    )
    assert [(1, 0), (2, 20)] == everywhere(lake)


def test_spark_loses_to_python(lake: Lake) -> None:
    """A Spark transaction whose table Python has written gets 40001 that names Python's."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = 0 WHERE id = 1")
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 1")

    with refused("40001") as lost:
        spark.sql("COMMIT")
    assert txn.committed is not None
    assert (txn.txn_id, txn.committed.commit_ts) == (lost.error.other_txn_id, lost.error.least_ts)
    assert "db.t" == lost.error.table
    assert [(2, 20)] == everywhere(lake)


def test_appends_of_both_never_clash(lake: Lake) -> None:
    """Appends that stand on an older state are put on the other's newer one, either way."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.load_table("db.t").append(batch((3, 30)))
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    txn.commit()
    later = handle.begin()
    later.load_table("db.t").append(batch((5, 50)))
    spark.sql("COMMIT")
    later.commit()
    assert [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)] == everywhere(lake)


def test_what_one_read_the_other_wrote(lake: Lake) -> None:
    """Write skew between the languages is refused: each reads what the other writes."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("CREATE TABLE lake.db.u (id BIGINT, v BIGINT) USING iceberg")
    txn = handle.begin()
    assert 2 == len(txn.load_table("db.t").scan().to_arrow())
    txn.load_table("db.u").append(batch((1, 1)))
    spark.sql("BEGIN")
    assert [] == rows(spark, "SELECT * FROM lake.db.u")
    spark.sql("INSERT INTO lake.db.t VALUES (3, 30)")
    txn.commit()
    with refused("40001"):
        spark.sql("COMMIT")

    txn = handle.begin()
    assert 1 == len(txn.load_table("db.u").scan().to_arrow())
    txn.load_table("db.t").append(batch((9, 90)))
    spark.sql("INSERT INTO lake.db.u VALUES (2, 2)")
    with pytest.raises(txns.Conflict, match="that it read was written"):
        txn.commit()
    assert [(1, 10), (2, 20)] == everywhere(lake)


def test_two_creators_of_one_name(lake: Lake) -> None:
    """A name that both found absent is created by one of them."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.create_table("db.new", SCHEMA)
    spark.sql("BEGIN")
    spark.sql("CREATE TABLE lake.db.new (other STRING) USING iceberg")
    txn.commit()
    with refused("40001"):
        spark.sql("COMMIT")
    assert [] == everywhere(lake, "db.new")
    assert ["id", "v"] == spark.table("lake.db.new").columns


def test_an_id_is_used_once_by_both(lake: Lake) -> None:
    """A caller's id that one language committed is answered by the other, and done once."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin(txn_id="load 7") as txn:
        txn.load_table("db.t").append(batch((7, 70)))
    spark.sql("BEGIN ID 'load 8'")
    spark.sql("INSERT INTO lake.db.t VALUES (8, 80)")
    spark.sql("COMMIT")

    assert "committed" == one(spark, "BEGIN ID 'load 7'").state
    spark.sql("INSERT INTO lake.db.t VALUES (7, 70)")
    spark.sql("COMMIT")
    with handle.begin(txn_id="load 8") as again:
        assert again.committed is not None
        again.load_table("db.t").append(batch((8, 80)))
    assert [(1, 10), (2, 20), (7, 70), (8, 80)] == everywhere(lake)


def test_each_tidies_and_the_other_reads_the_archive(lake: Lake) -> None:
    """Rows that one archives are the same to the other: by SELECT, by id, and in conflicts."""
    spark, handle = lake.spark(), lake.python()
    with handle.begin(txn_id="from python", comment="one") as txn:
        txn.load_table("db.t").append(batch((3, 30)))
    assert 0 < handle.tidy()
    archived = "SELECT commit_ts, kind, operation, comment FROM lake.txns.commits WHERE txn_id = "
    assert txn.committed is not None
    expected = [(txn.committed.commit_ts, "commit", "append", "one")]
    assert expected == rows(spark, archived + "'from python'")
    assert "committed" == one(spark, "BEGIN ID 'from python'").state
    spark.sql("ROLLBACK")

    spark.sql("BEGIN ID 'from spark'")
    spark.sql("DELETE FROM lake.db.t WHERE id = 3")
    committed = one(spark, "COMMIT")
    assert 0 < one(spark, "CALL lake.system.tidy()").tidied_entries
    found = handle.find("from spark")
    assert found is not None
    assert (committed.commit_ts, (("db", "t"),)) == (found.commit_ts, found.tables)

    listed = [tuple(row)[:15] for row in spark.sql("CALL lake.system.transactions()").collect()]
    ours = [tuple(row.values())[:15] for row in handle.transactions()]
    assert [row[0] for row in listed] == [row[0] for row in ours]
    assert [row[2:] for row in listed] == [row[2:] for row in ours]


def test_a_tidied_entry_still_conflicts(lake: Lake) -> None:
    """
    What has left the head since BEGIN is looked up in the archive, which the other wrote (I6).

    1. Transactions of both languages read the table.
    2. The other language writes it, and tidies its entry out of the head.
    """
    spark, handle = lake.spark(), lake.python()
    spark.sql("BEGIN")
    spark.sql("UPDATE lake.db.t SET v = 0")
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 2")
    assert 0 < handle.tidy()
    with refused("40001") as lost:
        spark.sql("COMMIT")
    assert txn.txn_id == lost.error.other_txn_id

    txn = handle.begin()
    txn.load_table("db.t").delete("id = 1")
    other = lake.spark()
    other.sql("BEGIN")
    other.sql("UPDATE lake.db.t SET v = 5")
    first = one(other, "COMMIT")
    assert 0 < one(other, "CALL lake.system.tidy()").tidied_entries
    with pytest.raises(txns.Conflict) as raced:
        txn.commit()
    assert first.txn_id == raced.value.other_txn_id
    assert [(1, 5)] == everywhere(lake)
