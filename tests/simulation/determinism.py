"""
Puts the world's time, randomness and order in the place of the machine's.

Of the core only locks and the reading of data files are replaced: it gets its clock as an
argument.
"""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import os
import random
import threading
import types
import uuid
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyiceberg.avro.file
import pyiceberg.io.pyarrow
import pyiceberg.table
import pyiceberg.table.metadata
import pyiceberg.table.snapshots
import pyiceberg.table.update
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow, schema_to_pyarrow
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.utils.concurrent import ExecutorFactory

import txns._admin.found_log
import txns._admin.log_versions
import txns._admin.orphans
import txns._admin.taken_forward
import txns._catalog.changefeed
import txns._commit.group
import txns._iceberg.avro_files
import txns._stage.data_files
from tests.simulation import formats, shortcuts
from tests.simulation.rows import data_files, held
from tests.simulation.storage import ERRORS
from tests.simulation.where import PART, part_of
from txns._admin import listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.manifest import DataFile

    from tests.simulation.scheduler import World


_ARROW_SCAN = pyiceberg.io.pyarrow.ArrowScan


class SynchronousExecutor(concurrent.futures.Executor):
    """Runs what is submitted at once: a simulated process has no threads."""

    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            future.set_exception(error)
        return future


class SimulatedClock:
    """The core's clock in one simulated process (protocol `txns._clock.Clock`)."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.clock_ms()

    def elapsed_ms(self) -> int:
        return self._world.now_ms

    def back_off(self, max_ms: int) -> None:
        self._world.pause(1 + self._world.random_bytes(1)[0] % max_ms)

    def sleep(self, ms: int) -> None:
        self._world.pause(ms)

    def new_txn_id(self) -> str:
        bits = int.from_bytes(self._world.random_bytes(10), "big")
        value = (self.now_ms() & (1 << 48) - 1) << 80 | bits
        value = value & ~(0xF << 76) | 0x7 << 76
        return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))

    def new_snapshot_id(self) -> int:
        return int.from_bytes(self._world.random_bytes(8), "big") >> 1 or 1

    def new_uuid(self) -> str:
        return str(uuid.UUID(bytes=self._world.random_bytes(16), version=4))


class Turns:
    """A condition between threads of a simulated process: who waits lets others go on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held = False
        self._notices = 0

    def __enter__(self) -> None:
        while self._held:
            self._world.wait_for(lambda: not self._held)
        self._held = True

    def __exit__(self, *_error: object) -> None:
        self._held = False

    def wait(self) -> None:
        """Let others go on, until one of them tells that something has changed."""
        seen = self._notices
        self._held = False
        self._world.wait_for(lambda: self._notices > seen)
        self.__enter__()

    def notify_all(self) -> None:
        """Let all go on who wait."""
        self._notices += 1


class Mutex:
    """A lock of the threads of a simulated process, which one that has it may take again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner: object = None
        self._depth = 0

    def __enter__(self) -> None:
        actor = self._world.actor
        while self._owner not in {None, actor.name}:
            self._world.wait_for(lambda: self._owner is None)
        self._owner, self._depth = actor.name, self._depth + 1

    def __exit__(self, *_error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None


class RowScan:
    """Reads rows from the paths of data files, as Arrow (see `rows`)."""

    def __init__(
        self,
        table_metadata: Any,
        io: Any,
        projected_schema: Any,
        row_filter: Any,
        case_sensitive: bool = True,  # noqa: FBT001, FBT002 -- pyiceberg's
        *_more: Any,
        **_others: Any,
    ) -> None:
        del io
        self._schema = schema_to_pyarrow(projected_schema, include_field_ids=False)
        bound = bind(table_metadata.schema(), row_filter, case_sensitive)
        self._filter = expression_to_pyarrow(bound)

    def to_table(self, tasks: Iterable[Any]) -> pa.Table:
        """Give the rows of some files."""
        rows = [{"id": row, PART: part_of(row)} for task in tasks for row in sorted(held([task]))]
        return pa.Table.from_pylist(rows, schema=self._schema).filter(self._filter)

    def to_record_batches(self, tasks: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        """Give the rows of some files, in pieces."""
        yield from self.to_table(tasks).to_batches()


def _scan(table_metadata: Any, *given: Any, **named: Any) -> Any:
    """Give what reads a data table's rows, or the archive, which is made of Parquet."""
    archive = "commit_ts" in table_metadata.schema().column_names
    return (_ARROW_SCAN if archive else RowScan)(table_metadata, *given, **named)


def row_files(
    world: World, table_metadata: Any, df: pa.Table, *_more: Any, **_others: Any
) -> list[DataFile]:
    """Give data files that hold the rows of an Arrow table."""
    rows = df["id"].to_pylist()
    version = int.from_bytes(world.random_bytes(6), "big")
    return data_files(table_metadata, rows, version) if rows else []


def listed(io: Any, location: str) -> list[listing.File]:
    """Give the files below the commit table's location, in the place of pyarrow's listing."""
    storage = io.storage
    found = storage.world.io("read", f"list {location}", lambda: storage.below(location), ERRORS)
    return [listing.File(path, 0, written_ms) for path, written_ms in found.items()]


def _time(world: World) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        time=lambda: world.clock_ms() / 1000,
        time_ns=lambda: world.clock_ms() * 1_000_000,
        monotonic=lambda: world.now_ms / 1000,
        sleep=lambda seconds: world.sleep(max(1, int(seconds * 1000))),
    )


def _datetime(world: World) -> type[dt.datetime]:
    class SimulatedDatetime(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime.fromtimestamp(world.clock_ms() / 1000, tz=tz or dt.UTC)

    return SimulatedDatetime


class _Module:
    """A module with some names replaced."""

    def __init__(self, module: types.ModuleType, **names: Any) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Run a block in the world's time and randomness."""
    clear_manifest_cache()
    seeded_os = _Module(os, urandom=world.random_bytes)
    now = _datetime(world)
    replaced = [
        (pyiceberg.table, "time", _time(world)),
        (pyiceberg.table, "random", random.Random(world.seed)),
        (pyiceberg.table.snapshots, "time", _time(world)),
        (pyiceberg.table.update, "datetime", now),
        (pyiceberg.table.metadata, "datetime", _Module(dt, datetime=now)),
        (pyiceberg.avro.file, "os", seeded_os),
        (txns._commit.group, "threading", _Module(threading, Condition=partial(Turns, world))),
        (txns._catalog.transaction, "threading", _Module(threading, RLock=partial(Mutex, world))),
        (txns._admin.orphans, "listed", listed),
        (txns._admin.found_log, "listed", listed),
        (txns._admin.taken_forward, "listed", listed),
        (txns._admin.log_versions, "ThreadPoolExecutor", lambda _threads: SynchronousExecutor()),
        (txns._catalog.changefeed, "ArrowScan", RowScan),
        (pyiceberg.io.pyarrow, "ArrowScan", _scan),
        (pyiceberg.io.pyarrow, "_dataframe_to_data_files", partial(row_files, world)),
        (txns._stage.data_files, "_dataframe_to_data_files", partial(row_files, world)),
        (txns._stage.data_files, "_is_one_file", lambda *_given: False),
        (txns._iceberg.avro_files, "os", seeded_os),
        (uuid, "os", seeded_os),
        (ExecutorFactory, "_instance", SynchronousExecutor()),
        (ExecutorFactory, "_instance_pid", os.getpid()),
        *shortcuts.replaced(),
        *formats.replaced(),
    ]
    patches = [mock.patch.object(owner, name, value) for owner, name, value in replaced]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()
        clear_manifest_cache()
