"""The folder of the example: deliveries, a seed, and two catalogs of the same kind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import demo_folder
from pyarrow import csv, parquet
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import txns_spark

if TYPE_CHECKING:
    import pyarrow as pa

PROJECT = Path(__file__).resolve().parent
FOLDER = PROJECT / "txns-warehouse"
_MARKER = ".made-by-flights-dbt"
_CATALOGS = {"txns": "lake", "spark": "plain"}


def reset_folder() -> None:
    """Make the example's folder, empty; see `demo_folder.reset`."""
    demo_folder.reset(FOLDER, _MARKER)
    (FOLDER / "seeds").mkdir()


def deliver(name: str, flights: pa.Table) -> Path:
    """Write a delivery, and return its file."""
    path = FOLDER / f"{name}.parquet"
    parquet.write_table(flights, path)
    return path


def write_seed(name: str, rows: pa.Table) -> None:
    """Write a seed of the project."""
    csv.write_csv(rows, FOLDER / "seeds" / f"{name}.csv")


def configure_plain_spark() -> None:
    """Write spark-defaults.conf for dbt-spark: plain Iceberg, in a catalog like ours."""
    builder = SparkSession.Builder()
    txns_spark.configure(builder, catalog="plain", warehouse=str(FOLDER / "plain"))
    settings = {
        **builder._options,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.plain": "org.apache.iceberg.spark.SparkCatalog",
        # dbt-spark's names have two parts.
        "spark.sql.defaultCatalog": "plain",
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
    }
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (FOLDER / "spark-defaults.conf").write_text(lines)


def environment(target: str) -> dict[str, str]:
    """Return the environment of a target's dbt."""
    return os.environ | ({"SPARK_CONF_DIR": str(FOLDER)} if target == "spark" else {})


def day(target: str, month: int, number: int) -> int:
    """Count a day's flights, as an engine that knows no transactions reads them."""
    name = _CATALOGS[target]
    folder = FOLDER / name
    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    scan = catalog.load_table("nyc.fct_flights").scan(
        row_filter=f"flight_date = '2013-{month:02}-{number:02}'", selected_fields=("flight",)
    )
    return scan.to_arrow().num_rows
