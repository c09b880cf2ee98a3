"""
Start Spark for the integration tests, and give its sessions catalogs.

Spark makes catalogs per session, when they are first needed. So a session can be given a
catalog of its own, or see the tables of `lake` through plain Iceberg, by its settings.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import txns_spark
from integration_tests import local_files, shared_classes
from txns_spark import _versions

if TYPE_CHECKING:
    from pathlib import Path

TXNS = "io.txns.spark.TxnSparkCatalog"
PLAIN = "org.apache.iceberg.spark.SparkCatalog"
CLASS_PATH = "spark.driver.extraClassPath"

# `make test-iceberg111` says another one than configure() takes.
ICEBERG = os.environ.get("TXNS_TEST_ICEBERG", _versions.ICEBERG)


# Settings for small data on a small machine.
SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Compiling code for a few rows takes longer than interpreting it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    # On a slow machine a look would tell a test of its conflict before the COMMIT.
    "spark.sql.txns.early-doom": "false",
    # What is kept for a UI that nobody looks at is sorted at each job.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    CLASS_PATH: str(local_files.jar()),
    **local_files.SETTINGS,
    **shared_classes.settings(),
}


def builder() -> SparkSession.Builder:
    """Return a builder for small data on a small machine."""
    small = SparkSession.builder.master("local[2]").appName("integration_tests")
    for key, value in SMALL.items():
        small = small.config(key, value)
    if ICEBERG != _versions.ICEBERG:
        runtime = f"org.apache.iceberg:{_versions.ICEBERG_RUNTIME}:{ICEBERG}"
        small = small.config("spark.jars.packages", runtime)
    return small


def start(folder: Path, **options: str) -> SparkSession:
    """
    Start Spark with the embedded default below a folder: the catalog `lake`.

    Args:
        folder: Its warehouse.
        **options: The catalog's, and Spark's, which begin with `spark.`.
    """
    # It prints every error that a statement gets, and most of them are expected here.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    small = builder()
    for key in [key for key in options if key.startswith("spark.")]:
        small = small.config(key, options.pop(key))
    small = small.config("spark.sql.warehouse.dir", str(folder.parent / "spark-warehouse"))
    session = txns_spark.configure(small, warehouse=str(folder), **options).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def catalog_settings(folder: Path) -> dict[str, str]:
    """Return the options of a catalog in SQLite and files below a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:file:{folder}/catalog.db?journal_mode=WAL&busy_timeout=30000",
        "warehouse": str(folder),
        "jdbc.schema-version": "V1",
    }


def add_catalog(
    session: SparkSession, name: str, folder: Path, catalog_class: str, **options: str
) -> None:
    """Give a session a catalog in SQLite and files below a folder."""
    settings = catalog_settings(folder)
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
