"""A lake of the tests: a SQLite catalog and files in a temporary folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Summary

import txns
from txns._clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table.snapshots import Snapshot

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


class SteppingClock(SystemClock):
    """The system's clock, which tests can move."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.slept_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def back_off(self, max_ms: int) -> None:
        self.slept_ms += max_ms

    def sleep(self, ms: int) -> None:
        self.slept_ms += ms
        self.ahead_ms += ms


@dataclass
class Lake:
    """A catalog, and handles over it."""

    folder: Path
    catalog: Catalog
    clock: SteppingClock = field(default_factory=SteppingClock)

    def open(self, catalog: Catalog | None = None, **options) -> txns.Handle:
        return txns.open(catalog or self.catalog, clock=self.clock, **options)

    def another_catalog(self) -> Catalog:
        return lake_catalog(self.folder)

    def table(self, name: str, ids: list[int] | None = None, *, register: bool = True):
        """Create `shop.NAME`, with rows, under care."""
        table = self.catalog.create_table(f"shop.{name}", SCHEMA)
        if ids:
            table.append(rows(*ids))
        if register:
            self.open().register(f"shop.{name}")
        return f"shop.{name}"

    def plain_ids(self, name: str) -> list[int]:
        """What an engine outside the protocol reads."""
        return ids(self.catalog.load_table(name))

    def files(self) -> set[str]:
        return {str(path) for path in (self.folder / "warehouse").rglob("*") if path.is_file()}

    def age_log(self, minutes: float) -> None:
        """Make every file of the commit table older."""
        for path in (self.folder / "warehouse" / "txns").rglob("*"):
            at = path.stat().st_mtime - 60 * minutes
            os.utime(path, (at, at))


def lake_catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{folder}/catalog.db?timeout=30",
        warehouse=f"file://{folder}/warehouse",
    )


def rows(*values: int) -> pa.Table:
    return pa.table({"id": list(values), "name": [f"n{v}" for v in values]}, schema=SCHEMA)


def ids(table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def compaction(table) -> Snapshot:
    """A snapshot 77 of the same rows as main's, as a compaction past the protocol makes it."""
    below = table.current_snapshot()
    return below.model_copy(
        update={
            "snapshot_id": 77,
            "parent_snapshot_id": below.snapshot_id,
            "sequence_number": table.metadata.last_sequence_number + 1,
            "summary": Summary(Operation.REPLACE),
        }
    )
