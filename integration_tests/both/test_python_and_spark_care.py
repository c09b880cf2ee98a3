"""What one language takes into care, repairs and remembers, it does for both."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import NamespaceNotEmptyError

import txns
from integration_tests.background import Background
from integration_tests.checks import one, refused, rows
from integration_tests.python_lake import rows as python_rows
from integration_tests.shared_lake import SCHEMA, T, batch, everywhere, make_lake
from txns_spark.errors import Unsupported, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from integration_tests.shared_lake import Lake


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the table db.t (id, v) and its rows (1, 10), (2, 20)."""
    return make_lake(new_session, tmp_path / "lake")


def test_each_registers_and_forgets_for_the_other(lake: Lake) -> None:
    """A table that one puts under care, or takes from it, is so for the other."""
    outside, spark, handle = lake.plain_spark(), lake.spark(), lake.python()
    outside.sql("CREATE TABLE lake.db.p (id BIGINT, v BIGINT) USING iceberg")
    outside.sql("INSERT INTO lake.db.p VALUES (1, 1)")
    with pytest.raises(txns.Unsupported, match="register"):
        handle.begin().load_table("db.p").append(batch((2, 2)))

    registered = one(spark, "CALL lake.system.register('db.p')").commit_ts
    assert registered == handle.register("db.p")
    assert [("db", "p"), ("db", "t")] == handle.registered()
    with handle.begin() as txn:
        txn.load_table("db.p").append(batch((2, 2)))
        txn.load_table("db.t").append(batch((2, 2)))

    handle.forget("db.p")
    spark.sql("BEGIN")
    with refused("0A000"):
        spark.sql("INSERT INTO lake.db.p VALUES (3, 3)")
    spark.sql("ROLLBACK")
    outside.sql("INSERT INTO lake.db.p VALUES (3, 3)")
    assert [(1, 1), (2, 2), (3, 3)] == everywhere(lake, "db.p")

    handle.register("db.p")
    spark.sql("BEGIN")
    spark.sql("DELETE FROM lake.db.p WHERE id = 3")
    spark.sql("COMMIT")
    spark.sql("CALL lake.system.forget('db.p')")
    assert [("db", "t")] == handle.registered()
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.p")


def test_a_stranger_is_adopted_by_one_for_both(lake: Lake) -> None:
    """Rows that a stranger appended are nobody's, until either language adopts them."""
    spark, handle = lake.spark(), lake.python()
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (3, 30)")
    expected = [(1, 10), (2, 20)]
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")

    handle.repair_adopt("db.t")
    assert [*expected, (3, 30)] == everywhere(lake)

    lake.plain_python().load_table("db.t").append(batch((4, 40)))
    assert [*expected, (3, 30)] == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    spark.sql("CALL lake.system.repair(table => 'db.t', action => 'adopt')")
    assert [*expected, (3, 30), (4, 40)] == everywhere(lake)


def test_who_writes_next_adopts_for_both(lake: Lake) -> None:
    """A statement sees what strangers had appended before it; the log has it for everybody."""
    spark, handle = lake.spark(), lake.python()
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (3, 30)")
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((4, 40)))
    assert [(1, 10), (2, 20), (3, 30), (4, 40)] == everywhere(lake)
    lake.plain_python().load_table("db.t").append(batch((5, 50)))
    spark.sql("INSERT INTO lake.db.t VALUES (6, 60)")
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (7, 70)")
    spark.sql("DELETE FROM lake.db.t WHERE id IN (5, 7)")
    assert [(1, 10), (2, 20), (3, 30), (4, 40), (6, 60)] == everywhere(lake)
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (8, 80)")
    spark.sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('team' = 'me')")
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (9, 90)")
    lake.plain_python().load_table("db.t").append(batch((5, 55)))
    spark.sql("COMMIT")
    handle.parts.committer.adopt(("db", "t"))
    kept = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 55), (6, 60), (8, 80), (9, 90)]
    assert kept == everywhere(lake)


