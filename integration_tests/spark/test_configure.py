"""A fresh process needs nothing but txns_spark.configure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

from integration_tests import sessions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def _run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process and a folder of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        cwd=folder,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_defaults_give_a_working_catalog(tmp_path: Path) -> None:
    """Without any argument there is a catalog `lake` below ./txns-warehouse, and it lasts.

    The first CREATE TABLE needs no namespace made before, nor does the command line any option.
    """
    first = _run(
        """
        import txns_spark
        from pyspark.sql import SparkSession

        spark = txns_spark.configure(SparkSession.builder).getOrCreate()
        spark.sql("USE lake")
        spark.sql("BEGIN")
        spark.sql("CREATE TABLE a USING iceberg AS SELECT 1 AS id")
        spark.sql("CREATE TABLE b USING iceberg AS SELECT id + 1 AS id FROM lake.default.a")
        row = spark.sql("COMMIT").first()
        print(row.state, row.applied, sorted(row.tables))
        """,
        tmp_path,
    )
    assert "committed True ['default.a', 'default.b']" == first.stdout.strip(), first.stderr
    assert (tmp_path / "txns-warehouse" / "catalog.db").is_file()
    status = _run(
        """
        from txns._cli import main

        main(["status", "--json"])
        """,
        tmp_path,
    )
    tables = {each["name"]: each["state"] for each in json.loads(status.stdout)["tables"]}
    assert {"default.a": "ok", "default.b": "ok"} == tables, status.stderr
    second = _run(
        """
        import txns_spark
        from pyspark.sql import SparkSession

        spark = txns_spark.configure(SparkSession.builder).getOrCreate()
        rows = spark.sql("TABLE lake.default.a UNION ALL TABLE lake.default.b").collect()
        print(sorted(row.id for row in rows))
        """,
        tmp_path,
    )
    assert "[1, 2]" == second.stdout.strip(), second.stderr


def test_wrong_option_is_named_at_start(tmp_path: Path) -> None:
    """A misspelt option is refused by name, as InvalidUsage with SQLSTATE 42000."""
    done = _run(
        """
        import txns_spark
        from pyspark.sql import SparkSession
        from txns_spark.errors import InvalidUsage, translated

        builder = txns_spark.configure(SparkSession.builder, **{"txns.comit-table": "a.b"})
        spark = builder.getOrCreate()
        try:
            with translated():
                spark.sql("BEGIN")
        except InvalidUsage as error:
            print(error.sqlstate, "txns.comit-table" in error.message)
        """,
        tmp_path,
    )
    assert "42000 True" == done.stdout.strip(), done.stderr


def test_two_catalogs_side_by_side(tmp_path: Path) -> None:
    """Configure is called once for each catalog; each has transactions of its own."""
    done = _run(
        """
        import txns_spark
        from pyspark.sql import SparkSession

        builder = txns_spark.configure(SparkSession.builder, warehouse="one")
        builder = txns_spark.configure(builder, catalog="two", warehouse="two")
        spark = builder.getOrCreate()
        for name in ("lake", "two"):
            spark.sql(f"CREATE NAMESPACE {name}.db")
            spark.sql(f"CREATE TABLE {name}.db.t (id INT) USING iceberg")
            spark.sql("BEGIN")
            spark.sql(f"INSERT INTO {name}.db.t VALUES (1)")
            print(spark.sql("COMMIT").first().tables)
        print(spark.sql("SELECT count(*) FROM lake.db.t JOIN two.db.t USING (id)").first()[0])
        """,
        tmp_path,
    )
    assert ["['db.t']", "['db.t']", "1"] == done.stdout.split("\n")[:3], done.stderr


def test_the_session_runs_the_iceberg_that_the_tests_are_for(spark: SparkSession) -> None:
    """Also where `make test-iceberg111` asks for another one."""
    jvm = spark.sparkContext._jvm
    assert sessions.ICEBERG == jvm.org.apache.iceberg.IcebergBuild.version()
