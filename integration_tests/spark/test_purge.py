"""DROP TABLE and `purge` on real Spark: when it is refused, what it leaves, Python beside it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from integration_tests.checks import one, refused, rows
from integration_tests.shared_lake import T, batch, everywhere, make_lake
from txns._table import purge_claim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

_AGE = "CALL {}.system.settings(max_age_s => 1)"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("db/t/**/*") if path.is_file() and path.suffix != ".crc"]


def _make_and_drop(spark: SparkSession, mode: str) -> None:
    spark.sql(
        "CREATE TABLE own.db.t (id INT, v INT) USING iceberg TBLPROPERTIES"
        f" ('write.delete.mode' = '{mode}', 'format-version' = '2')"
    )
    spark.sql("INSERT INTO own.db.t VALUES (1, 0), (2, 0), (3, 0)")
    spark.sql("DELETE FROM own.db.t WHERE id = 2")
    spark.sql("DROP TABLE own.db.t")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_purge_frees_the_name_and_the_files(
    own_lake: Callable[..., SparkSession], tmp_path: Path, mode: str
) -> None:
    """Data files, delete files, manifests and metadata; a new table of the name is a new one."""
    spark = own_lake()
    spark.sql(_AGE.format("own"))
    _make_and_drop(spark, mode)
    before = len(_files(tmp_path))
    time.sleep(1.1)
    purged = one(spark, "CALL own.system.purge('db.t')")
    assert ("db.t", False) == (purged.table_name, purged.kept_data)
    assert purged.deleted_files > before
    assert [] == _files(tmp_path)
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 7 AS id")
    assert [(7,)] == rows(own_lake(), "SELECT * FROM own.db.t")


def test_a_drop_of_now_is_too_young(own_lake: Callable[..., SparkSession], tmp_path: Path) -> None:
    """Nothing is touched; the same with the default age, which Python shares."""
    spark = own_lake()
    _make_and_drop(spark, "copy-on-write")
    before = set(_files(tmp_path))
    with refused("0A000") as refusal:
        spark.sql("CALL own.system.purge('db.t')")
    assert "too young" in refusal.error.message
    assert "possible from 1" in refusal.error.message
    assert before == set(_files(tmp_path))


def test_purge_of_a_table_that_is_not_dropped(own_lake: Callable[..., SparkSession]) -> None:
    spark = own_lake()
    spark.sql(_AGE.format("own"))
    spark.sql("CREATE TABLE own.db.t USING iceberg AS SELECT 1 AS id")
    with refused("42809"):
        spark.sql("CALL own.system.purge('db.t')")
    assert [(1,)] == rows(spark, "SELECT * FROM own.db.t")


def test_one_language_purges_what_the_other_dropped(
    new_session: Callable[[], SparkSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each is refused what the other has claimed, until it is done."""
    lake = make_lake(new_session, tmp_path / "lake")
    spark, handle = lake.spark(), lake.python()
    spark.sql(_AGE.format("lake"))
    spark.sql("DROP TABLE lake.db.t")
    time.sleep(1.1)
    dead = lake.python()
    dead.parts.catalog.rename_table = _dies
    with pytest.raises(_Died):
        dead.purge("db.t")
    with refused("40001") as refusal:
        spark.sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT) USING iceberg")
    assert "CALL lake.system.purge('db.t')" in refusal.error.message
    with refused("40001"):
        spark.sql("CALL lake.system.purge('db.t')")
    monkeypatch.setattr(purge_claim, "CLAIM_MS", 1000)
    time.sleep(1.1)
    handle.purge("db.t")
    spark.sql("CREATE TABLE lake.db.t (id BIGINT, v BIGINT) USING iceberg")
    handle.catalog().load_table("db.t").append(batch((7, 70)))
    assert [(7, 70)] == everywhere(lake)
    handle.catalog().drop_table("db.t")
    time.sleep(1.1)
    spark.sql("CALL lake.system.purge('db.t')")
    assert [] == [path for path in _files(tmp_path) if path.suffix == ".parquet"]
    handle.catalog().create_table("db.t", batch().schema).append(batch((8, 80)))
    assert [(8, 80)] == rows(spark, T)


class _Died(Exception):
    """A purger that died before it moved the table."""


def _dies(*_names: object) -> None:
    raise _Died
