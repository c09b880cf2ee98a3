"""
TPC-H's refresh functions in one transaction, beside the same statements on plain Iceberg in Spark.

RF1 inserts new orders and their lineitems, RF2 deletes old ones: a thousandth of the orders each,
four statements over two tables between BEGIN and COMMIT. Scale 1 (6 million lineitems),
copy-on-write and merge-on-read, each way with a catalog in SQLite and files in a folder, in turns
(for each file of which plain Iceberg has Hadoop start two processes, and ours for data files).
The data are those of DuckDB's extension `tpch`, which makes no refresh sets: here one is 1,500
orders times the scale that stand together, which RF2 deletes, and RF1 inserts with keys that the
specification leaves free for it, 8 above them. Rows and keys of both tables are held afterwards
against what they have to be.

    make bench NAME=tpch_refresh
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb_extension_tpch
from _duck import connect
from _measure import Metric, Times, milliseconds, ratio, show, take_turns, write
from _spark import PLAIN, start

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    from pyspark.sql import SparkSession

OURS = "ours"
CATALOGS = (OURS, PLAIN)
MODES = ("copy-on-write", "merge-on-read")
WARM_UP = 2
TURNS = 15
TARGET = 1.03
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
ORDERS = 1_500_000
"""Of scale 1."""
SET_ORDERS = 1_500
"""Of one refresh set, at scale 1."""
_FREE = 8
"""Of 32 keys the first 8 are used, and the next 8 are free for what RF1 inserts (TPC-H, 4.2.3)."""

_OLD = "(SELECT o_orderkey FROM old_orders WHERE set = {set})"
FUNCTIONS = {
    "RF1": (
        "INSERT INTO {c}.db.orders SELECT * EXCEPT (set) FROM new_orders WHERE set = {set}",
        "INSERT INTO {c}.db.lineitem SELECT * EXCEPT (set) FROM new_lineitem WHERE set = {set}",
    ),
    "RF2": (
        f"DELETE FROM {{c}}.db.orders WHERE o_orderkey IN {_OLD}",
        f"DELETE FROM {{c}}.db.lineitem WHERE l_orderkey IN {_OLD}",
    ),
}
PARTS = ("BEGIN", *FUNCTIONS, "COMMIT")


@dataclass(frozen=True)
class Data:
    """
    What was generated, as files of Parquet.

    Attributes:
        folder: Where they are: of the two tables, and `new_orders`, `new_lineitem`, `old_orders`.
        sums: By table and number of refreshes that were made, how many rows there are then, and
            the sum of their keys.
    """

    folder: Path
    sums: dict[tuple[str, int], tuple[int, int]]


def main() -> None:
    """Refresh in both modes, and write results/tpch_refresh.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=TURNS)
    told = parser.parse_args()
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as name:
        folder = Path(name)
        data = _generate(folder / "data", told.scale, WARM_UP + told.turns)
        spark = start("tpch_refresh", folder, {OURS: {}})
        for view in ("new_orders", "new_lineitem", "old_orders"):
            spark.read.parquet(f"{data.folder}/{view}.parquet").createOrReplaceTempView(view)
        for mode in MODES:
            metrics += _compare(spark, data, mode, told.turns)
        spark.stop()
    if (told.scale, told.turns) == (1.0, TURNS):
        write("tpch_refresh", metrics)
    else:
        show(metrics)


# ------------------------------------------------------------ the data


def _generate(folder: Path, scale: float, sets: int) -> Data:
    """Generate tables, and sets to refresh them with; those of the specification, in order."""
    print(f"TPC-H, scale {scale:g}, {sets} refresh sets", flush=True)
    folder.mkdir()
    made = connect(duckdb_extension_tpch)
    made.execute("CALL dbgen(sf = ?)", [scale])
    each = max(1, round(SET_ORDERS * scale))
    made.execute(
        f"""
        CREATE TABLE old_orders AS SELECT o_orderkey, place // {each} AS set
        FROM (SELECT o_orderkey, row_number() OVER (ORDER BY o_orderkey) - 1 AS place FROM orders)
        WHERE place < {each * sets}"""
    )
    for table, key in KEYS.items():
        made.execute(
            f"""
            CREATE TABLE new_{table} AS
            SELECT * REPLACE ({key} + {_FREE} AS {key})
            FROM {table} JOIN (SELECT o_orderkey AS {key}, set FROM old_orders) USING ({key})"""
        )
    for table in (*KEYS, "new_orders", "new_lineitem", "old_orders"):
        made.execute(f"COPY {table} TO '{folder}/{table}.parquet' (FORMAT parquet)")
    data = Data(folder, _sums(made, sets))
    _assert_generated(made, scale, each)
    made.close()
    return data


