"""Iceberg's maintenance procedures on tables under care: through the protocol, and safe for it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests import sessions
from integration_tests.checks import count, one, refused, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sampled

REWRITES = {
    "rewrite_data_files": "options => map('rewrite-all', 'true')",
    "rewrite_manifests": "use_caching => false",
    "rewrite_position_delete_files": "options => map('rewrite-all', 'true')",
}
TEN_DAYS_S = 10 * 24 * 3600
LATER = "TIMESTAMP '2100-01-01 00:00:00'"


def _fill(session: SparkSession, table: str, version: int = 2) -> None:
    session.sql(
        f"CREATE TABLE {table} (id BIGINT, v STRING) USING iceberg TBLPROPERTIES "
        f"('write.delete.mode' = 'merge-on-read', 'format-version' = '{version}')"
    )
    for first in (0, 10, 20):
        session.sql(f"INSERT INTO {table} SELECT id, 'v' FROM range({first}, {first + 10})")
    for value in (3, 13):
        session.sql(f"DELETE FROM {table} WHERE id = {value}")


def _files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("procedure", REWRITES)
def test_rewrites_are_entries(spark: SparkSession, table: str, procedure: str) -> None:
    """A rewrite outside a transaction is logged as a replace, and changes no rows."""
    _fill(spark, table)
    name = table.removeprefix("lake.")
    spark.sql(f"CALL lake.system.{procedure}(table => '{name}', {REWRITES[procedure]})").collect()
    logged = spark.sql("CALL lake.system.transactions()").filter(f"table_name = '{name}'")
    newest = logged.sort("commit_ts").collect()[-1]
    assert ("replace", True) == (newest.operation, newest.applied)
    assert 28 == count(spark, table)


@pytest.mark.parametrize(
    "procedure", [*REWRITES, "expire_snapshots", "remove_orphan_files", "rewrite_table_path"]
)
def test_inside_a_transaction_they_are_refused(
    spark: SparkSession, table: str, procedure: str
) -> None:
    """Maintenance is no part of a transaction: 0A000, which says when it is possible."""
    _fill(spark, table)
    spark.sql("BEGIN")
    with refused("0A000") as refusal:
        spark.sql(f"CALL lake.system.{procedure}(table => '{table.removeprefix('lake.')}')")
    assert "COMMIT" in refusal.error.message
    spark.sql("ROLLBACK")


def test_a_rewrite_beside_a_transaction(
    spark: SparkSession, other: SparkSession, table: str
) -> None:
    """An append commits over a compaction; a delete of rows that were moved gets 40001."""
    _fill(spark, table)
    call = (
        f"CALL lake.system.rewrite_data_files(table => '{table.removeprefix('lake.')}', "
        "options => map('rewrite-all', 'true'))"
    )
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {table} VALUES (100, 'new')")
    other.sql(call)
    assert "committed" == one(spark, "COMMIT").state
    assert 29 == count(other, table)
    spark.sql("BEGIN")
    spark.sql(f"DELETE FROM {table} WHERE id = 100")
    other.sql(call)
    with refused("40001"):
        spark.sql("COMMIT")
    assert 29 == count(other, table)


@pytest.mark.parametrize("version", [2, 3])
def test_maintenance_leaves_what_is_not_applied_yet(
    own_lake: Callable[..., SparkSession], tmp_path: Path, version: int
) -> None:
    """Expiry and removal of orphans take nothing that a committed, unapplied entry needs."""
    spark = own_lake(txns_apply="next")
    _fill(spark, "own.db.t", version)
    spark.sql("CALL own.system.apply()")
    spark.sql("BEGIN")
    spark.sql("INSERT INTO own.db.t VALUES (100, 'new')")
    spark.sql("DELETE FROM own.db.t WHERE id < 3")
    spark.sql("COMMIT")
    before = rows(spark, "SELECT * FROM own.db.t")
    plain = own_lake(catalog_class=sessions.PLAIN)
    assert 28 == count(plain, "own.db.t")

    spark.sql(
        f"CALL own.system.expire_snapshots(table => 'db.t', older_than => {LATER}, "
        "retain_last => 1)"
    ).collect()
    assert before == rows(spark, "SELECT * FROM own.db.t")
    orphan = tmp_path / "own" / "db" / "t" / "data" / "orphan.parquet"
    orphan.write_bytes(b"")
    for file in _files(tmp_path / "own"):
        os.utime(file, (time.time() - TEN_DAYS_S,) * 2)
    removed = spark.sql("CALL own.system.remove_orphan_files(table => 'db.t')").collect()
    assert [orphan.name] == [Path(row.orphan_file_location).name for row in removed]
    assert before == rows(spark, "SELECT * FROM own.db.t")
    spark.sql("CALL own.system.apply()")
    assert before == rows(spark, "SELECT * FROM own.db.t") == rows(plain, "SELECT * FROM own.db.t")


def test_expiry_leaves_what_a_transaction_reads(
    own_lake: Callable[..., SparkSession],
) -> None:
    """A transaction that runs beside an expiry goes on reading as of its read_ts."""
    spark, other = own_lake(), own_lake()
    _fill(spark, "own.db.t")
    spark.sql("BEGIN")
    assert 28 == count(spark, "own.db.t")
    other.sql("DELETE FROM own.db.t WHERE id > 5")
    other.sql(
        "CALL own.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"
    )
    other.sql(
        f"CALL own.system.expire_snapshots(table => 'db.t', older_than => {LATER}, "
        "retain_last => 1)"
    ).collect()
    assert 28 == len(rows(spark, "SELECT * FROM own.db.t WHERE v = 'v'"))
    spark.sql("ROLLBACK")
    assert 5 == count(other, "own.db.t")
