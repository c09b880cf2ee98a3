"""Draw dots with their intervals: blocks of rows, a column for each setting."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _paper import FAINT, GRID, SMALL, TEXT, WIDTH, text_width
from _plots import scaled, suffix, written
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _plots import Block, Dot, Dots
    from matplotlib.axes import Axes

_MET, _MISSED, _UNAIMED = "#00875f", "#d04a00", "#33508c"
"""Who sees no red or green tells them apart; what is missed has a form of its own as well."""
_BASES = ((1, 2, 5), (1, 3), (1,))
"""Ticks of a decade."""
_MARGIN = 6
"""A logarithmic axis where the largest is so many times the smallest."""

# In inches.
_LINE, _ROW_GAP = 0.165, 0.075
_KEY, _TITLE, _SETTINGS, _TICKS = 0.4, 0.32, 0.17, 0.42
_BESIDE_LABELS = 0.12
_BESIDE_COLUMN = 0.2

_TICK = 0.35
_LETTER = 0.066
"""Of small text."""
_WRAP = 46
"""Characters of a label in a line."""


@dataclass(frozen=True, slots=True)
class _Label:
    """A row's label: what was measured, and below it against what."""

    name: list[str]
    note: list[str]

    @property
    def lines(self) -> list[str]:
        return [*self.name, *self.note]

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + _ROW_GAP


def draw_dots(plot: Dots) -> Figure:
    """Return the figure of a plot of dots."""
    labels = [[_label(*row) for row in block.rows] for block in plot.blocks]
    lines = [line for rows in labels for label in rows for line in label.lines]
    left = 1.05 * max(text_width(line) for line in lines) + 2 * _BESIDE_LABELS
    heights = [
        _above(_settings(block, left)) + sum(label.height for label in rows) + _TICKS
        for block, rows in zip(plot.blocks, labels, strict=True)
    ]
    top = sum(heights)
    figure = Figure(figsize=(WIDTH, top + _KEY))
    _draw_key(figure, [dot for block in plot.blocks for dot in block.dots])
    for block, rows, height in zip(plot.blocks, labels, heights, strict=True):
        _draw_block(figure, block, rows, left=left, top=top)
        top -= height
    return figure


def _label(name: str, note: str) -> _Label:
    lines = textwrap.wrap(f"against {note}", _WRAP) if note else []
    return _Label(textwrap.wrap(name, _WRAP), lines)


def _settings(block: Block, left: float) -> list[str]:
    """Return the names of a block's columns, each in as many lines as it needs."""
    letters = int((WIDTH - left) / len(block.columns) / _LETTER) - 1
    return [textwrap.fill(name, letters, break_on_hyphens=False) for name in block.columns]


def _above(settings: list[str]) -> float:
    lines = max(name.count("\n") + 1 for name in settings) if any(settings) else 0
    return _TITLE + _SETTINGS * lines


def _draw_block(
    figure: Figure, block: Block, labels: list[_Label], *, left: float, top: float
) -> None:
    full = float(figure.get_size_inches()[1])
    figure.text(0.1 / WIDTH, (top - 0.18) / full, block.title, weight="bold")
    settings = _settings(block, left)
    top -= _above(settings)
    height = sum(label.height for label in labels)
    middles = _middles(labels)
    each = (WIDTH - left) / len(settings)
    wide = each - _BESIDE_COLUMN - _beside(block)
    scale = _Scale(block, wide)
    for column, name in enumerate(settings):
        box = (
            (left + column * each) / WIDTH,
            (top - height) / full,
            wide / WIDTH,
            height / full,
        )
        axes = figure.add_axes(box, ylim=(height, 0))
        axes.set_title(name, fontsize=SMALL, loc="left", pad=3)
        scale.apply(axes)
        axes.plot(*_lines((*scale.limits, y) for y in middles), color=GRID, linewidth=0.6, zorder=0)
        _draw_dots(axes, block, column, middles)
    for label, middle in zip(labels, middles, strict=True):
        _draw_label(figure, label, x=left - _BESIDE_LABELS, y=top - middle)


def _lines(lines: Iterable[tuple[float, float, float]]) -> tuple[list[float], list[float]]:
    """Put horizontal lines, each from, to and at a height, into one path with gaps."""
    found = list(lines)
    across = [at for start, end, _ in found for at in (start, end, math.nan)]
    return across, [at for _, _, height in found for at in (height, height, math.nan)]


def _middles(labels: list[_Label]) -> list[float]:
    """Return where each row is, from the top of its block."""
    ends = [sum(label.height for label in labels[: at + 1]) for at in range(len(labels))]
    return [end - label.height / 2 for end, label in zip(ends, labels, strict=True)]


def _draw_label(figure: Figure, label: _Label, *, x: float, y: float) -> None:
    full = float(figure.get_size_inches()[1])
    y += _LINE * (len(label.lines) - 1) / 2
    for at, line in enumerate(label.lines):
        is_note = at >= len(label.name)
        figure.text(
            x / WIDTH,
            (y - at * _LINE) / full,
            line,
            ha="right",
            va="center",
            color=FAINT if is_note else TEXT,
            fontsize=SMALL if is_note else None,
        )


