"""The guide's way into transactions and back: docs/spark.md, "Migrate, and back"."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests import sessions
from integration_tests.checks import one, refused, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TXNS_COMMAND = Path(sys.executable).with_name("txns")
BOTH = "SELECT (SELECT count(*) FROM own.db.t), (SELECT count(*) FROM own.db.old)"


@pytest.fixture
def open_as(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> Callable[[str], SparkSession]:
    """Make sessions that see the catalog `own` through one class or the other."""

    def open_as(catalog_class: str) -> SparkSession:
        session = new_session()
        sessions.add_catalog(session, "own", tmp_path, catalog_class)
        return session

    return open_as


@pytest.fixture
def plain(open_as: Callable[[str], SparkSession]) -> SparkSession:
    """A session of a pipeline that knows no transactions, with two tables."""
    session = open_as(sessions.PLAIN)
    session.sql("CREATE NAMESPACE own.db")
    for name, version in (("old", 1), ("t", 2)):
        session.sql(
            f"CREATE TABLE own.db.{name} (id BIGINT) USING iceberg "
            f"TBLPROPERTIES ('format-version' = '{version}')"
        )
    return session


def _pipeline(session: SparkSession, number: int) -> None:
    """Add a row to both tables, in several statements."""
    session.sql(f"INSERT INTO own.db.t VALUES ({number}), (-1)")
    session.sql("DELETE FROM own.db.t WHERE id = -1")
    session.sql(f"INSERT INTO own.db.old SELECT id FROM own.db.t WHERE id = {number}")


def _register_all(session: SparkSession) -> None:
    for table in session.sql("SHOW TABLES IN own.db").collect():
        session.sql(f"CALL own.system.register('{table.namespace}.{table.tableName}')")


def _under_care(session: SparkSession) -> list[bool]:
    properties = [dict(rows(session, f"SHOW TBLPROPERTIES own.db.{n}")) for n in ("old", "t")]
    return ["txns.commit-table" in each for each in properties]


def test_there_and_back(
    plain: SparkSession, open_as: Callable[[str], SparkSession], tmp_path: Path
) -> None:
    """The class, the tables, the pipeline; and the same way back, with every row there."""
    _pipeline(plain, 1)
    ours = open_as(sessions.TXNS)
    _pipeline(ours, 2)
    _pipeline(plain, 3)
    assert ([(3, 3)], [False, False]) == (rows(plain, BOTH), _under_care(plain))

    with refused("0A000") as refusal:
        _register_all(ours)
    upgrade = refusal.error.message.partition("upgrade it with ")[2].partition(";")[0]
    ours.sql(upgrade.replace("db.old", "own.db.old"))
    _register_all(ours)
    assert [True, True] == _under_care(plain)

    ours.sql("USE own.db")
    ours.sql("BEGIN")
    _pipeline(ours, 4)
    assert [(3, 3)] == rows(plain, BOTH)
    assert "committed" == one(ours, "COMMIT").state
    assert [(4, 4)] == rows(plain, BOTH)

    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=30"
    there = ["--catalog", "own", "--uri", uri, "--warehouse", str(tmp_path)]
    subprocess.run([TXNS_COMMAND, "forget", "--all", *there], check=True)
    assert [False, False] == _under_care(plain)
    _pipeline(plain, 5)
    assert [(5, 5)] == rows(plain, BOTH) == rows(ours, BOTH)


def test_out_in_an_incident_and_in_again(
    plain: SparkSession, open_as: Callable[[str], SparkSession]
) -> None:
    """Off: pipelines go on through either class. On: what they wrote is adopted."""
    ours = open_as(sessions.TXNS)
    plain.sql("ALTER TABLE own.db.old SET TBLPROPERTIES ('format-version' = '2')")
    _register_all(ours)
    ours.sql("CALL own.system.settings(apply => 'next')")
    ours.sql("SET `spark.sql.txns.apply` = next")
    ours.sql("USE own.db")
    ours.sql("BEGIN")
    _pipeline(ours, 1)
    ours.sql("COMMIT")
    assert [(0, 0)] == rows(plain, BOTH)

    ours.sql("BEGIN")
    _pipeline(ours, 2)
    operator = open_as(sessions.TXNS)
    assert 0 == one(operator, "CALL own.system.off()").tables_left
    assert [(1, 1)] == rows(plain, BOTH)
    with refused("0A000"):
        ours.sql("COMMIT")
    with refused("0A000") as refusal:
        ours.sql("BEGIN")
    assert "system.on()" in refusal.error.message
    _pipeline(ours, 2)
    _pipeline(plain, 3)
    assert [(3, 3)] == rows(plain, BOTH) == rows(ours, BOTH)
    merge = "MERGE INTO t USING (SELECT 4 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    assert 1 == one(ours, merge).num_affected_rows
    assert 1 == one(ours, "UPDATE t SET id = 5 WHERE id = 4").num_affected_rows
    ours.sql("ALTER TABLE t ADD COLUMN note STRING")
    ours.sql("CREATE OR REPLACE TABLE old AS SELECT id FROM t")
    ours.sql("CREATE TABLE extra AS SELECT id FROM t")
    with refused("0A000"):
        ours.sql("DROP TABLE t")
    assert [(4, 4)] == rows(plain, BOTH) == rows(ours, BOTH)

    assert (0, []) == tuple(one(operator, "CALL own.system.on()"))
    assert [(4, 4)] == rows(ours, BOTH)
    assert [1, 2, 3, 5] == [row.id for row in ours.sql("SELECT id FROM old ORDER BY id").collect()]
    ours.sql("BEGIN")
    ours.sql("INSERT INTO t VALUES (6, 'n')")
    ours.sql("INSERT INTO old SELECT id FROM t WHERE note = 'n'")
    ours.sql("COMMIT")
    ours.sql("CALL own.system.apply()")
    assert [(5, 5)] == rows(ours, BOTH) == rows(plain, BOTH)
