"""
Small transactions of several processes: a row into each of five tables, in a PostgreSQL database.

As a transaction of ours whose tables are applied after it (`inline`), as one that moves them with
the log (`atomic`), as one of DuckLake, as five appends of pyiceberg one after the other, which
nothing holds together, and as the bare floor: the same files written, one database transaction, and
nothing else. On tables that all share and on five of each process's own, and on both with a DELETE
of the row before in one of them. Each process writes three transactions before the clock runs.
Every row is counted afterwards.

    make bench NAME=small_transactions
    PYTHONPATH=. python benchmarks/small_transactions.py "same tables"  a look; nothing is written
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from typing import TYPE_CHECKING

from _measure import Metric, rate_ratio, ratio, write
from _small_cells import DISJOINT, PROCESSES, SHARINGS, Cell, Runs, figures
from _small_writers import WAYS, Place

from integration_tests.postgres import running_postgres

if TYPE_CHECKING:
    from integration_tests.postgres import Postgres

OF_DUCKLAKE = {1: 1.0, 4: 1.5, 8: 1.5}
"""The least share of DuckLake's rate that is wanted, by processes."""


def main() -> None:
    """Run all cells, the ways in turns; write results/small_transactions.json, but for a look."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sharing", nargs="*", metavar="SHARING", help=f"of {SHARINGS}")
    given = parser.parse_args().sharing
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        for sharing in given or SHARINGS:
            alone: Runs | None = None
            for processes in PROCESSES:
                cell = Cell(processes, sharing, partial(_place, server, folder))
                runs = cell.runs(list(WAYS))
                alone = alone or runs["atomic"]
                metrics += [*figures(cell.name, runs), *_ratios(cell, runs, alone)]
    if not given:
        write("small_transactions", metrics)


def _place(server: Postgres, folder: str, database: str) -> Place:
    server.create_database(database)
    return Place(f"{folder}/{database}", server.uri(database), database, server.socket_folder)


def _ratios(cell: Cell, runs: dict[str, Runs], alone: Runs) -> list[Metric]:
    """Give how many times the others' rates ours is, round by round, and that of one writer."""
    ours = runs["atomic"]

    def rates(name: str, target: float | None) -> Metric:
        theirs = runs[name].rates
        return rate_ratio(f"{cell.name}: rate", ours.rates, theirs, against=name, target=target)

    p99 = [ours.p99_ms() / runs["DuckLake"].p99_ms()]
    found = [
        rates("pyiceberg", 3.0),
        rates("DuckLake", OF_DUCKLAKE[cell.processes]),
        rates("floor", 0.5),
        rates("inline", None),
    ]
    if cell.processes > 1:
        found.append(ratio(f"{cell.name}: p99", p99, [1.0], against="DuckLake", target=1 / 3))
        least = 1.0 if cell.sharing == DISJOINT else None
        name, one = f"{cell.name}: rate", "one writer"
        found.append(rate_ratio(name, ours.rates, alone.rates, against=one, target=least))
    return found


if __name__ == "__main__":
    main()
