"""Runs one seed, from an empty lake to the audit."""

from __future__ import annotations

import logging
import random
import traceback
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation import (
    by_file,
    coverage,
    drills,
    formats,
    guard,
    jvm,
    malice,
    other_log,
    story,
)
from tests.simulation import locked as _locked  # noqa: F401 -- says that a catalog moves several
from tests.simulation.actions import SCHEMA
from tests.simulation.audit import audit
from tests.simulation.catalogs import Registry, ServerCatalog, SwapCatalog
from tests.simulation.determinism import simulated
from tests.simulation.faults import Fault, FaultPlan
from tests.simulation.observer import Observer
from tests.simulation.plan import Plan, action_of
from tests.simulation.scheduler import Violation, World
from tests.simulation.settings import Core, Switch
from tests.simulation.storage import Storage
from tests.simulation.strangers import append_rows
from tests.simulation.worker import Lake, Worker
from txns._commit import small_files
from txns._log import limits, payload
from txns._table import mark

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from tests.simulation.catalogs import Identifier

STRANGERS = frozenset({"s", "u", "l", "d", drills.NAME, guard.FORGER})
"""The workers that know nothing of the protocol."""
_REGISTERED = (("lake", "t0"), ("lake", "t1"), ("lake", "t2"))
_CREATABLE = (("lake", "n0"), ("lake", "n1"))
_SPARE = (("lake", "r0"), ("lake", "u0"))
_FILES_APART = 0.3
"""How many seeds have an archive of files that no tidy rewrites."""
_SMALL_HEADS = 0.3
"""How many seeds call a head of few entries a large one."""
_NEWEST_FORMAT = 0.6
"""How many tables are of the newest format where there are some."""


@dataclass(frozen=True)
class Outcome:
    """
    How a seed went.

    Attributes:
        violation: The broken promise, when there is one.
        steps: Steps of I/O that were taken.
        digest: A hash of everything that happened: the same in each run of the plan.
        committed: Entries in the log.
        grouped: Swaps that brought several of them.
        faults: What went wrong, as (action, step, fault).
        trace: What happened, line by line, if it was asked for.
        occurred: How often each action, fault, kind of entry and change of a table occurred.
    """

    seed: int
    violation: Violation | None
    steps: int
    digest: str
    committed: int
    grouped: int
    faults: list[tuple[str, int, Fault]]
    trace: list[str]
    occurred: Counter[str]


def run(
    plan: Plan,
    *,
    left_out: frozenset[tuple[str, int]] = frozenset(),
    keep_trace: bool = False,
    on_lake: Callable[[Lake], None] = lambda _lake: None,
) -> Outcome:
    """
    Run a plan to its end, or to the first promise that is broken.

    Args:
        plan: What is going to happen.
        left_out: Faults that do not happen, as (action, step).
        keep_trace: Whether to keep what happens, line by line.
        on_lake: Called with the lake before anything happens.
    """
    faults = FaultPlan(
        plan.fault_rate,
        plan.delay_rate,
        settings=plan.settings,
        slow_alone=plan.slow_alone,
        left_out=left_out,
    )
    world = World(plan.seed, faults, switch=plan.switch)
    world.keep_trace, world.seen = keep_trace, story.seen
    violation: Violation | None = None
    lake: Lake | None = None
    if plan.java:
        jvm.running(plan.mutation).reset()
    files = plan.settings.has(Switch.PAYLOAD_FILES)
    apart = random.Random(f"{plan.seed}/files-apart").random() < _FILES_APART
    small = random.Random(f"{plan.seed}/small-heads").random() < _SMALL_HEADS
    with (
        simulated(world),
        quiet(),
        short_retention(),
        payloads_in_files(there=files),
        archive_files_apart(there=apart),
        heads_kept_small(there=small),
    ):
        try:
            lake = _lake_of(plan, world)
            on_lake(lake)
            _start(plan, lake)
            world.run()
            if lake.guard:
                malice.audit(lake)
            else:
                audit(lake, reject=plan.reject)
        except Violation as found:
            violation = found
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is a finding
            violation = Violation("crash", f"{error!r}\n{traceback.format_exc()}")
            violation.__cause__ = error
        world.close()
    return Outcome(
        plan.seed,
        violation,
        world.steps,
        world.digest,
        len(lake.observer.entries) if lake else 0,
        lake.observer.grouped if lake else 0,
        faults.happened,
        world.trace,
        world.occurred + coverage.of_run(faults, lake),
    )


