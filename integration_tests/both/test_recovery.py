"""Logs that were lost or set back, of lakes that Spark writes: Python recovers them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pytest

import txns
from integration_tests import drills
from integration_tests.checks import one, refused, rows
from integration_tests.python_lake import plain
from integration_tests.shared_lake import make_lake
from tests.txns.backups import LOG, pointers, restore
from txns._admin.invariants import check_all
from txns._admin.recover import Recovered, recover
from txns._clock import SystemClock
from txns._config import Config
from txns._services import Parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog.sql import SqlCatalog
    from pyspark.sql import SparkSession

    from integration_tests.shared_lake import Lake

A, B = "SELECT id FROM lake.db.a", "SELECT id FROM lake.db.b"
RECOVER = "CALL lake.system.repair(table => 'db.a', action => 'recover')"


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake with db.a, of format 3, and db.b, which pyiceberg writes; each has the row 1."""
    made = make_lake(new_session, tmp_path / "lake")
    spark = made.spark()
    for name, version in (("a", 3), ("b", 2)):
        spark.sql(
            f"CREATE TABLE lake.db.{name} (id BIGINT) USING iceberg"
            f" TBLPROPERTIES ('format-version' = '{version}')"
        )
        spark.sql(f"INSERT INTO lake.db.{name} VALUES (1)")
    return made


def _recover(lake: Lake) -> Recovered:
    return recover(lake.plain_python(), Config.of(), SystemClock())


def _violations(lake: Lake) -> list[str]:
    parts = Parts.of(lake.plain_python(), Config.of(), SystemClock())
    return [f"{each.where}: {each.words}" for each in check_all(parts).violations]


def _set_log_back(lake: Lake, backup: dict[str, str]) -> None:
    """Set the log back to a backup; its newer files are gone."""
    restore(lake.plain_python(), backup, [LOG])
    kept = Path(urlparse(backup[LOG]).path)
    for path in kept.parent.glob("*.metadata.json"):
        if int(path.name.split("-")[0]) > int(kept.name.split("-")[0]):
            path.unlink()


@pytest.mark.parametrize("ahead_ms", [0, 30_000])
def test_a_table_of_format_3_gives_up_what_it_is_passed_over_by(lake: Lake, ahead_ms: int) -> None:
    """
    Spark does to one table what a recovery does to those that Python writes.

    1. A transaction that has read `a` is open; another one writes `a`. 2. The log is set back to
    before that, and the open one commits, above it or below. 3. It is recovered, then the table.
    """
    late = lake.spark()
    late.sql("BEGIN")
    late.sql("INSERT OVERWRITE lake.db.a VALUES (5)")
    late.sql("INSERT INTO lake.db.b VALUES (5)")
    backup = pointers(lake.plain_python())
    if ahead_ms:
        lake.python().advance(int(time.time() * 1000) + ahead_ms)
    lake.spark().sql("INSERT INTO lake.db.a VALUES (6)")
    _set_log_back(lake, backup)
    late_ts = one(late, "COMMIT").commit_ts

    found = _recover(lake)
    assert [["a"]] == [[at.table[-1] for at in each.changes] for each in found.found.passed_over]
    assert {("db", "a")} == set(found.left)
    lake.python().tidy()  # what counts as applied to `a` is archived
    spark = lake.spark()
    assert [(1,), (5,)] == rows(spark, B)
    with refused("XX001"):
        rows(spark, A)
    first = one(spark, RECOVER)
    assert first.commit_ts > late_ts
    assert first == one(spark, RECOVER)
    assert [(1,), (6,)] == rows(spark, A) == rows(lake.plain_spark(), A)
    assert [] == _violations(lake)
    with pytest.raises(txns.Conflict, match="too old"):
        lake.python().snapshot(read_ts=late_ts).load_table("db.a")

    spark.sql("INSERT INTO lake.db.a VALUES (7)")
    spark.sql("CALL lake.system.tidy()")
    assert [] == _violations(lake)
    assert [] == _recover(lake).found.passed_over
    spark = lake.spark()
    spark.sql(RECOVER)
    assert [(1,), (6,), (7,)] == rows(spark, A) == rows(lake.plain_spark(), A)
    assert [] == _violations(lake)