def test_both_adopt_at_once(lake: Lake) -> None:
    """Two adopters of one stranger derive one id, and its rows are taken in once."""
    spark, handle = lake.spark(), lake.python()
    lake.plain_spark().sql("INSERT INTO lake.db.t VALUES (3, 30)")
    together = threading.Barrier(2)

    def by_spark(_turn: int) -> None:
        together.wait()
        with suppress(Unsupported), translated():  # the other has done it already
            spark.sql("CALL lake.system.repair(table => 'db.t', action => 'adopt')")

    with Background(by_spark, turns=1):
        together.wait()
        with suppress(txns.Unsupported):
            handle.repair_adopt("db.t")
    assert [(1, 10), (2, 20), (3, 30)] == everywhere(lake)
    assert 1 == [row["kind"] for row in handle.transactions()].count("adopt")


def test_a_stranger_is_rejected_by_one_for_both(lake: Lake) -> None:
    """What a stranger overwrote is put back by either language, and kept on a branch."""
    spark, handle = lake.spark(), lake.python()
    expected = [(1, 10), (2, 20)]
    lake.plain_spark().sql("DELETE FROM lake.db.t WHERE id = 1")
    assert expected == rows(spark, T) == python_rows(handle.catalog(), "db.t")
    with pytest.raises(txns.Quarantined):
        handle.begin().load_table("db.t").append(batch((9, 90)))
    handle.repair_reject("db.t")
    assert expected == everywhere(lake)

    lake.plain_python().load_table("db.t").delete("id = 2")
    with refused("55000"):
        spark.sql("INSERT INTO lake.db.t VALUES (9, 90)")
    spark.sql("CALL lake.system.repair(table => 'db.t', action => 'reject')")
    assert expected == everywhere(lake)
    branches = lake.plain_python().load_table("db.t").metadata.refs
    assert 2 == len([name for name in branches if name.startswith("txns-foreign-")])


def test_both_read_the_past_alike(lake: Lake) -> None:
    """A timestamp of one language's commit is a state of all tables for the other."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("CREATE TABLE lake.db.u (id BIGINT, v BIGINT) USING iceberg")
    states = {}
    for number in range(4):
        if number % 2:
            spark.sql("BEGIN")
            spark.sql(f"UPDATE lake.db.t SET v = {number}")
            spark.sql(f"INSERT INTO lake.db.u VALUES ({number}, 0)")
            at = one(spark, "COMMIT").commit_ts
        else:
            with handle.begin() as txn:
                txn.load_table("db.t").overwrite(batch((1, number), (2, number)))
                txn.load_table("db.u").append(batch((number, 0)))
            assert txn.committed is not None
            at = txn.committed.commit_ts
        states[at] = ([(1, number), (2, number)], [(n, 0) for n in range(number + 1)])
    for at, expected in states.items():
        past = handle.snapshot(at)
        assert expected == (python_rows(past, "db.t"), python_rows(past, "db.u"))
        spark.sql(f"BEGIN READ ONLY, AS OF {at}")
        assert expected == (rows(spark, T), rows(spark, "SELECT * FROM lake.db.u"))
        spark.sql("COMMIT")


def test_before_a_table_was_created_is_an_error_for_both(lake: Lake) -> None:
    """A read before a table's creation is an error, never an empty table (I11)."""
    spark, handle = lake.spark(), lake.python()
    before = handle.upper
    spark.sql("CREATE TABLE lake.db.by_spark (id BIGINT, v BIGINT) USING iceberg")
    handle.catalog().create_table("db.by_python", SCHEMA)

    spark.sql(f"BEGIN READ ONLY, AS OF {before}")
    for table in ("db.by_spark", "db.by_python"):
        with pytest.raises(txns.Conflict) as too_old:
            handle.snapshot(before).load_table(table)
        with refused("40001") as refusal:
            spark.table(f"lake.{table}").collect()
        assert before < too_old.value.least_ts == refusal.error.least_ts
    spark.sql("ROLLBACK")