def _draw_dots(axes: Axes, block: Block, column: int, middles: list[float]) -> None:
    """Draw the figures of a setting, those that look alike as one: this keeps files small."""
    looks: dict[tuple[str, str], list[Dot]] = {}
    aims: dict[str, list[Dot]] = {}
    for dot in block.dots:
        if dot.column == column:
            looks.setdefault(_look(dot), []).append(dot)
            if dot.target is not None:
                aims.setdefault(_aim(dot), []).append(dot)

    def draw(dots: list[Dot], part: str, **style: Any) -> None:
        at = [scaled(getattr(dot, part), block.unit) for dot in dots]
        axes.plot(at, [middles[dot.row] for dot in dots], **style)

    for (colour, form), dots in looks.items():
        ends = (
            (scaled(dot.low, block.unit), scaled(dot.high, block.unit), middles[dot.row])
            for dot in dots
        )
        axes.plot(*_lines(ends), color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
        draw([dot for dot in dots if dot.before is not None], "before", zorder=4, **_BEFORE)
        draw(dots, "value", zorder=5, clip_on=False, **_dot_style(colour, form))
        for dot in dots:
            _write(axes, _figure(dot, block.unit), middles[dot.row], colour)
    for form, dots in aims.items():
        draw(dots, "target", marker=form, zorder=4, **_TARGET)


def _write(axes: Axes, figure: str, y: float, colour: str) -> None:
    """Write a figure beside its column."""
    axes.annotate(
        figure,
        (1, y),
        (5, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        va="center",
        color=colour,
        fontsize=SMALL,
    )


def _figure(dot: Dot, unit: str) -> str:
    return f"{written(dot.value, unit)} {dot.remark}".rstrip()


def _beside(block: Block) -> float:
    """Return what the figures beside a column need, in inches."""
    return max(text_width(_figure(dot, block.unit), SMALL) for dot in block.dots) + 0.1


_BEFORE: dict[str, Any] = {
    "marker": "o",
    "color": FAINT,
    "markerfacecolor": "none",
    "markersize": 4.5,
    "linestyle": "",
}
_TARGET: dict[str, Any] = {
    "color": TEXT,
    "markerfacecolor": "none",
    "markeredgewidth": 0.9,
    "linestyle": "",
    "markersize": 6,
    "clip_on": False,
}


_MEANINGS = {
    (_MET, "o"): "target met",
    (_MISSED, "D"): "target missed",
    (_UNAIMED, "o"): "without a target",
}


def _look(dot: Dot) -> tuple[str, str]:
    if dot.is_met is None:
        return _UNAIMED, "o"
    return (_MET, "o") if dot.is_met else (_MISSED, "D")


def _dot_style(colour: str, form: str) -> dict[str, Any]:
    return {"color": colour, "marker": form, "markersize": 5, "linestyle": ""}


def _aim(dot: Dot) -> str:
    """Point to the side that is wanted."""
    return ">" if dot.more_is_better else "<"


def _draw_key(figure: Figure, dots: list[Dot]) -> None:
    """Say what the marks mean that are in the plot."""
    looks = {_look(dot) for dot in dots}
    shown = [
        (Line2D([], [], **_dot_style(colour, form)), said)
        for (colour, form), said in _MEANINGS.items()
        if (colour, form) in looks
    ]
    if any(dot.low < dot.high for dot in dots):
        shown.append((Line2D([], [], color=FAINT, linewidth=1.8), "95 % interval of the median"))
    for dot in {_aim(dot): dot for dot in dots if dot.target is not None}.values():
        said = f"target: at {'least' if dot.more_is_better else 'most'}"
        shown.append((Line2D([], [], marker=_aim(dot), **_TARGET), said))
    if any(dot.before is not None for dot in dots):
        shown.append((Line2D([], [], **_BEFORE), "on a small log"))
    figure.legend(
        [line for line, _ in shown],
        [said for _, said in shown],
        loc="upper left",
        bbox_to_anchor=(0, 1),
        ncols=len(shown),
        frameon=False,
        fontsize=SMALL,
        handlelength=1.6,
        columnspacing=1.6,
    )


class _Scale:
    """The horizontal axis that the columns of a block share."""

    def __init__(self, block: Block, wide: float) -> None:
        """Fit it to the figures of a block, on so many inches."""
        self._unit = block.unit
        self._wide = wide
        values = [scaled(each, block.unit) for dot in block.dots for each in _reach(dot)]
        if self._unit == "ratio":
            values.append(1.0)
        least, most = min(values), max(values)
        self._is_logarithmic = self._unit != "MiB" and 0 < _MARGIN * least < most
        if self._is_logarithmic:
            edge = (most / least) ** 0.06
            self.limits = (least / edge, most * edge)
        else:
            least = least if self._unit == "ratio" else min(0, least)
            edge = 0.06 * (most - least or 1)
            self.limits = (least - edge * (least != 0), most + edge)

    def apply(self, axes: Axes) -> None:
        """Set limits, ticks, and the line at which both are equal."""
        if self._is_logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(self._steps()))
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.set_xlim(*self.limits)
        behind = suffix(self._unit)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}{behind}"))
        axes.yaxis.set_major_locator(NullLocator())
        axes.tick_params(labelsize=SMALL - 0.5, bottom=False, pad=2)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        if self._unit == "ratio":
            axes.axvline(1, color=FAINT, linewidth=1, zorder=1)

    def _steps(self) -> list[float]:
        """Return ticks of a logarithmic axis, as many of a decade as there is room for."""
        decades = math.log10(self.limits[1] / self.limits[0])
        room = self._wide / _TICK / decades
        bases = next((bases for bases in _BASES if len(bases) <= room), _BASES[-1])
        return [base * 10.0**power for power in range(-4, 6) for base in bases]


def _reach(dot: Dot) -> list[float]:
    return [
        each for each in (dot.value, dot.low, dot.high, dot.target, dot.before) if each is not None
    ]
