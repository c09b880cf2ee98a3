"""Start Spark over the demo's folder: the catalog `lake` with transactions, and plain Iceberg."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import demo_folder
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

import txns_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent / "txns-warehouse"
LOG = FOLDER / "spark.log"
_MARKER = ".made-by-flights-demo"
_PLAIN_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def reset_folder() -> None:
    """Make the demo's folder, empty; see `demo_folder.reset`."""
    demo_folder.reset(FOLDER, _MARKER)


def start(**catalog_options: str) -> SparkSession:
    """
    Start Spark with two catalogs.

    `lake` is the embedded default of txns, with its tables in the demo's folder. `plain`
    is Iceberg as it comes, on a SQLite catalog and a folder of its own, to compare with.
    """
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("flights_demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        # It runs for a minute: compiling well would take longer than running.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.session.timeZone", "UTC")
    )
    builder = txns_spark.configure(builder, warehouse=str(FOLDER / "lake"), **catalog_options)
    for name, value in _plain_options(FOLDER / "plain").items():
        builder = builder.config(f"spark.sql.catalog.plain{name}", value)
    # It prints every error that a statement gets; the demo prints those that it expects.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _standard_error_in(LOG):
        return builder.getOrCreate()


def _plain_options(folder: Path) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    return {
        "": _PLAIN_CATALOG,
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:file:{folder}/catalog.db?journal_mode=WAL&busy_timeout=30000",
        ".warehouse": str(folder),
        ".jdbc.schema-version": "V1",
        # A cached table would hide what others have committed.
        ".cache-enabled": "false",
    }


def outsider(spark: SparkSession) -> SparkSession:
    """Return a session that reads the tables of `lake` as an engine that knows no txns."""
    session = spark.newSession()
    # Catalogs are made per session, when they are first needed.
    session.conf.set("spark.sql.catalog.lake", _PLAIN_CATALOG)
    session.conf.set("spark.sql.catalog.lake.cache-enabled", "false")
    return session


@contextmanager
def _standard_error_in(log: Path) -> Iterator[None]:
    """
    Send to a file what is written to standard error, also by the JVM that is launched here.

    The JVM inherits the file for its whole life, so that Spark's log does not run into the
    demo's output.
    """
    saved = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    except BaseException:
        os.write(saved, b"Spark's log:\n" + log.read_bytes()[-4000:])
        raise
    finally:
        os.dup2(saved, 2)
        os.close(saved)