def test_a_table_that_spark_replaced(lake: Lake) -> None:
    """A replaced table is another one to Python, applied or not, and a lost race if it had it."""
    spark, handle = lake.spark(txns_apply="next"), lake.python()
    before = handle.upper
    txn = handle.begin()
    txn.load_table("db.t").append(batch((3, 30)))
    spark.sql("CREATE OR REPLACE TABLE lake.db.t USING iceberg AS SELECT 'a' AS word, 1 AS n")
    with pytest.raises(txns.Conflict):
        txn.commit()

    assert [("a", 1)] == python_rows(handle.catalog(), "db.t")
    assert [(1, 10), (2, 20)] == python_rows(handle.snapshot(before), "db.t")
    assert [] == handle.apply_le()
    handle.catalog().load_table("db.t").overwrite(
        pa.table({"word": ["b"], "n": pa.array([2], pa.int32())})
    )
    assert [("b", 2)] == everywhere(lake)
    assert [(1, 10), (2, 20)] == python_rows(handle.snapshot(before), "db.t")


def test_a_rollback_of_one_is_a_change_for_the_other(lake: Lake) -> None:
    """Rows that one rolls back are gone for both, and come back as each says."""
    spark, handle = lake.spark(), lake.python()
    first = lake.plain_python().load_table("db.t").metadata.current_snapshot_id
    handle.catalog().load_table("db.t").append(batch((3, 30)))
    spark.sql(f"CALL lake.system.rollback_to_snapshot('db.t', {first})")
    assert [(1, 10), (2, 20)] == everywhere(lake)

    spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    with handle.begin() as txn:
        table = txn.load_table("db.t")
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        table.append(batch((4, 40)))
    assert [(1, 10), (2, 20), (4, 40)] == everywhere(lake)


def test_a_rename_of_one_ends_what_the_other_has_open(lake: Lake) -> None:
    """Under its new name a table is both's; who had it open under the old one runs again."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.load_table("db.t").append(batch((3, 30)))
    spark.sql("ALTER TABLE lake.db.t RENAME TO db.renamed")
    with pytest.raises(txns.Conflict):
        txn.commit()
    assert [("db", "renamed")] == handle.registered()

    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.renamed VALUES (4, 40)")
    handle.catalog().rename_table("db.renamed", "db.t")
    with refused("40001"):
        spark.sql("COMMIT")
    assert [(1, 10), (2, 20)] == everywhere(lake)


def test_off_and_on_are_for_both(lake: Lake) -> None:
    """Writers of both languages are turned away while either has turned them off."""
    spark, handle = lake.spark(), lake.python()
    txn = handle.begin()
    txn.load_table("db.t").append(batch((3, 30)))
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    assert [] == lake.python().off()
    with pytest.raises(txns.Unsupported):
        txn.commit()
    with refused("0A000"):
        spark.sql("COMMIT")
    handle.on()
    spark.sql("INSERT INTO lake.db.t VALUES (5, 50)")
    assert [(1, 10), (2, 20), (5, 50)] == everywhere(lake)


def test_a_namespace_that_holds_what_spark_has_not_applied_stays(lake: Lake) -> None:
    """
    Dropped, nobody could create the table any more that the log has in it.

    1. Spark creates a table in an empty namespace, and does not apply it.
    2. Python drops the namespace.
    """
    spark, handle = lake.spark(txns_apply="next"), lake.python()
    spark.sql("CREATE NAMESPACE lake.empty")
    spark.sql("CREATE TABLE lake.empty.t (id BIGINT) USING iceberg")
    with pytest.raises(NamespaceNotEmptyError):
        handle.catalog().drop_namespace("empty")
    assert [] == handle.apply_le()
    assert [] == everywhere(lake, "empty.t")


def test_a_namespace_that_holds_what_python_has_not_applied_stays(lake: Lake) -> None:
    """The same, the other way round."""
    spark, handle = lake.spark(), lake.python(apply="next")
    handle.catalog().create_namespace("empty")
    handle.catalog().create_table("empty.t", SCHEMA)
    # Iceberg's own exception, which Spark does not translate on a plain catalog either.
    with pytest.raises(Py4JJavaError, match=r"(?i)not empty"):
        spark.sql("DROP NAMESPACE lake.empty")
    assert [] == handle.apply_le()
    assert [] == everywhere(lake, "empty.t")
