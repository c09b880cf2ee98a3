"""
Small transactions of several processes: a row into each of five tables, in a PostgreSQL database.

As a transaction of ours whose tables are applied after it (`inline`), as one that moves them with
the log (`atomic`), as one of DuckLake, as five appends of pyiceberg one after the other, which
nothing holds together, and as the bare floor: the same files written, one database transaction, and
nothing else. On tables that all share, on five of each process's own, and on those with a DELETE of
the row before in one of them. Every row is counted afterwards.

    make bench NAME=small_transactions
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from _measure import Metric, rate_ratio, ratio, single, write
from _small_writers import WAYS, Place, Way, work

from integration_tests.postgres import Postgres, running_postgres

if TYPE_CHECKING:
    from collections.abc import Sequence

PROCESSES = (1, 4, 8)
TABLES = 5
ROUNDS = 3
LASTS_S = 2.5
START_S = 120
SAME, DISJOINT, DELETES = "same tables", "disjoint tables", "disjoint tables, with a DELETE"
OF_DUCKLAKE = {1: 1.0, 4: 1.5, 8: 1.5}
"""The least share of DuckLake's rate that is wanted, by processes."""


@dataclass
class Runs:
    """What one way has done in a cell, round by round."""

    rates: list[float] = field(default_factory=list)
    latencies: list[list[float]] = field(default_factory=list)

    def p99_ms(self) -> float:
        """Give the time that one transaction in a hundred takes longer than."""
        every = sorted(each for one in self.latencies for each in one)
        return 1000 * every[int(0.99 * (len(every) - 1))]


def main() -> None:
    """Run all cells, the ways in turns, and write results/small_transactions.json."""
    metrics: list[Metric] = []
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder, running_postgres() as server:
        for sharing in (SAME, DISJOINT, DELETES):
            for processes in PROCESSES:
                cell = f"{processes} writers, {sharing}"
                runs = _cell(folder, server, sharing, processes)
                metrics += [*_figures(cell, runs), *_ratios(cell, processes, runs)]
    write("small_transactions", metrics)


def _cell(folder: str, server: Postgres, sharing: str, processes: int) -> dict[str, Runs]:
    runs = {name: Runs() for name in WAYS}
    names = list(WAYS)
    for turn in range(ROUNDS):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            database = f"{name.lower()}_{sharing.replace(', with a', '')}_{processes}_{turn}"
            database = database.replace(" ", "_").lower()
            server.create_database(database)
            where = Place(
                f"{folder}/{database}", server.uri(database), database, server.socket_folder
            )
            way = WAYS[name](where, deletes=sharing == DELETES)
            rate, latencies = _run(way, sharing, processes)
            shutil.rmtree(where.folder)  # the floor alone writes thousands of files a second
            runs[name].rates.append(rate)
            runs[name].latencies.append(latencies)
    for name, each in runs.items():
        rate, p99_ms = statistics.median(each.rates), each.p99_ms()
        print(
            f"{processes} writers, {sharing}: {name} {rate:.1f}/s, p99 {p99_ms:.0f} ms", flush=True
        )
    return runs


def _figures(cell: str, runs: dict[str, Runs]) -> list[Metric]:
    found = []
    for name, each in runs.items():
        rate = statistics.median(each.rates)
        found.append(single(f"{cell}: {name}", rate, "1/s", "higher", "transactions a second"))
        found.append(single(f"{cell}: {name}, p99", each.p99_ms(), "ms", "lower", "the clock"))
    return found


def _ratios(cell: str, processes: int, runs: dict[str, Runs]) -> list[Metric]:
    """Give how many times the others' rates ours is, round by round."""
    ours = runs["atomic"]

    def rates(name: str, target: float | None) -> Metric:
        theirs = runs[name].rates
        return rate_ratio(f"{cell}: rate", ours.rates, theirs, against=name, target=target)

    p99 = [ours.p99_ms() / runs["DuckLake"].p99_ms()]
    found = [
        rates("pyiceberg", 3.0),
        rates("DuckLake", OF_DUCKLAKE[processes]),
        rates("floor", 0.5),
        rates("inline", None),
    ]
    if processes > 1:
        found.append(ratio(f"{cell}: p99", p99, [1.0], against="DuckLake", target=1 / 3))
    return found


def _tables(sharing: str, process: int) -> list[str]:
    owner = "s" if sharing == SAME else f"p{process}_"
    return [f"{owner}{number}" for number in range(TABLES)]


def _run(way: Way, sharing: str, processes: int) -> tuple[float, list[float]]:
    """Give the transactions a second of all processes, and the seconds that each took."""
    way.set_up(sorted({name for each in range(processes) for name in _tables(sharing, each)}))
    context = multiprocessing.get_context("spawn")
    results, barrier = context.Queue(), context.Barrier(processes)
    workers = [
        context.Process(target=_work, args=(way, _tables(sharing, each), each, barrier, results))
        for each in range(processes)
    ]
    for worker in workers:
        worker.start()
    told = [results.get(timeout=START_S + 10 * LASTS_S) for _ in workers]
    for worker in workers:
        worker.join()
    for process, _, latencies in told:
        _count_rows(way, _tables(sharing, process), process, len(latencies))
    lasted_s = max(lasted for _, lasted, _ in told)
    latencies = [each for _, _, some in told for each in some]
    return len(latencies) / lasted_s, latencies


def _work(way: Way, tables: list[str], process: int, barrier, results) -> None:
    writer = way.writer(tables, process)
    barrier.wait(START_S)
    results.put((process, *work(writer, LASTS_S)))


def _count_rows(way: Way, tables: Sequence[str], process: int, count: int) -> None:
    for place, table in enumerate(tables):
        wanted = [count - 1] if way.deletes and place == 0 else list(range(count))
        found = way.numbers(table, process)
        assert found in (None, wanted), (table, found, wanted)


if __name__ == "__main__":
    main()
