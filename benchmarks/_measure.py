"""
Compare ways to do the same thing, in one run, and write down what came out.

A time by itself says more about the machine than about the program. So the ways take
turns, each turn gives one ratio, and the median of the ratios is the result, with the
interval that a bootstrap gives. Nothing here asserts on time.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Unit = Literal["ratio", "share", "ms", "MiB", "1/s", "count", "exponent"]

_RESULTS = Path(__file__).resolve().parent / "results"
_RESAMPLES = 2000
_CONFIDENCE = 0.95
# The same figures give the same interval.
_SEED = 20130105


@dataclass(frozen=True, slots=True)
class Metric:
    """
    One figure.

    Attributes:
        metric: What was measured.
        value: The median.
        unit: "ratio", "share", "ms", "MiB", "1/s", "count" or "exponent".
        target: What it should be at most (or at least); None if nobody has set one.
        better: Whether a lower or a higher value is better.
        against: What it is compared with.
        low: Lower end of the interval of the median, with 95 % confidence.
        high: Its upper end.
        turns: How many turns it was measured in.
        points: Of what grows, each size with the median of what came out for it, as a curve shows
            it; None of anything else.
    """

    metric: str
    value: float
    unit: Unit
    target: float | None
    better: Literal["lower", "higher"]
    against: str
    low: float
    high: float
    turns: int
    points: tuple[tuple[int, float], ...] | None = None


@dataclass(slots=True)
class Times:
    """How long each part of one way took, in seconds, one value per turn."""

    parts: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure the block as one turn of a part."""
        started = time.perf_counter()
        yield
        self.parts.setdefault(name, []).append(time.perf_counter() - started)

    def total(self, names: Sequence[str]) -> list[float]:
        """Return the sum of some parts, turn by turn."""
        return [sum(values) for values in zip(*(self.parts[n] for n in names), strict=True)]


def take_turns(
    ways: dict[str, Callable[[Times, int], None]], *, warm_up: int, turns: int
) -> dict[str, Times]:
    """
    Run all ways in every turn, each time in another order, and return their times.

    Args:
        ways: What to run, by name; it gets the times to fill and the number of the turn.
        warm_up: Turns at the start that are not kept.
        turns: Turns that are.
    """
    names = list(ways)
    kept = {name: Times() for name in names}
    for turn in range(warm_up + turns):
        started = time.perf_counter()
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            ways[name](kept[name] if turn >= warm_up else Times(), turn)
        label = "warm-up" if turn < warm_up else f"turn {turn - warm_up + 1} of {turns}"
        print(f"  {label}: {time.perf_counter() - started:.1f} s", flush=True)
    return kept


def ratio(
    metric: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    against: str,
    target: float | None = None,
    unit: Literal["ratio", "share"] = "ratio",
) -> Metric:
    """Return how much longer ours take than theirs: the median over the turns."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return _metric(metric, ratios, unit=unit, against=against, target=target)


def rate_ratio(
    metric: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    against: str,
    target: float | None,
) -> Metric:
    """Return how many times their rates ours are, more being better: the median over the turns."""
    made = ratio(metric, ours, theirs, against=against, target=target)
    return replace(made, better="higher")


def exponent(
    metric: str,
    sizes: Sequence[int],
    turns: Sequence[Sequence[float]],
    *,
    against: str,
    target: float | None,
) -> Metric:
    """
    Return how something grows with a size: as which power of it, the median over the turns.

    Args:
        metric: What was measured.
        sizes: Ascending; 0 counts as 1.
        turns: Of each turn, what came out for each size; less than 1 counts as 1.
        against: What it is compared with.
        target: What the exponent should be at most.
    """
    slopes = [slope(sizes, turn) for turn in turns]
    made = _metric(metric, slopes, unit="exponent", against=against, target=target)
    medians = [statistics.median(values) for values in zip(*turns, strict=True)]
    return replace(made, points=tuple(zip(sizes, medians, strict=True)))


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Fit a line to logarithms, by least squares, and give its slope."""
    fitted = statistics.linear_regression(
        [math.log(max(size, 1)) for size in sizes], [math.log(max(value, 1)) for value in values]
    )
    return fitted.slope


def milliseconds(metric: str, seconds: Sequence[float], *, against: str) -> Metric:
    """Return a time by itself, for orientation; it has no target."""
    return _metric(metric, [1000 * s for s in seconds], unit="ms", against=against, target=None)


def single(
    metric: str, value: float, unit: Unit, better: Literal["lower", "higher"], against: str
) -> Metric:
    """Return a figure of one run, for orientation; it has neither target nor interval."""
    rounded = round(value, 1)
    return Metric(metric, rounded, unit, None, better, against, rounded, rounded, 1)


def is_met(value: float, target: float | None, better: str) -> bool | None:
    """Say whether a figure meets its target; None if it has none."""
    if target is None:
        return None
    return value <= target if better == "lower" else value >= target


def _metric(
    metric: str,
    values: Sequence[float],
    *,
    unit: Unit,
    against: str,
    target: float | None,
) -> Metric:
    low, high = _interval(values)
    digits = 1 if unit == "ms" else 4
    return Metric(
        metric=metric,
        value=round(statistics.median(values), digits) + 0.0,  # none is -0
        unit=unit,
        target=target,
        better="lower",
        against=against,
        low=round(low, digits) + 0.0,
        high=round(high, digits) + 0.0,
        turns=len(values),
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """
    Return the interval of the median.

    Source: percentile bootstrap, B. Efron, "Bootstrap methods: another look at the
    jackknife", 1979.
    """
    draw = random.Random(_SEED)
    medians = sorted(
        statistics.median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES)
    )
    tail = (1 - _CONFIDENCE) / 2
    return medians[int(tail * _RESAMPLES)], medians[int((1 - tail) * _RESAMPLES) - 1]


def show(metrics: Sequence[Metric]) -> None:
    """Print the figures."""
    width = max(len(metric.metric) for metric in metrics)
    print(f"\n{'':<{width}}   median  [95 % interval]    target")
    for one in metrics:
        target = "-" if one.target is None else f"{one.target:g}"
        interval = f"[{one.low:g}, {one.high:g}]"
        print(f"{one.metric:<{width}}  {one.value:7g}  {interval:<18} {target:>7}  {one.unit}")


def as_json(metric: Metric) -> dict[str, object]:
    """Return its fields; points stand there only if it has some."""
    fields = asdict(metric)
    return fields if metric.points else {key: fields[key] for key in fields if key != "points"}


def write(name: str, metrics: Sequence[Metric]) -> None:
    """Print the figures and write them to results/NAME.json."""
    show(metrics)
    _RESULTS.mkdir(exist_ok=True)
    path = _RESULTS / f"{name}.json"
    path.write_text(json.dumps([as_json(metric) for metric in metrics], indent=2) + "\n")
    print(f"\nwritten: {path.relative_to(_RESULTS.parent.parent)}")
