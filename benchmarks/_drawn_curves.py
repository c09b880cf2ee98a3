"""Draw curves over sizes: panels in rows of three, all axes logarithmic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from _paper import FAINT, GRID, SIZE, SMALL, WIDTH
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

if TYPE_CHECKING:
    from _curves import Curve, Curves, Panel
    from matplotlib.axes import Axes

_LOOKS = (
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "D"),
    ("#a0568a", "^"),
    ("#555555", "v"),
)
"""Of a panel's curves, in their order."""
_IN_A_ROW = 3
_THINNER = 0.35
_FEW = 1000
"""Each decade has three ticks where the largest is less than so many times the smallest."""

# In inches.
_KEY = 0.35
_HEIGHT, _TITLE, _TICKS, _OWN_KEY = 1.9, 0.3, 0.5, 0.72
_LEFT, _RIGHT = 0.72, 0.12


def draw_curves(plot: Curves) -> Figure:
    """Return the figure of a plot of curves."""
    below = _TICKS + _OWN_KEY * plot.has_own_keys
    each = _TITLE + _HEIGHT + below
    above = _KEY * (not plot.has_own_keys)
    rows = math.ceil(len(plot.panels) / _IN_A_ROW)
    across = min(len(plot.panels), _IN_A_ROW)
    full = rows * each + above
    figure = Figure(figsize=(WIDTH * across / _IN_A_ROW, full))
    wide = 1 / across
    for at, panel in enumerate(plot.panels):
        row, column = divmod(at, _IN_A_ROW)
        edge = _LEFT * _IN_A_ROW / WIDTH * wide
        axes = figure.add_axes(
            (
                column * wide + edge,
                1 - (above + row * each + _TITLE + _HEIGHT) / full,
                wide - edge - _RIGHT / WIDTH,
                _HEIGHT / full,
            )
        )
        same = [each for each in plot.panels if each.upwards == panel.upwards]
        if plot.has_own_keys:
            _draw_panel(axes, panel, panels=[panel], thinner=_THINNER)
        else:
            _draw_panel(axes, panel, panels=same, thinner=0)
        if plot.has_own_keys:
            _draw_own_key(axes)
            _draw_proportional(axes)
    if not plot.has_own_keys:
        lines, said = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            lines,
            said,
            loc="upper left",
            ncols=len(lines),
            frameon=False,
            fontsize=SIZE,
        )
    return figure


def _draw_panel(axes: Axes, panel: Panel, *, panels: list[Panel], thinner: float) -> None:
    """
    Draw the curves; the axis upwards reaches as far as some panels' values do.

    Each curve is thinner by so many points than the one before, which is seen below it.
    """
    for at, curve in enumerate(panel.curves):
        _draw_curve(axes, curve, at, extra=thinner * (len(panel.curves) - 1 - at))
    axes.set_title(panel.title, fontsize=SIZE, loc="left", weight="bold")
    axes.set_xlabel(panel.across, fontsize=SMALL, labelpad=2)
    axes.set_ylabel(panel.upwards, fontsize=SMALL, labelpad=2)
    axes.tick_params(labelsize=SMALL - 0.5, bottom=False, left=False, pad=2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.6)
    _scale_across(axes, panel.curves)
    curves = [curve for each in panels for curve in each.curves]
    _scale_upwards(axes, [value for curve in curves for _, value in curve.points])


def _draw_curve(axes: Axes, curve: Curve, at: int, *, extra: float) -> None:
    colour, form = _LOOKS[at % len(_LOOKS)]
    axes.plot(
        [max(size, 1) for size, _ in curve.points],
        [value for _, value in curve.points],
        color=colour,
        marker=form,
        markersize=4.3 + 2 * extra,
        linewidth=1.4 + extra,
        linestyle="--" if curve.is_met is False else "-",
        label=f"{curve.label}: {curve.said}" if curve.said else curve.label,
    )


def _scale_across(axes: Axes, curves: tuple[Curve, ...]) -> None:
    """Put a tick at each size; 0 stands where 1 would."""
    sizes = sorted({size for curve in curves for size, _ in curve.points})
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([max(size, 1) for size in sizes]))
    axes.xaxis.set_minor_locator(NullLocator())
    names = {max(size, 1): f"{size:,g}" for size in sizes}
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: names.get(round(at), "")))


def _scale_upwards(axes: Axes, values: list[float]) -> None:
    """Take a logarithmic scale, which below 1 is linear if there is nothing somewhere."""
    least, most = min(values), max(values)
    if least > 0:
        axes.set_yscale("log")
        axes.set_ylim(least / 2, most * 2)
    else:
        axes.set_yscale("symlog", linthresh=1, linscale=0.5)
        axes.set_ylim(-0.1, max(most, 1) * 2)
    bases = (1, 2, 5) if most < _FEW * max(least, 1) else (1,)
    steps = [base * 10.0**power for power in range(-3, 9) for base in bases]
    shown = steps if least > 0 else [0, *(step for step in steps if step >= 1)]
    axes.yaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,g}"))


def _draw_proportional(axes: Axes) -> None:
    """Draw how a line through the lower corner rises whose exponent is 1."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    start = max(bottom, 1) if axes.get_yscale() == "symlog" else bottom
    end = min(right, left * top / start)
    across = [left, end]
    axes.plot(across, [start * at / left for at in across], ":", color=FAINT, linewidth=1, zorder=1)
    axes.set(xlim=(left, right), ylim=(bottom, top))


def _draw_own_key(axes: Axes) -> None:
    axes.legend(
        title="exponent, and target (dotted: 1; dashed: missed)",
        loc="upper left",
        bbox_to_anchor=(0, -0.2),
        frameon=False,
        fontsize=SMALL - 0.5,
        title_fontsize=SMALL - 0.5,
        labelspacing=0.25,
        borderpad=0,
        alignment="left",
    )
