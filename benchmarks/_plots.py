"""
What the plots of docs/benchmarks.md show, made of the results; _drawing.py draws it.

Ratios and shares are dots with intervals, in blocks of rows that share an axis; where several
settings have the same rows, each setting is a column. What has sizes is curves, in panels.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import _curves
from _curves import Curves
from _measure import is_met

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SHOWN = {
    "faults": {"ms"},
    "large_log": {"ms", "MiB"},
}
"""Units that a plot shows; of all others ratios and shares. A time by itself says little."""
_RATIOS = {"ratio", "share"}


@dataclass(frozen=True, slots=True)
class Dot:
    """
    One figure.

    Attributes:
        row: In which row of its block, from 0.
        column: In which column, from 0.
        value: The median, in the unit of the results.
        low: Lower end of its interval.
        high: Upper end.
        target: None if there is none.
        is_met: Whether the target is; None if there is none.
        more_is_better: Whether it is.
        before: What it is compared with, in the same unit; None if that is 1.
        remark: A word beside the figure.
    """

    row: int
    column: int
    value: float
    low: float
    high: float
    target: float | None
    is_met: bool | None
    more_is_better: bool
    before: float | None
    remark: str


@dataclass(frozen=True, slots=True)
class Block:
    """
    Rows of dots over one axis, side by side for each setting.

    Attributes:
        title: What the axis counts.
        unit: "ratio", "share", "ms" or "MiB".
        columns: The settings; one without a name if there are none.
        rows: What was measured, and, if rows differ in it, against what.
        dots: The figures.
    """

    title: str
    unit: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class Dots:
    """
    A plot of dots.

    Attributes:
        name: Of the file, without its suffix.
        alt: What it says, for who cannot see it.
        blocks: From top to bottom.
    """

    name: str
    alt: str
    blocks: tuple[Block, ...]


Plot = Dots | Curves


def plots(benchmark: str, metrics: Sequence[dict[str, Any]]) -> list[Plot]:
    """Return the plots of a benchmark, in the order of the page; none if a table says it all."""
    found: list[Plot] = list(_curves.curves(benchmark, metrics))
    shown = _SHOWN.get(benchmark, _RATIOS)
    cells = [_cell(benchmark, metric) for metric in metrics if metric["unit"] in shown]
    if cells:
        blocks = tuple(_blocks(cells))
        found.append(Dots(benchmark, _said(blocks), blocks))
    return found


def digest(plot: Plot) -> str:
    """Return a digest of all that a plot shows; its file carries it."""
    shown = json.dumps(asdict(plot), sort_keys=True)
    return f"sha256:{hashlib.sha256(shown.encode()).hexdigest()}"


def scaled(value: float, unit: str) -> float:
    """Put a value of the results in what a plot counts: shares in per cent, times in seconds."""
    return value * {"share": 100.0, "ms": 0.001}.get(unit, 1.0)


def suffix(unit: str) -> str:
    """Return what stands behind a scaled value."""
    return {"share": " %", "ms": " s"}.get(unit, "")


def written(value: float, unit: str) -> str:
    """Write a value of the results as a plot shows it."""
    shown = scaled(value, unit)
    digits = 0 if unit == "MiB" or shown >= 100 else 1 if shown >= 10 else 2
    return f"{shown:.{digits}f}{suffix(unit)}"


# ------------------------------------------------------------ where a figure stands


@dataclass(frozen=True, slots=True)
class _Cell:
    """One figure: its setting, its row, what its block compares, and the whole of it."""

    column: str
    row: str
    title: str
    metric: dict[str, Any]
    before: float | None = None
    remark: str = ""

    @property
    def unit(self) -> str:
        return str(self.metric["unit"])


def _cell(benchmark: str, metric: dict[str, Any]) -> _Cell:
    return _CELLS.get(benchmark, _usual_cell)(metric)


def _usual_cell(metric: dict[str, Any]) -> _Cell:
    """Take the setting from before the colon."""
    column, _, row = metric["metric"].rpartition(": ")
    return _Cell(column, row, _compared(metric), metric)


def _cell_of_writers(metric: dict[str, Any]) -> _Cell:
    """Give each number of writers a row, what they share a column, and each peer a block."""
    setting, _, what = metric["metric"].rpartition(": ")
    writers, _, column = setting.partition(", ")
    return _Cell(column, writers, f"{what}: {_compared(metric)}", metric)


def _cell_of_ways(metric: dict[str, Any]) -> _Cell:
    cell = _cell_of_writers(metric)
    return replace(cell, title=f"atomic's {cell.title}")


def _cell_of_a_fault(metric: dict[str, Any]) -> _Cell:
    row, _, column = metric["metric"].rpartition(": ")
    return _Cell(column, row, "seconds after the end of the fault", metric)


def _cell_of_a_log(metric: dict[str, Any]) -> _Cell:
    """Take commands for rows, and logs for columns; a small log is what each is compared with."""
    whole, _, what = metric["metric"].rpartition(": ")
    found = re.fullmatch(
        r"(.+), (a million archived rows|[\d,]+ entries in the head)(?: \((\w+).*\))?", whole
    )
    assert found, whole
    row, column, remark = found.groups(default="")
    unit = "seconds" if metric["unit"] == "ms" else metric["unit"]
    before = float(metric["against"].removeprefix("a small log: ").split()[0])
    return _Cell(column, row, f"{what} in {unit}", metric, before, remark)


def _cell_of_pairs(metric: dict[str, Any]) -> _Cell:
    column, _, row = metric["metric"].partition(": torn pairs, ")
    return _Cell(column, row, "torn pairs: share of all that were read", metric)


_CELLS: dict[str, Callable[[dict[str, Any]], _Cell]] = {
    "faults": _cell_of_a_fault,
    "large_log": _cell_of_a_log,
    "outside_readers": _cell_of_pairs,
    "small_transactions": _cell_of_ways,
    "small_transactions_on_sqlite": _cell_of_ways,
    "spark_sessions": _cell_of_writers,
}


def _compared(metric: dict[str, Any]) -> str:
    return f"{'share of' if metric['unit'] == 'share' else 'ratio to'} {metric['against']}"


# ------------------------------------------------------------ blocks


def _blocks(cells: Sequence[_Cell]) -> list[Block]:
    """Put what several settings have in columns; the rest is a list for each unit."""
    times = Counter((cell.unit, cell.title, cell.row) for cell in cells)
    tables: dict[tuple[str, str], list[_Cell]] = {}
    lists: dict[str, list[_Cell]] = {}
    for cell in cells:
        if cell.column and times[cell.unit, cell.title, cell.row] > 1:
            tables.setdefault((cell.unit, cell.title), []).append(cell)
        else:
            lists.setdefault(cell.unit, []).append(cell)
    return [
        *(_table(title, unit, found) for (unit, title), found in tables.items()),
        *(_list(unit, found) for unit, found in lists.items()),
    ]


def _table(title: str, unit: str, cells: Sequence[_Cell]) -> Block:
    columns = tuple(dict.fromkeys(cell.column for cell in cells))
    rows = tuple(dict.fromkeys(cell.row for cell in cells))
    dots = tuple(_dot(cell, rows.index(cell.row), columns.index(cell.column)) for cell in cells)
    named = tuple((_plain(row), "") for row in rows)
    return Block(_title(title, cells), unit, columns, named, dots)


def _list(unit: str, cells: Sequence[_Cell]) -> Block:
    titles = {cell.title for cell in cells}
    is_same = len(titles) == 1
    title = titles.pop() if is_same else f"{unit}s, each to what stands below its name"
    rows = tuple(
        (_plain(cell.metric["metric"]), "" if is_same else _plain(cell.metric["against"]))
        for cell in cells
    )
    dots = tuple(_dot(cell, row, 0) for row, cell in enumerate(cells))
    return Block(_title(title, cells), unit, ("",), rows, dots)


def _dot(cell: _Cell, row: int, column: int) -> Dot:
    metric = cell.metric
    return Dot(
        row=row,
        column=column,
        value=metric["value"],
        low=metric["low"],
        high=metric["high"],
        target=metric["target"],
        is_met=is_met(metric["value"], metric["target"], metric["better"]),
        more_is_better=metric["better"] == "higher",
        before=cell.before,
        remark=cell.remark,
    )


def _title(compared: str, cells: Sequence[_Cell]) -> str:
    directions = sorted({cell.metric["better"] for cell in cells}, reverse=True)
    better = " or ".join("less" if each == "lower" else "more" for each in directions)
    return _plain(f"{compared[0].upper()}{compared[1:]} ({better} is better)")


def _plain(text: str) -> str:
    """Leave out what Markdown sets code in."""
    return text.replace("`", "")


def _said(blocks: Sequence[Block]) -> str:
    """Say what a plot shows: from where to where its blocks reach, and which targets are met."""
    said = []
    for block in blocks:
        values = [dot.value for dot in block.dots]
        least, most = (written(each, block.unit) for each in (min(values), max(values)))
        said.append(f"{block.title}: {len(values)} figures from {least} to {most}")
    dots = [dot for block in blocks for dot in block.dots if dot.target is not None]
    met = sum(bool(dot.is_met) for dot in dots)
    targets = f" Targets met: {met} of {len(dots)}." if dots else ""
    return f"Dots with their 95 % intervals. {'; '.join(said)}.{targets}"
