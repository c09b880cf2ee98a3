"""
Spark sessions for the benchmarks: catalogs of transactions, and plain Iceberg beside them.

Every catalog is local files in a folder of its own, with SQLite or a database that is named, and
none keeps tables cached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

import txns_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

PLAIN = "plain"
PLAIN_CLASS = "org.apache.iceberg.spark.SparkCatalog"


def start(
    name: str,
    folder: Path,
    catalogs: dict[str, dict[str, str]],
    config: Mapping[str, str] | None = None,
    uri_of: Callable[[str], str] | None = None,
) -> SparkSession:
    """
    Start Spark with the catalog `plain` and some of ours, each with a namespace `db`.

    Args:
        name: The application's.
        folder: Where the catalogs and their files go.
        catalogs: Options of our catalogs, by their names.
        config: More of Spark's options.
        uri_of: Gives JDBC's URI of a catalog's database, by its name; SQLite where it is not given.
    """
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
    )
    for catalog, options in catalogs.items():
        builder = txns_spark.configure(
            builder,
            catalog=catalog,
            uri=uri_of and uri_of(catalog),
            warehouse=str(folder / catalog),
            **options,
        )
    plain = _plain(folder / PLAIN, uri_of and uri_of(PLAIN))
    for key, value in {**plain, **(config or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for catalog in (PLAIN, *catalogs):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.db")
    return spark


def _plain(folder: Path, uri: str | None) -> dict[str, str]:
    folder.mkdir()
    catalog = f"spark.sql.catalog.{PLAIN}"
    sqlite = f"jdbc:sqlite:file:{folder}/catalog.db?journal_mode=WAL&busy_timeout=30000"
    return {
        catalog: PLAIN_CLASS,
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": uri or sqlite,
        f"{catalog}.warehouse": str(folder),
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",
    }
