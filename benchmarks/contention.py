"""
Six appenders and two overwriters of one table, and long transactions beside short ones.

Each is a process of its own, in a loop of transactions for a minute: what of each kind commits, and
how long it takes from its first attempt on, with the reservations of those who have lost and
without, in a loop that only begins again. The overwriters write the same rows, by their key, so
that they clash with each other, or the whole table, so that they clash with all who append: an
append waits only for who has lost twice, so these are there to be seen. Then fifty transactions of
two seconds that read a table which somebody else writes over all the time, with a pause of 100 ms,
by `run_transaction` with three attempts. In a SQLite catalog and in PostgreSQL, which the package
pgserver brings.

    make bench NAME=contention
    PYTHONPATH=. python benchmarks/contention.py --seconds 5 --long 3  a look; nothing is written
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
from _measure import Metric, single, write
from _processes import SCHEMA, START_S, prepare
from pyiceberg.catalog import load_catalog

import txns
from integration_tests.postgres import Postgres, running_postgres

SECONDS = 60
LONG = 50
LONG_S = 2.0
PAUSE_S = 0.1
ATTEMPTS = 3
AT_MOST_S = 20
KINDS = ("append",) * 6 + ("overwrite",) * 2
TABLE, OTHER = "shop.busy", "shop.other"


@dataclass
class Outcome:
    """What one process did: seconds that each transaction took, and what went wrong."""

    kind: str
    latencies: list[float] = field(default_factory=list)
    open_s: float = 0.0
    """How long the last one had been tried that did not commit in time."""
    failures: list[str] = field(default_factory=list)


def main() -> None:
    """Run all cells; write results/contention.json, but for a look."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--long", type=int, default=LONG)
    given = parser.parse_args()
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        for kind in ("sqlite", "postgresql"):
            for cell in ("by key", "whole table"):
                for reserves in (True, False):
                    properties = _lake(kind, f"{cell[:2]}{int(reserves)}", Path(folder), server)
                    metrics += _crowd(kind, cell, properties, given.seconds, reserves=reserves)
            metrics += _long(kind, _lake(kind, "long", Path(folder), server), given.long)
    if (given.seconds, given.long) == (SECONDS, LONG):
        write("contention", metrics)


def _lake(kind: str, name: str, folder: Path, server: Postgres) -> dict[str, str]:
    place = folder / f"{kind}-{name}"
    place.mkdir()
    uri = f"sqlite:///{place}/catalog.db?timeout=60"
    if kind == "postgresql":
        server.create_database(f"lake_{name}")
        uri = server.uri(f"lake_{name}")
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{place}/files"}
    prepare(properties, [TABLE, OTHER])
    txns.open(load_catalog("lake", **properties)).catalog().load_table(TABLE).append(_row(-1, 0))
    return properties


def _row(process: int, number: int) -> pa.Table:
    return pa.table({"process": [process], "number": [number]}, schema=SCHEMA)


# ---------------------------------------------------------------- the crowd


def _crowd(kind, cell, properties, seconds, *, reserves) -> list[Metric]:
    context = multiprocessing.get_context("spawn")
    results, barrier = context.Queue(), context.Barrier(len(KINDS))
    workers = [
        context.Process(
            target=_work,
            args=(n, (each, cell), properties, (seconds, reserves), (barrier, results)),
        )
        for n, each in enumerate(KINDS)
    ]
    outcomes = _outcomes(workers, results, START_S + 5 * seconds + 60)
    name = f"{kind}, {cell}, {'with' if reserves else 'without'} reservations"
    against = f"6 appenders, 2 overwriters, {seconds:g} s"
    metrics = []
    for one in dict.fromkeys(KINDS):
        of_kind = [outcome for outcome in outcomes if outcome.kind == one]
        taken = sorted(each for outcome in of_kind for each in outcome.latencies)
        slowest = max([*taken, *(outcome.open_s for outcome in of_kind)])
        p50, p99 = (_at(taken, share) for share in (0.50, 0.99))
        print(
            f"{name}: {one}: {len(taken)} committed, p50 {p50:.2f} s, p99 {p99:.2f} s,"
            f" slowest {slowest:.1f} s"
        )
        metrics += [
            single(f"{name}: {one}: committed", len(taken), "count", "higher", against),
            single(f"{name}: {one}: p50", 1000 * p50, "ms", "lower", against),
            single(f"{name}: {one}: p99", 1000 * p99, "ms", "lower", against),
            single(f"{name}: {one}: slowest", 1000 * slowest, "ms", "lower", against),
        ]
    return metrics


