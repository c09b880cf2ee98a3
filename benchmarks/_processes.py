"""Several processes that run transactions on the same lake, and what came out."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from queue import Empty

import pyarrow as pa
from pyiceberg.catalog import load_catalog

import txns

SCHEMA = pa.schema([("process", pa.int64()), ("number", pa.int64())])
START_S = 120
OVERWRITE_EVERY = 5


@dataclass
class Outcome:
    """What one process did."""

    process: int
    committed: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By number, the two tables that the transaction appended to."""
    latencies: list[float] = field(default_factory=list)
    conflicts: int = 0
    failures: list[str] = field(default_factory=list)
    started: float = 0.0
    ended: float = 0.0


def prepare(properties: dict[str, str], tables: list[str]) -> None:
    """Create and register the tables."""
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace_if_not_exists("shop")
    handle = txns.open(catalog)
    for table in tables:
        catalog.create_table(table, SCHEMA)
        handle.register(table)


def run(
    properties: dict[str, str],
    tables_of: list[list[str]],
    count: int,
    seed: int,
    applies: tuple[str | None, ...] = (None,),
) -> list[Outcome]:
    """
    Run one process per list of tables, `count` transactions each.

    A transaction appends a row to two of its tables; every fifth also writes over the row
    that the process wrote before. They open the catalog with `applies` in turn.
    """
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    barrier = context.Barrier(len(tables_of))
    workers = [
        context.Process(
            target=_work,
            args=(
                number,
                tables,
                properties,
                applies[number % len(applies)],
                (count, seed, barrier, results),
            ),
        )
        for number, tables in enumerate(tables_of)
    ]
    for worker in workers:
        worker.start()
    outcomes = []
    try:
        outcomes = [results.get(timeout=START_S + 10 * count) for _ in workers]
    except Empty:
        dead = [worker.exitcode for worker in workers]
        raise RuntimeError(f"a process has not ended; exit codes {dead}") from None
    finally:
        for worker in workers:
            worker.join(timeout=30)
            worker.kill()
    return sorted(outcomes, key=lambda outcome: outcome.process)


def _work(process, tables, properties, apply, shared) -> None:
    count, seed, barrier, results = shared
    draw = random.Random(seed + process)
    handle = txns.open(load_catalog("lake", **properties), apply=apply)
    outcome = Outcome(process)
    barrier.wait(START_S)
    outcome.started = time.time()
    for number in range(count):
        pair = tuple(draw.sample(tables, 2))
        overwrites = number % OVERWRITE_EVERY == OVERWRITE_EVERY - 1
        if overwrites and number - 1 in outcome.committed:
            before = outcome.committed[number - 1][0]
            pair = (before, draw.choice([table for table in tables if table != before]))
        begun = time.perf_counter()
        try:
            _commit(handle, outcome, number, pair, overwrites=overwrites)
        except Exception as error:  # noqa: BLE001 -- every failure is a finding
            outcome.failures.append(f"{type(error).__name__}: {error}")
        outcome.latencies.append(time.perf_counter() - begun)
    outcome.ended = time.time()
    results.put(outcome)


def _commit(handle, outcome, number, pair, *, overwrites) -> None:
    attempts = []

    def callback(txn):
        attempts.append(1)
        row = pa.table({"process": [outcome.process], "number": [number]}, schema=SCHEMA)
        if overwrites:
            both = pa.table(
                {"process": [outcome.process] * 2, "number": [number - 1, number]}, schema=SCHEMA
            )
            mine = f"process = {outcome.process} and number = {number - 1}"
            txn.load_table(pair[0]).overwrite(both, overwrite_filter=mine)
        else:
            txn.load_table(pair[0]).append(row)
        txn.load_table(pair[1]).append(row)

    try:
        txns.run_transaction(handle, callback, max_attempts=200)
    finally:
        outcome.conflicts += len(attempts) - 1
    outcome.committed[number] = pair


def unaccounted(properties: dict[str, str], outcomes: list[Outcome]) -> Counter:
    """Give the rows that are missing (negative) or there too often, by table and row."""
    catalog = load_catalog("lake", **properties)
    left: Counter = Counter()
    expected: dict[str, Counter] = {}
    for outcome in outcomes:
        for number, pair in outcome.committed.items():
            for table in pair:
                expected.setdefault(table, Counter())[outcome.process, number] += 1
    for table, rows in expected.items():
        found = catalog.load_table(table).scan().to_arrow().to_pylist()
        there = Counter((row["process"], row["number"]) for row in found)
        for row in rows.keys() | there.keys():
            if there[row] != rows[row]:
                left[table, row] = there[row] - rows[row]
    return left
