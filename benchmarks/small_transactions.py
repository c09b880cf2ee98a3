"""
Small transactions of several processes: a row into each of five tables, in a PostgreSQL catalog.

As a transaction whose tables are applied after it (`inline`), as one that moves them with the log
(`atomic`), and as five appends of pyiceberg one after the other, which nothing holds together. On
tables that all share, and on five of each process's own. Every row is counted afterwards.

    make bench NAME=small_transactions
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from _measure import Metric, single, write
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

import txns
from integration_tests.postgres import Postgres, running_postgres

PROCESSES = (1, 4, 8)
TABLES = 5
LASTS_S = 8.0
START_S = 120
SCHEMA = pa.schema([("process", pa.int64()), ("number", pa.int64())])
BARE, INLINE, ATOMIC = "pyiceberg", "inline", "atomic"
TARGET = 3.0
"""At least, of what pyiceberg does without any transaction."""


@dataclass
class Done:
    """What one process has committed, and how long each took in seconds."""

    count: int = 0
    latencies: list[float] = field(default_factory=list)


def main() -> None:
    """Run all cells, the ways in turns, and write results/small_transactions.json."""
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        for sharing in ("same", "disjoint"):
            for processes in PROCESSES:
                metrics += _cell(Path(folder), server, sharing, processes)
    write("small_transactions", metrics)


def _cell(folder: Path, server: Postgres, sharing: str, processes: int) -> list[Metric]:
    rates: dict[str, float] = {}
    metrics = []
    for way in (BARE, INLINE, ATOMIC):
        name = f"{way}_{sharing}_{processes}"
        server.create_database(name)
        properties = {
            "type": "sql",
            "uri": server.uri(name),
            "warehouse": f"file://{folder}/{name}",
        }
        done, lasted_s = _run(properties, way, sharing, processes)
        _count_rows(properties, done, sharing)
        rates[way] = sum(each.count for each in done) / lasted_s
        latencies = sorted(value for each in done for value in each.latencies)
        p99_ms = 1000 * latencies[int(0.99 * (len(latencies) - 1))]
        what = f"{way}, {processes} writers, {sharing} tables"
        print(f"{what}: {rates[way]:.1f}/s, p99 {p99_ms:.0f} ms", flush=True)
        against = f"{LASTS_S:.0f} s, five tables"
        metrics += [
            single(f"{what}: transactions per second", rates[way], "1/s", "higher", against),
            single(f"{what}: p99", p99_ms, "ms", "lower", against),
        ]
    for way in (INLINE, ATOMIC):
        what = f"{way}, {processes} writers, {sharing} tables: rate"
        target = TARGET if way == ATOMIC else None
        value = rates[way] / rates[BARE]
        metrics.append(
            Metric(what, value, "ratio", target, "higher", "bare pyiceberg", value, value, 1)
        )
    return metrics


def _tables(sharing: str, process: int) -> list[str]:
    owner = "s" if sharing == "same" else f"p{process}_"
    return [f"shop.{owner}{number}" for number in range(TABLES)]


def _run(
    properties: dict[str, str], way: str, sharing: str, processes: int
) -> tuple[list[Done], float]:
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("shop")
    handle = None if way == BARE else txns.open(catalog)
    for table in sorted({name for each in range(processes) for name in _tables(sharing, each)}):
        catalog.create_table(table, SCHEMA)
        if handle:
            handle.register(table)
    context = multiprocessing.get_context("spawn")
    results, barrier = context.Queue(), context.Barrier(processes)
    workers = [
        context.Process(
            target=_work, args=(each, _tables(sharing, each), properties, way, (barrier, results))
        )
        for each in range(processes)
    ]
    for worker in workers:
        worker.start()
    told = sorted(
        (results.get(timeout=START_S + 10 * LASTS_S) for _ in workers), key=lambda each: each[0]
    )
    for worker in workers:
        worker.join()
    return [done for _, done, _ in told], max(lasted for _, _, lasted in told)


def _work(process, tables, properties, way, shared) -> None:
    barrier, results = shared
    catalog = load_catalog("lake", **properties)
    handle = None if way == BARE else txns.open(catalog, apply=way, isolation="snapshot")
    done = Done()
    barrier.wait(START_S)
    began = time.perf_counter()
    while time.perf_counter() - began < LASTS_S:
        row = pa.table({"process": [process], "number": [done.count]}, schema=SCHEMA)
        started = time.perf_counter()
        if handle is None:
            for table in tables:
                _append(catalog, table, row)
        else:
            txns.run_transaction(
                handle, lambda txn, row=row: _all(txn, tables, row), max_attempts=1000
            )
        done.latencies.append(time.perf_counter() - started)
        done.count += 1
    results.put((process, done, time.perf_counter() - began))


def _all(txn, tables, row) -> None:
    for table in tables:
        txn.load_table(table).append(row)


def _append(catalog, table, row) -> None:
    while True:
        with suppress(CommitFailedException):
            catalog.load_table(table).append(row)
            return


def _count_rows(properties: dict[str, str], done: list[Done], sharing: str) -> None:
    catalog = load_catalog("lake", **properties)
    for process, each in enumerate(done):
        for table in _tables(sharing, process):
            rows = catalog.load_table(table).scan(f"process = {process}").to_arrow()
            assert sorted(rows["number"].to_pylist()) == list(range(each.count)), table


if __name__ == "__main__":
    main()
