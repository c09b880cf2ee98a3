"""What all plots of the report are drawn on: sizes, colours and the style of matplotlib."""

from __future__ import annotations

from typing import Any

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

WIDTH = 10.0
"""Of a plot, in inches."""
TEXT, FAINT, GRID = "#222222", "#6b6b6b", "#e3e3e3"
SIZE, SMALL = 9.0, 8.0
"""Of text, in points."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "docs/benchmarks",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": SIZE,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": TEXT,
    "text.color": TEXT,
    "text.parse_math": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}
"""The font is the one that matplotlib brings, by which it is measured, and wide ones after it."""


def text_width(text: str, size: float = SIZE) -> float:
    """Return how wide a line of text is, in inches."""
    if not text:
        return 0.0
    path = TextPath((0, 0), text, size=size, prop=FontProperties(family="DejaVu Sans"))
    return float(path.get_extents().width) / 72
