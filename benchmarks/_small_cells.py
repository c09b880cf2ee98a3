"""Cells of `small_transactions`: processes that share tables, or do not, each way in turns."""

from __future__ import annotations

import multiprocessing
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from _measure import Metric, single
from _small_writers import WAYS, Place, Way, work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROCESSES = (1, 4, 8)
TABLES = 5
ROUNDS = 3
LASTS_S = 4.0
WARM_UP = 3
"""Transactions of each process before the clock runs: what a program loads once it loads then."""
START_S = 120
SAME, DISJOINT, WITH_DELETE = "same tables", "disjoint tables", ", with a DELETE"
SHARINGS = (SAME, DISJOINT, DISJOINT + WITH_DELETE, SAME + WITH_DELETE)


@dataclass
class Runs:
    """What one way has done in a cell, round by round."""

    rates: list[float] = field(default_factory=list)
    latencies: list[list[float]] = field(default_factory=list)

    def p99_ms(self) -> float:
        """Give the time that one transaction in a hundred takes longer than."""
        every = sorted(each for one in self.latencies for each in one)
        return 1000 * every[int(0.99 * (len(every) - 1))]


@dataclass(frozen=True)
class Cell:
    """
    So many processes.

    Attributes:
        processes: How many.
        sharing: What they share, and whether they delete: one of SHARINGS.
        place: Gives where the database of a name is, and makes it.
    """

    processes: int
    sharing: str
    place: Callable[[str], Place]

    @property
    def name(self) -> str:
        """What its figures are called by."""
        return f"{self.processes} writers, {self.sharing}"

    def runs(self, names: Sequence[str]) -> dict[str, Runs]:
        """Run ways in turns, each in a database and a folder of its own."""
        runs = {name: Runs() for name in names}
        for turn in range(ROUNDS):
            for place in range(len(names)):
                name = names[(turn + place) % len(names)]
                rate, latencies = self._run(name, turn)
                runs[name].rates.append(rate)
                runs[name].latencies.append(latencies)
        for name, each in runs.items():
            rate, p99_ms = statistics.median(each.rates), each.p99_ms()
            print(f"{self.name}: {name} {rate:.1f}/s, p99 {p99_ms:.0f} ms", flush=True)
        return runs

    def _run(self, name: str, turn: int) -> tuple[float, list[float]]:
        sharing = self.sharing.replace(", with a", "")
        where = self.place(f"{name} {sharing} {self.processes} {turn}".replace(" ", "_").lower())
        # Its folder is left until all is measured: ext4 without a journal makes new files ten times
        # slower for half a minute after many were deleted, and who runs next would pay for it.
        way = WAYS[name](where, deletes=self.sharing.endswith(WITH_DELETE))
        return _rate(way, self.sharing, self.processes)


def figures(cell: str, runs: dict[str, Runs]) -> list[Metric]:
    """Give what each way has done in a cell."""
    found = []
    for name, each in runs.items():
        rate = statistics.median(each.rates)
        found.append(single(f"{cell}: {name}", rate, "1/s", "higher", "transactions a second"))
        found.append(single(f"{cell}: {name}, p99", each.p99_ms(), "ms", "lower", "the clock"))
    return found


def _tables(sharing: str, process: int) -> list[str]:
    owner = "s" if sharing.startswith(SAME) else f"p{process}_"
    return [f"{owner}{number}" for number in range(TABLES)]


def _rate(way: Way, sharing: str, processes: int) -> tuple[float, list[float]]:
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
        _count_rows(way, _tables(sharing, process), process, WARM_UP + len(latencies))
    lasted_s = max(lasted for _, lasted, _ in told)
    latencies = [each for _, _, some in told for each in some]
    return len(latencies) / lasted_s, latencies


def _work(way: Way, tables: list[str], process: int, barrier, results) -> None:
    writer = way.writer(tables, process)
    for number in range(WARM_UP):
        writer(number)
    barrier.wait(START_S)
    results.put((process, *work(writer, LASTS_S, WARM_UP)))


def _count_rows(way: Way, tables: Sequence[str], process: int, count: int) -> None:
    for place, table in enumerate(tables):
        wanted = [count - 1] if way.deletes and place == 0 else list(range(count))
        found = way.numbers(table, process)
        assert found in (None, wanted), (table, found, wanted)
