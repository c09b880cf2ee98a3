"""Which curves the results hold: what grows with a size, and rates and times over writers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _measure import is_met

if TYPE_CHECKING:
    from collections.abc import Sequence

_RATE, _P99 = "transactions a second", "p99, ms"
_OURS = {"inline", "atomic"}
_SCALES = {
    "catalog calls": ("catalog calls", 1),
    "bytes read": ("KiB read", 1024),
    "bytes written": ("KiB written", 1024),
    "processor time": ("processor time, ms", 1000),
    "time": ("time, ms", 1000),
}
"""What an axis counts of each quantity, and how many of the results' units that is."""


@dataclass(frozen=True, slots=True)
class Curve:
    """
    One line.

    Attributes:
        label: What it is of.
        said: What the key says beside it.
        points: Sizes and values, in the unit of its panel.
        is_met: Whether it keeps its target; None if it has none.
    """

    label: str
    said: str
    points: tuple[tuple[float, float], ...]
    is_met: bool | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """
    Curves over one pair of axes, both logarithmic.

    Attributes:
        title: What grows, or in which setting.
        across: What the sizes count.
        upwards: What the values count.
        curves: The lines; none if this was not measured.
    """

    title: str
    across: str
    upwards: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """
    A plot of curves.

    Attributes:
        name: Of the file, without its suffix.
        alt: What it says, for who cannot see it.
        has_own_keys: Whether each panel has a key of its own, or all have one.
        panels: In rows of three.
    """

    name: str
    alt: str
    has_own_keys: bool
    panels: tuple[Panel, ...]


def curves(benchmark: str, metrics: Sequence[dict[str, Any]]) -> list[Curves]:
    """Return the plots of a benchmark that are curves."""
    if benchmark.startswith("small_transactions"):
        return [_over_writers(benchmark, metrics)]
    growing = [metric for metric in metrics if metric.get("points")]
    quantities = dict.fromkeys(_parts(metric)[2] for metric in growing)
    return [
        _grown(
            f"{benchmark}_{quantity.replace(' ', '_')}",
            quantity,
            [metric for metric in growing if _parts(metric)[2] == quantity],
        )
        for quantity in quantities
    ]


# ------------------------------------------------------------ what grows


def _grown(name: str, quantity: str, metrics: Sequence[dict[str, Any]]) -> Curves:
    whats = dict.fromkeys(_parts(metric)[0] for metric in metrics)
    upwards, _ = _SCALES[quantity]
    panels = tuple(
        Panel(
            title=what,
            across=what,
            upwards=upwards,
            curves=tuple(_curve(metric) for metric in metrics if _parts(metric)[0] == what),
        )
        for what in whats
    )
    kept = sum(bool(curve.is_met) for panel in panels for curve in panel.curves)
    steepest = max(metrics, key=lambda metric: float(metric["value"]))
    said = (
        f"Growth of {quantity}: curves over {', '.join(whats)}; both axes are logarithmic."
        f" Targets met: {kept} of {len(metrics)}. The steepest curve is"
        f" {steepest['metric'].rpartition(', ')[0]}, with an exponent of {steepest['value']:.2f}."
    )
    return Curves(name, said, has_own_keys=True, panels=panels)


def _curve(metric: dict[str, Any]) -> Curve:
    _, part, quantity = _parts(metric)
    _, scale = _SCALES[quantity]
    keeps = is_met(metric["value"], metric["target"], metric["better"])
    value = round(metric["value"], 3) + 0.0  # none is -0
    said = f"{value:.3f}, ≤ {metric['target']:g}{'' if keeps else ': missed'}"
    points = tuple((size, value / scale) for size, value in metric["points"])
    return Curve(part, said, points, keeps)


def _parts(metric: dict[str, Any]) -> tuple[str, str, str]:
    """Take apart what grows, the part of a transaction, and the quantity."""
    what, _, rest = metric["metric"].rpartition(": ")
    part, _, quantity = rest.rpartition(", ")
    return what, part, quantity


# ------------------------------------------------------------ writers


def _over_writers(name: str, metrics: Sequence[dict[str, Any]]) -> Curves:
    """Show the rate and the 99th percentile of each way over the number of writers."""
    values = {
        metric["metric"]: float(metric["value"])
        for metric in metrics
        if metric["unit"] in {"1/s", "ms"}
    }
    settings = dict.fromkeys(
        metric.partition(" writers, ")[2].partition(": ")[0] for metric in values
    )
    panels = tuple(
        Panel(sharing, "writers", upwards, _ways(values, sharing, suffix))
        for upwards, suffix in ((_RATE, ""), (_P99, ", p99"))
        for sharing in settings
    )
    rates = ", ".join(f"{each.label} {each.points[-1][1]:g}" for each in panels[0].curves)
    said = (
        "Transactions a second, and the 99th percentile of their time, over the number of writers,"
        f" on {'; on '.join(settings)}. By most writers on {panels[0].title}, a second: {rates}."
    )
    return Curves(f"{name}_rates", said, has_own_keys=False, panels=panels)


def _ways(values: dict[str, float], sharing: str, suffix: str) -> tuple[Curve, ...]:
    """Give each way its curve; its rates have no suffix."""
    points: dict[str, list[tuple[float, float]]] = {}
    for metric, value in values.items():
        setting, _, way = metric.rpartition(": ")
        writers, _, found = setting.partition(" writers, ")
        if found == sharing and way.endswith(", p99") == bool(suffix):
            points.setdefault(way.removesuffix(suffix), []).append((int(writers), value))
    return tuple(
        Curve(f"{way} (ours)" if way in _OURS else way, "", tuple(sorted(found)))
        for way, found in points.items()
    )
