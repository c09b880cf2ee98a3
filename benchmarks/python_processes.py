"""
Eight processes, fifty transactions each: what they commit per second, and how long each takes.

Over five tables that all share, and over five of each process's own; in a SQLite catalog and
in PostgreSQL, which the package pgserver brings. Every row is accounted for.

    make bench NAME=python_processes
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from _measure import Metric, single, write
from _processes import prepare, run, unaccounted

from integration_tests.postgres import Postgres, running_postgres

PROCESSES = 8
TRANSACTIONS = 50
SEED = 20130105


def main() -> None:
    """Run all four, and write results/python_processes.json."""
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        for kind in ("sqlite", "postgresql"):
            for sharing in ("same tables", "disjoint tables"):
                place = Path(folder) / f"{kind}-{sharing.split()[0]}"
                place.mkdir()
                metrics += _run(kind, sharing, place, server)
    write("python_processes", metrics)


def _run(kind: str, sharing: str, place: Path, server: Postgres) -> list[Metric]:
    uri = f"sqlite:///{place}/catalog.db?timeout=60"
    if kind == "postgresql":
        database = f"lake_{sharing.split(maxsplit=1)[0]}"
        server.create_database(database)
        uri = server.uri(database)
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{place}/files"}
    shared = [f"shop.t{number}" for number in range(5)]
    own = [[f"shop.p{process}_{number}" for number in range(5)] for process in range(PROCESSES)]
    tables_of = [shared] * PROCESSES if sharing == "same tables" else own
    prepare(properties, sorted({table for tables in tables_of for table in tables}))
    outcomes = run(properties, tables_of, TRANSACTIONS, SEED)
    left = unaccounted(properties, outcomes)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    committed = sum(len(outcome.committed) for outcome in outcomes)
    lasted = max(o.ended for o in outcomes) - min(o.started for o in outcomes)
    latencies = sorted(value for outcome in outcomes for value in outcome.latencies)
    conflicts = sum(outcome.conflicts for outcome in outcomes)
    name = f"{kind}, {sharing}"
    print(
        f"{name}: {committed} committed in {lasted:.1f} s, {conflicts} conflicts retried,"
        f" {len(failures)} failures, {len(left)} rows unaccounted for; seed {SEED}"
    )
    assert not failures, failures[:3]
    assert not left, left
    against = f"{PROCESSES} processes, {TRANSACTIONS} transactions each"
    return [
        single(f"{name}: transactions per second", committed / lasted, "1/s", "higher", against),
        single(f"{name}: p50", 1000 * _at(latencies, 0.50), "ms", "lower", against),
        single(f"{name}: p99", 1000 * _at(latencies, 0.99), "ms", "lower", against),
        single(f"{name}: conflicts retried", conflicts, "count", "lower", against),
    ]


def _at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    main()