def _lake_of(plan: Plan, world: World) -> Lake:
    """Make the lake of a plan, whose users have Java's core, Python's, or both."""
    rng = random.Random(f"{plan.seed}/formats")
    some = frozenset(name for name in _REGISTERED if rng.random() < _NEWEST_FORMAT)
    has_newest = plan.java and plan.settings.has(Switch.FORMAT_3)
    has_parts = plan.settings.has(Switch.BY_FILE)
    lake = new_lake(
        world,
        server=plan.server,
        has_java=bool(plan.java),
        newest_format=some if has_newest else frozenset(),
        parts=random.Random(f"{plan.seed}/parts") if has_parts else None,
        mutation=plan.mutation,
        **plan.options,
    )
    lake.is_javas = plan.core is Core.JAVA
    lake.observer.history.by_file = has_parts
    return lake


def new_lake(
    world: World,
    *,
    server: bool,
    has_java: bool = False,
    newest_format: frozenset[Identifier] = frozenset(),
    parts: random.Random | None = None,
    mutation: str | None = None,
    **options: object,
) -> Lake:
    """
    Make a lake with three registered tables and another, each with a few rows.

    Args:
        world: Where.
        server: Whether its catalog validates on its side.
        has_java: Whether some of its users have Java's core.
        newest_format: The tables that those alone can write.
        parts: Draws which of the registered tables are partitioned; None: their rows have no parts.
        mutation: The protection that Java's core is without.
        **options: Of the handles.
    """
    registry = Registry(Storage(world), on_jvm=has_java)
    observer = Observer(world, registry)
    connect: Callable[..., SwapCatalog | ServerCatalog] = lambda rights=None: (  # noqa: E731
        ServerCatalog(registry, rights) if server else SwapCatalog(registry, rights)
    )
    lake = Lake(
        world,
        observer,
        connect,
        dict(options),
        server=server,
        tables=_REGISTERED,
        creatable=_CREATABLE,
        spare=_SPARE,
        has_java=has_java,
        mutation=mutation,
    )
    catalog = connect()
    catalog.create_namespace("lake")
    catalog.create_namespace("txns")
    handle = lake.open()
    handle.change_settings(apply="next")  # so that each user's own option counts
    for name in lake.tables + lake.spare[1:]:
        in_parts = parts is not None and name in _REGISTERED
        table = (
            catalog.create_table(name, by_file.SCHEMA, partition_spec=by_file.spec(parts))
            if in_parts
            else catalog.create_table(name, SCHEMA)
        )
        append_rows(table, [lake.new_row() for _ in range(6 if in_parts else 3)])
        if name in newest_format:
            formats.upgrade(registry, name)
            lake.open_java().register(name)
        elif name in _REGISTERED:
            handle.register(name)
    return lake


def _start(plan: Plan, lake: Lake) -> None:
    if plan.settings.has(Switch.TWO_LOGS):
        other_log.prepare(lake)
    if plan.settings.has(Switch.MALICIOUS):
        malice.prepare(lake)
    for name, keys in plan.workers.items():
        worker = Worker(
            lake,
            name,
            [(key, action_of(key)) for key in keys],
            java=name in plan.java,
            options=plan.own_options.get(name, {}),
            skew_ms=plan.skews_ms[name],
            stranger=name in STRANGERS,
        )
        lake.workers.append(worker)
    for each in lake.workers:
        each.start()


@contextmanager
def short_retention() -> Iterator[None]:
    """Let tables keep two snapshots instead of ten: expiry then finds something to do."""
    with mock.patch.object(mark, "MIN_SNAPSHOTS_TO_KEEP", 2):
        yield


@contextmanager
def payloads_in_files(*, there: bool) -> Iterator[None]:
    """Let payloads stand in files, however small they are."""
    with mock.patch.object(payload, "INLINE_MAX_BYTES", 0) if there else nullcontext():
        yield


@contextmanager
def archive_files_apart(*, there: bool) -> Iterator[None]:
    """Let no tidy rewrite files of earlier ones, as where the archive is large (Python's)."""
    with mock.patch.object(small_files, "SMALL_FILE_BYTES", 0) if there else nullcontext():
        yield


@contextmanager
def heads_kept_small(*, there: bool) -> Iterator[None]:
    """Let writers apply and tidy before the swap where few entries stand in the head (Python's)."""
    with mock.patch.object(limits, "HEAD_ENTRIES", 3) if there else nullcontext():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings of the core and of pyiceberg out of a run: most of them are its faults."""
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def without(plan: Plan, keys: set[str]) -> Plan:
    """Give a plan with some actions left out."""
    workers = {
        name: tuple(key for key in all_keys if key not in keys)
        for name, all_keys in plan.workers.items()
    }
    return replace(plan, workers={name: left for name, left in workers.items() if left})
