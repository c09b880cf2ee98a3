"""Several lakes in one process: each connection has its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine

from integration_tests import sessions
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

_NAMES = "SELECT v FROM default.t ORDER BY v"
# What a first connection starts Spark with is not what the others get.
_FIRST_STARTS_SPARK = """
import sys
from integration_tests import sessions
from txns_spark import dbapi

one, two, option = *sys.argv[1:], "spark.sql.catalog.lake.header.x"
config = sessions.SMALL | {option: "one's"}
for folder in (one, two, one, two):
    with dbapi.connect(warehouse=folder, config=config if folder == one else None) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE IF NOT EXISTS t (v STRING) USING iceberg")
        cursor.execute("INSERT INTO t VALUES (?)", [folder])
        assert {(folder,)} == set(cursor.execute("SELECT v FROM t").fetchall())
        settings = dict(cursor.execute("SET").fetchall())
        assert (option in settings) == (folder == one)
"""


def _fill(connection: dbapi.Connection, value: str) -> dbapi.Connection:
    with connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE default.t (v STRING) USING iceberg")
        cursor.execute("INSERT INTO default.t VALUES (?)", [value])
    return connection


@pytest.mark.usefixtures("root_session")
def test_two_connections_have_two_lakes(tmp_path: Path) -> None:
    """Each sees its own, in whatever order they are opened and used, and as often."""
    lakes = [tmp_path / name for name in "ab"]
    opened = [dbapi.connect(warehouse=str(lake), autocommit=True) for lake in lakes]
    for connection, lake in zip(opened, lakes, strict=True):
        _fill(connection, lake.name)
    opened += [dbapi.connect(warehouse=str(lake)) for lake in lakes]
    for connection, lake in zip(opened, lakes * 2, strict=True):
        assert [(lake.name,)] == connection.cursor().execute(_NAMES).fetchall()
        connection.close()
    assert all(list((lake / "default").glob("t*/data/*.parquet")) for lake in lakes)


def test_a_uri_is_a_lake_of_its_own(root_session: SparkSession, tmp_path: Path) -> None:
    """With it go the other options: a warehouse of another catalog would mix their files."""
    settings = sessions.catalog_settings(tmp_path)
    uri, warehouse = settings["uri"], settings["warehouse"]
    with dbapi.connect(uri=uri, warehouse=warehouse) as connection:
        connection.cursor().execute("CREATE NAMESPACE default")
    _fill(dbapi.connect(uri=uri, warehouse=warehouse, schema="default"), "c").close()
    assert list((tmp_path / "default").glob("t*"))
    # What the connection names is its place, whatever its options say besides.
    options = {"uri": f"jdbc:sqlite:file:{tmp_path}/elsewhere.db", "token": "elsewhere's"}
    config = {f"spark.sql.catalog.lake.{name}": value for name, value in options.items()}
    place = {"uri": uri, "warehouse": warehouse, "schema": "default"}
    for given in (None, root_session):
        with dbapi.connect(given, **place, config=config) as connection:
            cursor = connection.cursor()
            assert [("c",)] == cursor.execute(_NAMES).fetchall()
            settings = dict(cursor.execute("SET").fetchall())
            assert "spark.sql.catalog.lake.token" not in settings
    with pytest.raises(dbapi.OperationalError, match="needs a warehouse"):
        dbapi.connect(uri=uri)


def test_the_session_that_runs_keeps_its_lake(root_session: SparkSession, tmp_path: Path) -> None:
    """Nobody's options are set on it; without a place, a connection has its catalog."""
    before = root_session.conf.getAll
    _fill(dbapi.connect(warehouse=str(tmp_path / "a")), "a").close()
    _fill(dbapi.connect(catalog="second", warehouse=str(tmp_path / "a")), "a").close()
    assert before == root_session.conf.getAll
    with dbapi.connect(schema="db") as connection:
        assert [("lake",)] == connection.cursor().execute("SELECT current_catalog()").fetchall()


def test_a_session_that_is_given_brings_its_catalogs(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    """Also those that were set in it, of which Spark's new sessions know nothing."""
    spark = new_session()
    _fill(dbapi.connect(spark, warehouse=str(tmp_path / "b")), "b").close()
    for key, value in sessions.catalog_settings(tmp_path / "b").items():
        spark.conf.set(f"spark.sql.catalog.lake.{key}", value)
    with dbapi.connect(spark, schema="default") as connection:
        assert [("b",)] == connection.cursor().execute(_NAMES).fetchall()


@pytest.mark.usefixtures("root_session")
def test_a_warehouse_alone_does_not_move_a_catalog(
    new_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    spark = new_session()
    sessions.add_catalog(spark, "own", tmp_path / "own", sessions.TXNS)
    spark.conf.set("spark.sql.catalog.own.uri", f"jdbc:sqlite:file:{tmp_path}/elsewhere.db")
    with pytest.raises(dbapi.OperationalError, match="give its uri as well"):
        dbapi.connect(spark, catalog="own", warehouse=str(tmp_path / "b"))


@pytest.mark.usefixtures("root_session")
def test_a_driver_that_the_jvm_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(dbapi.OperationalError, match=r"spark\.jars\.packages"):
        dbapi.connect(uri="jdbc:postgresql://127.0.0.1:1/x", warehouse=str(tmp_path))


@pytest.mark.usefixtures("root_session")
def test_two_engines_have_two_lakes(tmp_path: Path) -> None:
    engines = {
        name: create_engine(f"txns:///lake/default?warehouse={tmp_path / name}") for name in "ab"
    }
    for name, engine in engines.items():
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (v STRING) USING iceberg")
            connection.exec_driver_sql("INSERT INTO t VALUES (?)", (name,))
    for name, engine in engines.items():
        with engine.begin() as connection:
            assert [(name,)] == connection.exec_driver_sql("SELECT v FROM t").fetchall()
        engine.dispose()


def test_the_first_connection_starts_spark_for_itself(tmp_path: Path) -> None:
    """Others go neither to its lake nor by its options."""
    folders = [str(tmp_path / name) for name in "ab"]
    subprocess.run([sys.executable, "-c", _FIRST_STARTS_SPARK, *folders], check=True)
