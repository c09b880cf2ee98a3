"""
Measure what transactions cost in Python: the same appends with and without them.

Five and twenty one-row appends, each to a table of its own, in turns on plain pyiceberg and
in one transaction: until it is acknowledged (the swap), and until it is applied. Then the
swap alone for 1 to 20 tables, and a whole transaction with 10 and 1,000 registered tables,
and with 100 and 10,000 past transactions.

    make bench NAME=python_commit
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from _history import add_history
from _measure import Metric, Times, milliseconds, ratio, take_turns, write
from pyiceberg.catalog.sql import SqlCatalog

import txns

TURNS = 30
WARM_UP = 3
ROW = pa.table({"id": pa.array([1], pa.int64()), "name": ["one"]})
ACKNOWLEDGED_TARGET = 0.5
APPLIED_TARGET = 0.8
GROWTH_TARGET = 1.3
SWAP_TARGET = 1.5
SWAP_TABLES = (1, 5, 20)
REGISTERED = (10, 1000)
PAST = (100, 10_000)


@dataclass
class Lake:
    """A SQLite catalog with files in a folder."""

    catalog: SqlCatalog
    handle: txns.Handle

    @staticmethod
    def make(folder: Path, name: str) -> Lake:
        place = folder / name
        place.mkdir()
        catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/files"
        )
        catalog.create_namespace("shop")
        return Lake(catalog, txns.open(catalog))

    def tables(self, prefix: str, count: int, *, register: bool) -> list[str]:
        names = [f"shop.{prefix}{number}" for number in range(count)]
        for name in names:
            self.catalog.create_table(name, ROW.schema)
            if register:
                self.handle.register(name)
        self.handle.tidy()
        return names


def main() -> None:
    """Run all comparisons and write results/python_commit.json."""
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
        metrics: list[Metric] = []
        for count in (5, 20):
            metrics += _appends(Path(folder), count)
        metrics += _swaps(Path(folder))
        metrics += _registered(Path(folder))
        metrics += _past(Path(folder))
        write("python_commit", metrics)


def _transaction(lake: Lake, tables: list[str], times: Times) -> None:
    """One transaction of one-row appends; times until each phase has ended."""
    started = time.perf_counter()
    txn = lake.handle.begin()
    for table in tables:
        txn.load_table(table).append(ROW)
    with times.part("swap"):
        committed = txn.commit_at()
    times.parts.setdefault("acknowledged", []).append(time.perf_counter() - started)
    committed.apply()
    times.parts.setdefault("applied", []).append(time.perf_counter() - started)


def _appends(folder: Path, count: int) -> list[Metric]:
    print(f"{count} appends", flush=True)
    lake = Lake.make(folder, f"appends-{count}")
    plain = lake.tables("plain", count, register=False)
    ours = lake.tables("ours", count, register=True)

    def independent(times: Times, _turn: int) -> None:
        with times.part("all"):
            for table in plain:
                lake.catalog.load_table(table).append(ROW)

    def together(times: Times, _turn: int) -> None:
        _transaction(lake, ours, times)

    ways = {"plain": independent, "txns": together}
    kept = take_turns(ways, warm_up=WARM_UP, turns=TURNS)
    theirs = kept["plain"].parts["all"]
    against = f"{count} independent appends of pyiceberg"
    parts = kept["txns"].parts
    return [
        ratio(
            f"{count} appends, acknowledged",
            parts["acknowledged"],
            theirs,
            against=against,
            target=ACKNOWLEDGED_TARGET,
        ),
        ratio(
            f"{count} appends, applied",
            parts["applied"],
            theirs,
            against=against,
            target=APPLIED_TARGET,
        ),
        milliseconds(f"{count} appends, plain", theirs, against="the clock"),
    ]


def _swaps(folder: Path) -> list[Metric]:
    print("swaps", flush=True)
    lake = Lake.make(folder, "swaps")
    tables = lake.tables("t", max(SWAP_TABLES), register=True)

    def way(count: int):
        return lambda times, _turn: _transaction(lake, tables[:count], times)

    kept = take_turns({str(n): way(n) for n in SWAP_TABLES}, warm_up=WARM_UP, turns=TURNS)
    one = kept["1"].parts["swap"]
    return [
        milliseconds("swap of 1 table", one, against="the clock"),
        *(
            ratio(
                f"swap of {count} tables",
                kept[str(count)].parts["swap"],
                one,
                against="a swap of 1 table",
                target=SWAP_TARGET,
            )
            for count in SWAP_TABLES[1:]
        ),
    ]


def _compared(name: str, few: Lake, many: Lake, labels: tuple[str, str]) -> Metric:
    def way(lake: Lake):
        return lambda times, _turn: _transaction(lake, ["shop.t0", "shop.t1"], times)

    ways = {"few": way(few), "many": way(many)}
    kept = take_turns(ways, warm_up=WARM_UP, turns=TURNS)
    return ratio(
        f"{name}: {labels[1]}",
        kept["many"].parts["applied"],
        kept["few"].parts["applied"],
        against=labels[0],
        target=GROWTH_TARGET,
    )


def _registered(folder: Path) -> list[Metric]:
    lakes = []
    for count in REGISTERED:
        print(f"{count} registered tables", flush=True)
        lake = Lake.make(folder, f"registered-{count}")
        lake.tables("t", count, register=True)
        lakes.append(lake)
    labels = tuple(f"{count} registered tables" for count in REGISTERED)
    return [_compared("transaction of 2 appends", *lakes, labels)]


def _past(folder: Path) -> list[Metric]:
    lakes = []
    for count in PAST:
        print(f"{count} past transactions", flush=True)
        lake = Lake.make(folder, f"past-{count}")
        lake.tables("t", 2, register=True)
        add_history(lake.handle, count)
        lakes.append(lake)
    labels = tuple(f"{count} past transactions" for count in PAST)
    return [_compared("transaction of 2 appends", *lakes, labels)]


if __name__ == "__main__":
    main()