def _sums(made: duckdb.DuckDBPyConnection, sets: int) -> dict[tuple[str, int], tuple[int, int]]:
    """Say what tables come to after so many sets: each moves the keys of its rows by 8."""
    found = {}
    for table, key in KEYS.items():
        [(rows, keys)] = made.execute(
            f"SELECT count(*), sum({key})::BIGINT FROM {table}"
        ).fetchall()
        for done in range(sets + 1):
            [(moved,)] = made.execute(
                f"SELECT count(*) FROM new_{table} WHERE set < {done}"
            ).fetchall()
            found[table, done] = (rows, keys + _FREE * moved)
    return found


def _assert_generated(made: duckdb.DuckDBPyConnection, scale: float, each: int) -> None:
    def one(query: str) -> int:
        [(found,)] = made.execute(query).fetchall()
        return int(found)

    assert one("SELECT count(*) FROM orders") == round(ORDERS * scale)
    assert one("SELECT count(DISTINCT l_orderkey) FROM lineitem") == round(ORDERS * scale)
    assert one("SELECT min(n) FROM (SELECT count(*) n FROM new_orders GROUP BY set)") == each
    assert one("SELECT count(DISTINCT l_orderkey) FROM new_lineitem WHERE set = 0") == each
    taken = "SELECT count(*) FROM new_orders WHERE o_orderkey IN (SELECT o_orderkey FROM orders)"
    assert one(taken) == 0


# ------------------------------------------------------------ the refreshes


def _compare(spark: SparkSession, data: Data, mode: str, turns: int) -> list[Metric]:
    print(f"\nRF1 and RF2, {mode}", flush=True)
    for catalog in CATALOGS:
        _make_tables(spark, catalog, data, mode)
    ways: dict[str, Callable[[Times, int], None]] = {
        catalog: partial(_refresh, spark, catalog) for catalog in CATALOGS
    }
    kept = take_turns(ways, warm_up=WARM_UP, turns=turns)
    for catalog in CATALOGS:
        _count_rows(spark, catalog, data, WARM_UP + turns)
    return _metrics(mode, kept[OURS], kept[PLAIN])


def _make_tables(spark: SparkSession, catalog: str, data: Data, mode: str) -> None:
    for table in KEYS:
        spark.sql(f"DROP TABLE IF EXISTS {catalog}.db.{table}")
        spark.sql(
            f"CREATE TABLE {catalog}.db.{table} USING iceberg TBLPROPERTIES ("
            f"'format-version' = '2', 'write.delete.mode' = '{mode}') AS "
            f"SELECT * FROM parquet.`{data.folder}/{table}.parquet`"
        )
    if catalog != PLAIN:
        spark.sql(f"CALL {catalog}.system.apply()")
    _count_rows(spark, catalog, data, 0)


def _refresh(spark: SparkSession, catalog: str, times: Times, turn: int) -> None:
    """Run the functions with the set of a turn, in a transaction where the catalog has them."""
    spark.sql(f"USE {catalog}.db")
    if catalog != PLAIN:
        with times.part("BEGIN"):
            spark.sql("BEGIN").collect()
    for part, statements in FUNCTIONS.items():
        with times.part(part):
            for statement in statements:
                spark.sql(statement.format(c=catalog, set=turn)).collect()
    if catalog != PLAIN:
        with times.part("COMMIT"):
            spark.sql("COMMIT").collect()


def _count_rows(spark: SparkSession, catalog: str, data: Data, done: int) -> None:
    for table, key in KEYS.items():
        [found] = spark.sql(
            f"SELECT count(*), sum({key}), count_if({key} IN (SELECT o_orderkey FROM old_orders"
            f" WHERE set < {done})) FROM {catalog}.db.{table}"
        ).collect()
        rows, keys, left = found
        assert (rows, keys) == data.sums[table, done], (catalog, table, found, data.sums)
        assert left == 0, (catalog, table, left)


def _metrics(mode: str, ours: Times, plain: Times) -> list[Metric]:
    against = "the same on plain Iceberg"
    theirs = plain.total(list(FUNCTIONS))
    return [
        ratio(
            f"{mode}: RF1 and RF2 in one transaction",
            ours.total(PARTS),
            theirs,
            against=against,
            target=TARGET,
        ),
        *(
            ratio(f"{mode}: {part}", ours.parts[part], plain.parts[part], against=against)
            for part in FUNCTIONS
        ),
        ratio(
            f"{mode}: BEGIN and COMMIT",
            ours.total(["BEGIN", "COMMIT"]),
            ours.total(PARTS),
            against="the whole transaction",
            unit="share",
        ),
        milliseconds(f"{mode}: RF1 and RF2, plain", theirs, against="the clock"),
    ]


if __name__ == "__main__":
    main()