@pytest.mark.parametrize("deed", ["INSERT INTO lake.db.a VALUES (6)", "DROP TABLE lake.db.a"])
def test_a_table_of_format_3_shows_another_entry_than_the_log_at_one_commit_ts(
    lake: Lake, deed: str
) -> None:
    """The log's stands there, and the table's moves; not with what a stranger has written since."""
    backup = pointers(lake.plain_python())
    lake.spark().sql(deed)
    lost_ts = lake.python().upper
    _set_log_back(lake, backup)
    lake.python().advance(lost_ts)

    found = _recover(lake).found
    [told] = found.told_by_tables
    assert lost_ts < told.commit_ts == found.upper
    assert [] == _recover(lake).found.passed_over
    spark, plain = lake.spark(), lake.plain_spark()
    if deed.startswith("INSERT"):
        left = one(plain, "SELECT snapshot_id FROM lake.db.a.refs").snapshot_id
        plain.sql("INSERT INTO lake.db.a VALUES (66)")
        with refused("55000") as refusal:
            spark.sql(RECOVER)
        assert str(left) in str(refusal.error)
        plain.sql(f"CALL lake.system.rollback_to_snapshot('db.a', {left})")
    spark.sql(RECOVER)
    assert [] == _violations(lake)
    if deed.startswith("DROP"):
        assert [] == rows(spark, "SHOW TABLES IN lake.db LIKE 'a'")
        spark.sql("CREATE TABLE lake.db.a (id BIGINT) USING iceberg")
        spark.sql("INSERT INTO lake.db.a VALUES (1), (6)")
    assert [(1,), (6,)] == rows(spark, A) == rows(lake.plain_spark(), A)
    spark.sql("INSERT INTO lake.db.a VALUES (7)")
    spark.sql("CALL lake.system.tidy()")
    assert [] == _recover(lake).found.told_by_tables
    spark = lake.spark()
    spark.sql(RECOVER)
    assert [(1,), (6,), (7,)] == rows(spark, A)
    assert [] == _violations(lake)


_PAST = {"a table is set back": 3, "the catalog is set back by five transactions": 6}
"""How many transactions Spark has committed before a drill, where one is not enough."""


@dataclass
class SparkLake(drills.Lake):
    """A lake whose past is Spark's; what a drill itself commits is Python's."""

    spark: SparkSession | None = None

    def catalog(self) -> SqlCatalog:
        """Give a client of its own."""
        return plain(self.folder)

    def pass_by_spark(self, transactions: int) -> None:
        """Let Spark append the next numbers to all tables."""
        assert self.spark is not None
        for _ in range(transactions):
            self.last += 1
            self.backups[self.last] = pointers(self.catalog())
            self.spark.sql("BEGIN")
            for name in self.tables:
                self.spark.sql(f"INSERT INTO lake.{name} VALUES ({self.last})")
            self.spark.sql("COMMIT")

    def read(self) -> list[int]:
        """Give what Spark reads from all tables."""
        assert self.spark is not None
        seen = [
            [row.id for row in self.spark.sql(f"SELECT id FROM lake.{name}").collect()]
            for name in self.tables
        ]
        assert sorted(seen[0]) == sorted(seen[1])
        return sorted(seen[0])


@pytest.mark.slow
def test_drills_of_a_lake_that_spark_writes(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    """
    Spark tells of a damage at its first statement, and goes on after `txns recover`.

    A session that has seen another head than the recovered one's is told to make place for a new
    one; one that has seen none, since there was none that could be read, goes on.
    """
    made = make_lake(new_session, tmp_path / "lake")
    lake = SparkLake(made.folder, "", ["db.a", "db.b"], spark=made.spark())
    for name in lake.tables:
        lake.spark.sql(f"CREATE TABLE lake.{name} (id BIGINT) USING iceberg")
    missing: list[int] = []
    opened_again = []
    for drill in drills.DRILLS:
        lake.pass_by_spark(_PAST.get(drill.name, 1))
        drill.strike(lake)
        lake.spark = made.spark()
        told = _told(lake.read)
        # Python's error of a file that is gone has another name.
        assert drill.told.replace("FileNotFoundError", "txns recover") in told, drill.name
        assert bool(drill.told) == bool(told), drill.name
        drill.cure(lake)
        missing += range(lake.last - drill.lost + 1, lake.last + 1)
        if again := _told(lambda: lake.pass_by_spark(1)):
            assert "in Spark: in a new session" in again, drill.name
            opened_again.append(drill.name)
            lake.last -= 1  # it has not committed
            lake.spark = made.spark()
            lake.pass_by_spark(1)
        assert [] == _violations(made), drill.name
        assert lake.read() == [n for n in range(1, lake.last + 1) if n not in missing], drill.name
    assert [
        "the log is set back by an entry",
        "the log is set back by an entry, and its newer files are gone",
        "the log is set back by a tidy",
        "the catalog is set back by five transactions",
        "the catalog is set back by 22 minutes",
    ] == opened_again


def _told(deed: Callable[[], object]) -> str:
    try:
        deed()
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is what a user sees
        return str(error)
    return ""
