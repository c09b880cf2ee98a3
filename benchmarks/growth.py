"""
What grows: the cost of BEGIN, of a read and of COMMIT, as one thing of a lake grows alone.

Tables registered, past transactions, tables in a transaction, snapshots of a table, entries in the
head, sessions at once; in Python, over SQLite and files. Counted are the statements that the
catalog's database is sent, and bytes read and written, exactly; measured processor time and time:
of BEGIN, of a read of a table in a snapshot, of COMMIT with a row for each table, and of a tidy of
that. Two sessions take turns, so that each meets what the other has moved. The figure is the
exponent with which it grows, 0 being flat and 1 proportional: the slope of a line through the
logarithms of all sizes. Flat is promised, but for a COMMIT and a tidy of many tables, and for bytes
of the head. What bends a line is printed.

    make bench NAME=growth
"""

from __future__ import annotations

import argparse
import pstats
import statistics
import tempfile
import time
from cProfile import Profile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import _growing
from _growing import (
    BYTES_READ,
    BYTES_WRITTEN,
    CALLS,
    COMMIT,
    PARTS,
    QUANTITIES,
    TIDY,
    Cost,
    Lake,
)
from _measure import Metric, Times, exponent, show, slope, take_turns, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TURNS = 11
WARM_UP = 2
"""One for each session."""
FLAT = 0.1
PROPORTIONAL = 1.0
_NAMED = 3


@dataclass(frozen=True)
class Growing:
    """
    One thing that grows.

    Attributes:
        what: Its name.
        sizes: How much of it there is, ascending.
        small: The same, to try it out.
        make: Makes a lake in a folder, of a size, beside others up to one.
        proportional: Parts, and quantities, that may grow as it does; what is not named is flat.
        is_profiled: Whether one thread does it all.
    """

    what: str
    sizes: tuple[int, ...]
    small: tuple[int, ...]
    make: Callable[[Path, int, int], Lake]
    proportional: frozenset[str] = frozenset()
    is_profiled: bool = True

    def target(self, part: str, quantity: str) -> float:
        """Give the exponent that is promised at most."""
        return PROPORTIONAL if {part, quantity} & self.proportional else FLAT


def _all_growing(turns: int) -> list[Growing]:
    """Give what grows; a table is written once in all turns where its snapshots count."""
    bytes_of_it = frozenset({BYTES_READ, BYTES_WRITTEN})
    snapshots = partial(_growing.snapshots, turns=turns)
    return [
        Growing("tables registered", (10, 100, 1_000, 10_000), (10, 40, 160), _growing.registered),
        Growing(
            "past transactions", (100, 1_000, 10_000, 100_000), (100, 400, 1600), _growing.past
        ),
        Growing(
            "tables in a transaction",
            (1, 6, 35, 200),
            (1, 3, 9),
            _growing.at_once,
            frozenset({COMMIT, TIDY}),
        ),
        Growing("snapshots of the table", (2, 20, 200, 2_000), (2, 8, 50), snapshots),
        Growing("entries in the head", (0, 4, 32, 256), (0, 4, 16), _growing.head, bytes_of_it),
        Growing("sessions", (1, 4, 16, 64), (1, 2, 4), _growing.sessions, is_profiled=False),
    ]


