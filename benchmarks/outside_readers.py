"""
Readers outside the protocol: how often two tables that change together are seen apart.

One process writes the same number into both, in a PostgreSQL catalog, with `inline` and with
`atomic`: four times a second on average with either, at random moments, since who commits more
often is met more often. Plain pyiceberg, DuckDB (by the catalog's newest files of metadata) and
plain Spark read both meanwhile, one after the other, as engines do that load a table at a time. A
pair is torn where the numbers differ. A printed cut names what belongs together.

    make bench NAME=outside_readers
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
from _duck import connect
from _measure import Metric, write
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

import txns
import txns_spark
from integration_tests.cut_connections import Proxy
from integration_tests.postgres import Postgres, running_postgres
from txns._admin.consistent_cut import cut_at
from txns._admin.health import health

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog

    Read = Callable[[], tuple[int, int]]

LASTS_S = 30.0
A_SECOND = 4.0
"""Transactions, on average: such as either way can keep up with beside a reader."""
SEED = 20261129
TABLES = ("shop.a", "shop.b")
SCHEMA = pa.schema([("number", pa.int64())])


@dataclass(frozen=True)
class Lake:
    """A catalog with both tables, by whose name its rows are found."""

    name: str
    properties: dict[str, str]

    def catalog(self) -> Catalog:
        """Give a client of its own."""
        return load_catalog(self.name, **self.properties)


def main() -> None:
    """Read with each reader beside each kind of writer; write results/outside_readers.json."""
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        lakes = {way: _lake(server, Path(folder), way) for way in ("inline", "atomic")}
        with Proxy(server.socket) as proxy:
            spark = _spark(server, proxy.port, lakes)
            for way, lake in lakes.items():
                for reader, read in _readers(lake, spark, way).items():
                    metrics.append(_measured(lake, way, reader, read))
            spark.stop()
    write("outside_readers", metrics)


def _measured(lake: Lake, way: str, reader: str, read: Read) -> Metric:
    """Read pairs while a process writes; give how many were torn."""
    context = multiprocessing.get_context("spawn")
    stop, count = context.Event(), context.Value("q", 0)
    writer = context.Process(target=_write, args=(lake, way, stop, count))
    writer.start()
    while count.value < 3 and writer.is_alive():
        time.sleep(0.01)
    read()
    pairs = torn = 0
    began, first = time.perf_counter(), count.value
    while time.perf_counter() - began < LASTS_S:
        one, other = read()
        pairs, torn = pairs + 1, torn + (one != other)
    rate = (count.value - first) / (time.perf_counter() - began)
    stop.set()
    writer.join()
    assert writer.exitcode == 0
    against = f"{pairs} pairs, beside {rate:.1f} transactions a second"
    print(f"{way}, {reader}: {torn} of {pairs} torn, {rate:.1f} transactions/s", flush=True)
    target = 0.0 if reader == "a printed cut" else None
    share = torn / pairs
    what = f"{way}: torn pairs, {reader}"
    return Metric(what, share, "share", target, "lower", against, share, share, pairs)


def _write(lake: Lake, way: str, stop, count) -> None:
    handle, rng = txns.open(lake.catalog(), apply=way), random.Random(SEED)
    due = time.perf_counter()
    while not stop.is_set():
        due += rng.expovariate(A_SECOND)
        time.sleep(max(0.0, due - time.perf_counter()))
        row = pa.table({"number": [count.value]}, schema=SCHEMA)
        with handle.begin() as txn:
            for table in TABLES:
                txn.load_table(table).overwrite(row)
        count.value += 1


def _lake(server: Postgres, folder: Path, way: str) -> Lake:
    server.create_database(way)
    properties = {"type": "sql", "uri": server.uri(way), "warehouse": f"file://{folder}/{way}"}
    lake = Lake(way, properties)
    catalog = lake.catalog()
    catalog.create_namespace("shop")
    handle = txns.open(catalog)
    for table in TABLES:
        catalog.create_table(table, SCHEMA).append(pa.table({"number": [0]}, schema=SCHEMA))
        handle.register(table)
    return lake


def _readers(lake: Lake, spark: SparkSession, way: str) -> dict[str, Read]:
    catalog, duck = lake.catalog(), connect(duckdb_extension_avro, duckdb_extension_iceberg)
    handle = txns.open(lake.catalog())

    def by_pyiceberg() -> tuple[int, int]:
        one, other = (catalog.load_table(table).scan().to_arrow() for table in TABLES)
        return one["number"][0].as_py(), other["number"][0].as_py()

    def by_duckdb() -> tuple[int, int]:
        files = [catalog.load_table(table).metadata_location for table in TABLES]
        asked = ", ".join(f"(SELECT number FROM iceberg_scan('{file}'))" for file in files)
        [(one, other)] = duck.execute(f"SELECT {asked}").fetchall()
        return one, other

    def by_spark() -> tuple[int, int]:
        names = [f"{way}.{table}" for table in TABLES]
        asked = ", ".join(f"(SELECT number FROM {name})" for name in names)
        [(one, other)] = spark.sql(f"SELECT {asked}").collect()
        return one, other

    def by_cut() -> tuple[int, int]:
        found = health(handle.parts)
        cut = cut_at(handle.parts, found, found.cut_ts)
        numbers = {}
        for each in cut.tables:
            rows = catalog.load_table(each.table).scan(snapshot_id=each.snapshot_id).to_arrow()
            numbers[".".join(each.table)] = rows["number"][0].as_py()
        return numbers[TABLES[0]], numbers[TABLES[1]]

    return {
        "pyiceberg": by_pyiceberg,
        "DuckDB": by_duckdb,
        "Spark": by_spark,
        "a printed cut": by_cut,
    }


def _spark(server: Postgres, port: int, lakes: dict[str, Lake]) -> SparkSession:
    """Start Spark with plain Iceberg catalogs over both lakes."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    [first, *_] = lakes
    builder = txns_spark.configure(
        builder,
        catalog="ours",
        uri=server.jdbc_uri(first, port=port),
        warehouse=lakes[first].properties["warehouse"],
    )
    for way, lake in lakes.items():
        catalog = f"spark.sql.catalog.{way}"
        options = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "jdbc",
            ".uri": server.jdbc_uri(way, port=port),
            ".warehouse": lake.properties["warehouse"],
            ".jdbc.schema-version": "V1",
            ".cache-enabled": "false",
        }
        for key, value in options.items():
            builder = builder.config(f"{catalog}{key}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