def _outcomes(workers, results, timeout_s) -> list[Outcome]:
    for worker in workers:
        worker.start()
    try:
        outcomes = [results.get(timeout=timeout_s) for _ in workers]
    finally:
        for worker in workers:
            worker.join(timeout=30)
            worker.kill()
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    assert not failures, failures[:3]
    return outcomes


def _work(process, what, properties, how, shared) -> None:
    (seconds, reserves), (barrier, results), (kind, _) = how, shared, what
    handle = txns.open(load_catalog("lake", **properties))
    outcome = Outcome(kind)
    barrier.wait(START_S)
    ends = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < ends:
        number += 1
        begun = time.perf_counter()
        try:
            done = _committed(handle, partial(_write, process, number, *what), reserves, ends)
        except Exception as error:  # noqa: BLE001 -- every failure is a finding
            outcome.failures.append(f"{kind}: {type(error).__name__}: {error}")
            break
        took = time.perf_counter() - begun
        if done:
            outcome.latencies.append(took)
        else:
            outcome.open_s = took
    results.put(outcome)


def _committed(handle, work, reserves, ends) -> bool:
    """Try until it commits, or the time is over."""
    lost = None
    while True:
        txn = handle.begin(after=lost) if lost and reserves else handle.begin()
        try:
            work(txn)
            txn.commit()
        except txns.Conflict:
            txn.rollback()
            lost = txn
            if time.perf_counter() > ends:
                handle.give_up(lost)
                return False
            handle.back_off(10)
        else:
            return True


def _write(process, number, kind, cell, txn) -> None:
    table = txn.load_table(TABLE)
    if kind == "append":
        table.append(_row(process, number))
    elif cell == "by key":
        table.overwrite(_row(-1, number), overwrite_filter="process = -1")
    else:
        table.overwrite(_row(-1, number))


# ---------------------------------------------------------------- long transactions


def _long(kind, properties, count) -> list[Metric]:
    """Run long transactions beside one process that writes what they read."""
    context = multiprocessing.get_context("spawn")
    results, over, ready = context.Queue(), context.Event(), context.Event()
    worker = context.Process(target=_write_over, args=(properties, over, ready, results))
    worker.start()
    handle = txns.open(load_catalog("lake", **properties))
    attempts, failed = [], []
    try:
        assert ready.wait(START_S)
        for number in range(count):
            tries = []

            def work(txn, tries=tries, number=number):
                tries.append(1)
                txn.load_table(TABLE).scan().to_arrow()
                time.sleep(LONG_S)
                txn.load_table(OTHER).append(_row(0, number))

            try:
                txns.run_transaction(handle, work, max_attempts=ATTEMPTS)
                attempts.append(len(tries))
            except txns.Conflict as conflict:
                failed.append(str(conflict))
    finally:
        over.set()
        outcome = results.get(timeout=60)
        worker.join(timeout=30)
        worker.kill()
    assert not outcome.failures, outcome.failures
    beside = sorted(outcome.latencies)
    print(
        f"{kind}: {len(attempts)} of {count} transactions of {LONG_S:g} s committed within"
        f" {ATTEMPTS} attempts, most in {max(attempts, default=0)}; beside them"
        f" {len(beside)} short ones, slowest {beside[-1]:.1f} s"
    )
    against = f"{count} transactions, one writer every {1000 * PAUSE_S:g} ms"
    name = f"{kind}, transactions of {LONG_S:g} s"
    return [
        single(f"{name}: committed within 3 attempts", len(attempts), "count", "higher", against),
        single(f"{name}: most attempts", max(attempts, default=0), "count", "lower", against),
        single(f"{name}: short ones, slowest", 1000 * beside[-1], "ms", "lower", against),
    ]


def _write_over(properties, over, ready, results) -> None:
    handle = txns.open(load_catalog("lake", **properties))
    outcome = Outcome("short")
    number = 0
    while not over.is_set():
        number += 1
        begun = time.perf_counter()

        def work(txn, number=number):
            txn.load_table(TABLE).overwrite(_row(-1, number))

        try:
            txns.run_transaction(handle, work, max_attempts=50)
        except Exception as error:  # noqa: BLE001 -- every failure is a finding
            outcome.failures.append(f"{type(error).__name__}: {error}")
            break
        outcome.latencies.append(time.perf_counter() - begun)
        ready.set()
        time.sleep(PAUSE_S)
    results.put(outcome)


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


if __name__ == "__main__":
    main()
