"""
Start Spark for the integration tests, and give its sessions catalogs.

Spark makes catalogs per session, when they are first needed. So a session can be given a
catalog of its own, or see the tables of `lake` through plain Iceberg, by its settings.

Imports: txns_spark. Used by: conftest, driver_program, tests.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import txns_spark

if TYPE_CHECKING:
    from pathlib import Path

TXNS = "io.txns.spark.TxnSparkCatalog"
PLAIN = "org.apache.iceberg.spark.SparkCatalog"


def builder() -> SparkSession.Builder:
    """Return a builder for small data on a small machine."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("integration_tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        # Compiling code for a few rows takes longer than interpreting it.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.session.timeZone", "UTC")
    )


def start(folder: Path, **catalog_options: str) -> SparkSession:
    """Start Spark with the embedded default below a folder: the catalog `lake`."""
    # It prints every error that a statement gets, and most of them are expected here.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    configured = txns_spark.configure(builder(), warehouse=str(folder), **catalog_options)
    session = configured.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def add_catalog(
    session: SparkSession, name: str, folder: Path, catalog_class: str, **options: str
) -> None:
    """Give a session a catalog in SQLite and files below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:file:{folder}/catalog.db?journal_mode=WAL&busy_timeout=30000",
        "warehouse": str(folder),
        "jdbc.schema-version": "V1",
    }
    if catalog_class == PLAIN:
        # A cached table would hide what others have committed.
        settings["cache-enabled"] = "false"
    for key, value in (settings | options).items():
        session.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    session.conf.set(f"spark.sql.catalog.{name}", catalog_class)


def outsider(root: SparkSession) -> SparkSession:
    """Return a session that sees the tables of `lake` as an engine does that knows no txns."""
    session = root.newSession()
    session.conf.set("spark.sql.catalog.lake", PLAIN)
    session.conf.set("spark.sql.catalog.lake.cache-enabled", "false")
    return session
