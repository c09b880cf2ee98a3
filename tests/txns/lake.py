"""A lake of the tests: a SQLite catalog and files in a temporary folder."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table.snapshots import Operation, Summary
from sqlalchemy import event

import txns
from txns._clock import SystemClock
from txns._log.entry import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import OutputStream
    from pyiceberg.table.snapshots import Snapshot

    from txns._log.entry import Entry

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


class SteppingClock(SystemClock):
    """The system's clock, which tests can move."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.slept_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def elapsed_ms(self) -> int:
        return super().elapsed_ms() + self.ahead_ms

    def back_off(self, max_ms: int) -> None:
        self.slept_ms += max_ms

    def sleep(self, ms: int) -> None:
        self.slept_ms += ms
        self.ahead_ms += ms


class MovedFiles(PyArrowFileIO):
    """Files whose storage has the lake's time: when tests move that, days pass for it as well."""

    clock: ClassVar[SteppingClock] = SteppingClock()

    def new_output(self, location: str) -> PyArrowFile:
        output = super().new_output(location)
        return _Dated(output) if "txns-clock-" in location else output


class _Dated:
    """A file that is asked for its time as soon as it is written."""

    def __init__(self, output: PyArrowFile) -> None:
        self._output = output

    @contextmanager
    def create(self) -> Iterator[OutputStream]:
        with self._output.create() as stream:
            yield stream
        at = MovedFiles.clock.now_ms() / 1000
        os.utime(self._output.location.removeprefix("file://"), (at, at))


@dataclass
class Lake:
    """A catalog, and handles over it."""

    folder: Path
    catalog: Catalog
    clock: SteppingClock = field(default_factory=SteppingClock)

    def __post_init__(self) -> None:
        MovedFiles.clock = self.clock

    def open(self, catalog: Catalog | None = None, **options) -> txns.Handle:
        """Open the protocol; with `apply="next"` the log is set to that as well."""
        over = catalog or self.catalog
        if options.get("apply") == "next":
            where = {key: value for key, value in options.items() if key == "commit_table"}
            log = txns.open(over, clock=self.clock, **where)
            if log.settings().apply != "next":
                log.change_settings(apply="next")
        return txns.open(
            over, clock=self.clock, **{"apply": os.environ.get("TXNS_APPLY", "inline"), **options}
        )

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

    def standing(self) -> tuple[Entry, ...]:
        """Give the entries that stand in the head, but for those that stay for good."""
        entries = self.open().parts.log.load().state.entries
        return tuple(entry for entry in entries if entry.kind is not Kind.SETTINGS)

    def begin_minute(self) -> None:
        """Let a minute begin: of what follows at once no version is the last of another one."""
        self.clock.ahead_ms += 60_000 - self.clock.now_ms() % 60_000

    def pass_an_hour(self, handle: txns.Handle) -> None:
        """Let what a handle has superseded go: each file that it notes then removes two."""
        self.clock.ahead_ms += 61 * 60_000
        for _ in range(12):
            handle.advance(handle.upper + 1)

    def age_log(self, minutes: float) -> None:
        """Make every file of the commit table older: by a day, the greatest age, and more."""
        minutes += 24 * 60
        for path in (self.folder / "warehouse" / "txns").rglob("*"):
            at = path.stat().st_mtime - 60 * minutes
            os.utime(path, (at, at))


def lake_catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{folder}/catalog.db?timeout=30",
        warehouse=f"file://{folder}/warehouse",
        **{"py-io-impl": "tests.txns.lake.MovedFiles"},
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


@contextmanager
def questions(handle):
    """Give the statements that a handle's SQL catalog sends meanwhile."""
    sent: list[str] = []

    def note(_conn, _cursor, statement, *_):
        sent.append(statement)

    engine = handle.parts.catalog.engine
    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)
