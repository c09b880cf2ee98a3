"""
Measure up to where payloads should stand in the log's records, and not in files of their own.

A head has sixteen entries that are not applied, with a payload of one size each: in their records,
or in files. What does that cost a small transaction of somebody else, whose swap writes the whole
head; who meets that head for the first time; and who commits such an entry himself?

    make bench NAME=inline_payloads
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa
from _measure import Metric, Times, ratio, take_turns, write
from pyiceberg.catalog.sql import SqlCatalog

import txns
from txns._log import limits, payload

SIZES_KIB = (2, 4, 8, 16, 32, 60)
ENTRIES = 16
TURNS = 20
WARM_UP = 3
ROW = pa.table({"id": pa.array([1], pa.int64())})
SMALL, LARGE = "shop.small", "shop.large"
PROPERTY = "note"


@dataclass
class Lake:
    """A SQLite catalog with files in a folder, whose log leaves what is committed to others."""

    folder: Path
    catalog: SqlCatalog
    handle: txns.Handle
    inline_max_bytes: int

    @staticmethod
    def make(folder: Path, inline_max_bytes: int) -> Lake:
        folder.mkdir()
        catalog = _catalog(folder)
        catalog.create_namespace("shop")
        handle = txns.open(catalog, apply="next", tidy_after=10_000)
        for name in (SMALL, LARGE):
            catalog.create_table(name, ROW.schema)
            handle.register(name)
        handle.change_settings(apply="next")
        handle.tidy()
        return Lake(folder, catalog, handle, inline_max_bytes)

    def commit_large(self, kib: int, number: int) -> None:
        """Commit an entry of a size: a property of a table that is as long."""
        with (
            mock.patch.object(payload, "INLINE_MAX_BYTES", self.inline_max_bytes),
            self.handle.begin() as txn,
            txn.load_table(LARGE).transaction() as large,
        ):
            large.set_properties({PROPERTY: f"{number:04}" + "x" * (kib * 1024 - 600)})

    def commit_small(self) -> None:
        """Append a row to another table."""
        with self.handle.begin() as txn:
            txn.load_table(SMALL).append(ROW)

    def meet(self) -> None:
        """Open the log as a process that has never seen it."""
        assert txns.open(_catalog(self.folder), apply="next").upper


def _catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog(
        "lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/files"
    )


def main() -> None:
    """Compare both ways for each size; write results/inline_payloads.json."""
    metrics: list[Metric] = []
    for kib in SIZES_KIB:
        print(f"{kib} KiB", flush=True)
        with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
            metrics += _compared(Path(folder), kib)
    write("inline_payloads", metrics)


def _compared(folder: Path, kib: int) -> list[Metric]:
    most = {"record": limits.INLINE_MAX_BYTES, "file": 0}
    lakes = {way: Lake.make(folder / way, each) for way, each in most.items()}

    def entry(lake: Lake):
        def turn(times: Times, number: int) -> None:
            with times.part("large"):
                lake.commit_large(kib, number)

        return turn

    def others(lake: Lake):
        def turn(times: Times, _number: int) -> None:
            with times.part("small"):
                lake.commit_small()
            with times.part("meet"):
                lake.meet()

        return turn

    made = take_turns(
        {way: entry(lake) for way, lake in lakes.items()},
        warm_up=WARM_UP,
        turns=ENTRIES - WARM_UP,
    )
    kept = take_turns(
        {way: others(lake) for way, lake in lakes.items()}, warm_up=WARM_UP, turns=TURNS
    )
    record = kept["record"].parts | made["record"].parts
    file = kept["file"].parts | made["file"].parts
    told = {
        "small": "a small transaction beside payloads",
        "meet": "to meet a head with payloads",
        "large": "to commit a payload",
    }
    return [
        ratio(
            f"{what} of {kib} KiB in records",
            record[part],
            file[part],
            against="the same in files",
            target=None,
        )
        for part, what in told.items()
    ]


if __name__ == "__main__":
    main()
