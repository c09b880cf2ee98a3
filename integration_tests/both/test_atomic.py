"""Python and Spark move the log and its tables in one swap, beside others who do not."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from integration_tests.checks import one, rows
from integration_tests.python_lake import rows as python_rows
from integration_tests.shared_lake import SCHEMA, T, batch, everywhere, make_lake
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    import txns
    from integration_tests.shared_lake import Lake

EACH = 5
"""How many transactions each of those who write at once commits."""


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the tables db.t (id, v), with rows (1, 10), (2, 20), and db.u."""
    made = make_lake(new_session, tmp_path / "lake")
    made.spark().sql("CREATE TABLE lake.db.u (id BIGINT, v BIGINT) USING iceberg")
    return made


def _born(handle: txns.Handle) -> list[list[bool]]:
    """Say which tables of each entry moved with it."""
    entries = handle.parts.log.load().state.entries
    return [[change.born_applied for change in entry.changes] for entry in entries]


def test_spark_moves_tables_with_the_log(lake: Lake) -> None:
    """Whoever knows no txns sees all of it, and Python reads what is nobody's to apply."""
    spark, handle = lake.spark(txns_apply="atomic"), lake.python()
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (3, 30)")
    spark.sql("UPDATE lake.db.t SET v = 21 WHERE id = 2")
    spark.sql("INSERT INTO lake.db.u SELECT * FROM lake.db.t WHERE id > 1")
    spark.sql("CREATE TABLE lake.db.made USING iceberg AS SELECT 7 AS id, 70 AS v")
    done = one(spark, "COMMIT")
    assert done.applied
    assert [True, True, True] == _born(handle)[-1]
    assert [(1, 10), (2, 21), (3, 30)] == everywhere(lake)
    assert [(2, 21), (3, 30)] == everywhere(lake, "db.u")
    assert [(7, 70)] == everywhere(lake, "db.made")
    spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    assert [True] == _born(handle)[-1]
    assert [(2, 21), (3, 30)] == python_rows(lake.plain_python(), "db.t")


def test_they_write_in_turns(lake: Lake) -> None:
    """Each stands on what the other has moved, and on what is to be applied before."""
    spark, handle = lake.spark(txns_apply="atomic"), lake.python(apply="atomic")
    lazy = lake.spark(txns_apply="next")
    with handle.begin() as txn:
        txn.load_table("db.t").append(batch((3, 30)))
        txn.create_table("db.made", SCHEMA).append(batch((1, 1)))
    spark.sql("INSERT INTO lake.db.made VALUES (2, 2)")
    lazy.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    spark.sql("BEGIN")
    spark.sql("INSERT INTO lake.db.t VALUES (5, 50)")
    spark.sql("INSERT INTO lake.db.u VALUES (5, 50)")
    spark.sql("COMMIT")
    assert [False, True] == _born(handle)[-1]
    with handle.begin() as txn:
        txn.load_table("db.t").delete("id = 1")
        txn.load_table("db.u").append(batch((6, 60)))
    assert [(2, 20), (3, 30), (4, 40), (5, 50)] == everywhere(lake)
    assert [(5, 50), (6, 60)] == everywhere(lake, "db.u")
    assert [(1, 1), (2, 2)] == everywhere(lake, "db.made")
    one(spark, "CALL lake.system.tidy()")
    assert [(2, 20), (3, 30), (4, 40), (5, 50)] == everywhere(lake)


def test_all_kinds_write_at_once(lake: Lake) -> None:
    """Nothing is lost, and both tables have the same; Python's tidies go with commits."""

    def by_spark(session: SparkSession, first: int) -> None:
        for number in range(first, first + EACH):
            session.sql("BEGIN ISOLATION LEVEL SNAPSHOT")
            for table in ("t", "u"):
                session.sql(f"INSERT INTO lake.db.{table} VALUES ({number}, 0)")
            session.sql("COMMIT")

    def by_python(handle: txns.Handle, first: int) -> None:
        for number in range(first, first + EACH):
            with handle.begin(isolation="snapshot") as txn:
                for table in ("db.t", "db.u"):
                    txn.load_table(table).append(batch((number, 0)))

    writers = [
        (by_spark, lake.spark(txns_apply="atomic")),
        (by_spark, lake.spark()),
        (by_python, lake.python(apply="atomic", tidy_after=2)),
        (by_python, lake.python(apply="inline", tidy_after=4)),
    ]
    with ThreadPoolExecutor(len(writers)) as threads:
        running = [
            threads.submit(write, by, 100 * number)
            for number, (write, by) in enumerate(writers, start=1)
        ]
        for each in running:
            each.result(timeout=240)
    handle = lake.python()
    handle.apply_le()
    assert handle.parts.log.load().state.tidied_upto
    assert [] == check_all(handle.parts).violations
    logged = lake.spark().sql("CALL lake.system.transactions()").collect()
    assert 4 * EACH <= len({row.commit_ts for row in logged if row.table_name == "db.u"})
    wanted = [(100 * by + number, 0) for by in range(1, 5) for number in range(EACH)]
    assert wanted == sorted(everywhere(lake, "db.u"))
    assert sorted([(1, 10), (2, 20), *wanted]) == sorted(everywhere(lake))


def test_a_session_says_which_way_it_is(lake: Lake) -> None:
    """SET goes before what the catalog was opened with, and a log is set to no such thing."""
    spark, handle = lake.spark(), lake.python()
    spark.sql("INSERT INTO lake.db.t VALUES (3, 30)")
    assert [False] == _born(handle)[-1]
    spark.sql("SET spark.sql.txns.apply = atomic")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 40)")
    assert [True] == _born(handle)[-1]
    assert [(1, 10), (2, 20), (3, 30), (4, 40)] == rows(spark, T)
    with pytest.raises(Exception, match="inline, next"):
        spark.sql("CALL lake.system.settings(apply => 'atomic')")
    assert "inline" in json.dumps(one(spark, "CALL lake.system.settings()").asDict(), default=str)
