"""Spark's options for a catalog that is configured for pyiceberg."""

from __future__ import annotations

from pathlib import Path

import pytest

from txns_spark._pyiceberg import spark_catalog_of
from txns_spark.errors import ConfigurationError

JDBC = {"type": "jdbc", "jdbc.schema-version": "V1", "warehouse": "file:///lake"}


def _options(uri: str, **more: str) -> dict[str, str]:
    found = spark_catalog_of({"uri": uri, "warehouse": "file:///lake", **more}).options
    return dict(sorted(found.items()))


def test_sqlite() -> None:
    """The time-out of a lock is in seconds there, and in milliseconds here."""
    expected = JDBC | {"uri": "jdbc:sqlite:file:/data/a%20lake.db?busy_timeout=1500"}
    assert expected == _options("sqlite:////data/a lake.db?timeout=1.5", type="sql", echo="true")


def test_sqlite_by_a_path_of_the_working_folder() -> None:
    expected = f"jdbc:sqlite:file:{Path.cwd()}/lake.db?busy_timeout=30000"
    assert expected == _options("sqlite:///lake.db")["uri"]


def test_postgresql() -> None:
    """Who connects stands in options, where everybody masks it."""
    uri = "postgresql+psycopg2://mara:s%40cret@db.example:5433/lake?sslmode=require"
    expected = JDBC | {
        "uri": "jdbc:postgresql://db.example:5433/lake",
        "jdbc.user": "mara",
        "jdbc.password": "s@cret",
        "jdbc.sslmode": "require",
    }
    assert expected == _options(uri)
    assert "org.postgresql:postgresql" in str(
        spark_catalog_of({"uri": uri, "warehouse": "s3://lake"}).driver
    )


def test_rest_keeps_what_both_call_the_same() -> None:
    told = {
        "uri": "https://rest.example",
        "token": "t",
        "s3.endpoint": "http://s3",
        "s3.region": "eu",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }
    expected = {
        "type": "rest",
        "uri": "https://rest.example",
        "token": "t",
        "s3.endpoint": "http://s3",
        "client.region": "eu",
    }
    assert expected == spark_catalog_of(told).options


def test_hive() -> None:
    expected = {"type": "hive", "uri": "thrift://hive:9083", "warehouse": "file:///lake"}
    assert expected == _options("thrift://hive:9083")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite:///:memory:", "one process's alone"),
        ("postgresql://user@/lake?host=/tmp/pg", "by no socket"),
        ("postgresql://user@db/lake?gssencmode=disable", "gssencmode"),
        ("mysql+pymysql://user@db/lake", "cannot be told"),
        ("", "cannot be told"),
    ],
)
def test_what_java_cannot_reach_is_refused(uri: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _options(uri)