def main() -> None:
    """Grow each, and write results/growth.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="Try it out; nothing is written.")
    parser.add_argument("--only", default="", help="A part of the name of what is to grow.")
    parser.add_argument("--turns", type=int)
    told = parser.parse_args()
    turns = told.turns or (2 if told.small else TURNS)
    metrics: list[Metric] = []
    for growing in _all_growing(turns + WARM_UP + 1):
        if told.only in growing.what:
            sizes = growing.small if told.small else growing.sizes
            metrics += _grown(growing, sizes, turns)
    if told.small or told.only:
        show(metrics)
    else:
        write("growth", metrics)


def _grown(growing: Growing, sizes: tuple[int, ...], turns: int) -> list[Metric]:
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as folder:
        lakes = {}
        for size in sizes:
            print(f"{growing.what}: {size:,}", flush=True)
            lakes[size] = growing.make(Path(folder, str(size)), size, sizes[-1])
        ways = {str(size): partial(_turn, lake) for size, lake in lakes.items()}
        kept = take_turns(ways, warm_up=WARM_UP, turns=turns)
        found = {
            (part, quantity): [kept[str(size)].parts[f"{part}: {quantity}"] for size in sizes]
            for part in PARTS
            for quantity in QUANTITIES
        }
        metrics = [
            _metric(growing, sizes, part, quantity, runs)
            for (part, quantity), runs in found.items()
        ]
        _explain(growing, lakes, metrics, found, WARM_UP + turns)
        for lake in lakes.values():
            lake.count_rows()
    return metrics


def _turn(lake: Lake, times: Times, number: int) -> None:
    for part, cost in lake.turn(number).items():
        for quantity in QUANTITIES:
            times.parts.setdefault(f"{part}: {quantity}", []).append(cost.of(quantity))


def _metric(
    growing: Growing, sizes: Sequence[int], part: str, quantity: str, runs: list[list[float]]
) -> Metric:
    first, last = (_said(quantity, statistics.median(runs[at])) for at in (0, -1))
    return exponent(
        f"{growing.what}: {part}, {quantity}",
        sizes,
        list(zip(*runs, strict=True)),
        against=f"{first} at {sizes[0]:,}, {last} at {sizes[-1]:,}",
        target=growing.target(part, quantity),
    )


def _said(quantity: str, value: float) -> str:
    if quantity == CALLS:
        return f"{value:g}"
    if quantity in {BYTES_READ, BYTES_WRITTEN}:
        return f"{value / 1024:.1f} KiB"
    return f"{value / 1000:.1f} ms"


# ------------------------------------------------------------ what bends a line


def _explain(
    growing: Growing,
    lakes: dict[int, Lake],
    metrics: list[Metric],
    found: dict[tuple[str, str], list[list[float]]],
    number: int,
) -> None:
    """Say of each line that is steeper than promised where it bends, and what grows there."""
    profiles = [{part: Profile(time.process_time) for part in PARTS} for _ in range(2)]
    ends = (lakes[min(lakes)], lakes[max(lakes)])
    costs = [
        lake.turn(number, profile if growing.is_profiled else None)
        for lake, profile in zip(ends, profiles, strict=True)
    ]
    for metric, ((part, quantity), runs) in zip(metrics, found.items(), strict=True):
        if metric.target is None or metric.value <= metric.target:
            continue
        if quantity in {BYTES_READ, BYTES_WRITTEN}:
            why = _kinds(*(cost[part] for cost in costs), quantity)
        elif quantity == CALLS or not growing.is_profiled:
            why = ""
        else:
            why = _functions(*(profile[part] for profile in profiles))
        print(f"  {metric.metric}: {metric.value:g}; {_bend(list(lakes), runs, quantity)}{why}")


def _bend(sizes: Sequence[int], runs: list[list[float]], quantity: str) -> str:
    """Say between which sizes it grows most, as a power."""
    medians = [statistics.median(run) for run in runs]
    steps = [
        (slope(sizes[at : at + 2], medians[at : at + 2]), at)
        for at in range(len(sizes) - 1)
        if max(sizes[at], 1) < sizes[at + 1]
    ]
    steepest, at = max(steps)
    first, last = (_said(quantity, medians[each]) for each in (at, at + 1))
    return f"most between {sizes[at]:,} and {sizes[at + 1]:,}: {first} to {last} ({steepest:.2f})"


def _kinds(small: Cost, large: Cost, quantity: str) -> str:
    before, after = (
        cost.read if quantity == BYTES_READ else cost.written for cost in (small, large)
    )
    grown = {each: count - before[each] for each, count in after.items()}
    return "; of files: " + ", ".join(
        f"{each} +{count / 1024:.1f} KiB" for each, count in grown.items() if count > 0
    )


def _functions(small: Profile, large: Profile) -> str:
    """Name the functions whose own time, under a profiler, has grown most; locks only wait."""
    before, after = (_own_s(each) for each in (small, large))
    grown = {each: own_s - before.get(each, 0) for each, own_s in after.items()}
    most = sorted(grown, key=lambda each: grown[each], reverse=True)[:_NAMED]
    return "; in " + ", ".join(f"{each} +{1000 * grown[each]:.1f} ms" for each in most)


def _own_s(profile: Profile) -> dict[str, float]:
    """Give the time of each function without those that it calls, in seconds."""
    stats: dict[tuple[str, int, str], tuple[int, int, float]] = vars(pstats.Stats(profile))["stats"]
    return {
        f"{name} ({Path(file).name}:{line})": row[2]
        for (file, line, name), row in stats.items()
        if "_thread.lock" not in name
    }


if __name__ == "__main__":
    main()
