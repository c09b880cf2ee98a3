"""
Write plots as SVG: the same plot gives the same file, with one version of matplotlib.

Text stays text, on white, so that dark pages show it, too. The file carries the plot's digest.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import matplotlib as mpl
from _drawn_curves import draw_curves
from _drawn_dots import draw_dots
from _paper import STYLE
from _plots import Dots, Plot, digest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def svg(plot: Plot) -> str:
    """Return a plot as the text of an SVG file, without a date."""
    about = {"Title": plot.alt, "Identifier": digest(plot), "Date": None, "Creator": None}
    drawn = io.StringIO()
    with mpl.rc_context():
        mpl.rcdefaults()  # whatever a user has set
        mpl.rcParams.update(STYLE)
        figure(plot).savefig(drawn, format="svg", facecolor="white", metadata=about)
    return _smaller(drawn.getvalue())


def figure(plot: Plot) -> Figure:
    """Return a plot as matplotlib draws it, in STYLE."""
    return draw_dots(plot) if isinstance(plot, Dots) else draw_curves(plot)


def _smaller(text: str) -> str:
    """Take half of the bytes away: say the font once, and places in hundredths of a point."""
    [family, *_] = re.findall(r" font-family: [^;]*;", text)
    text = text.replace(family, "").replace("*{", f"text{{{family.strip()}}} *{{", 1)
    text = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", text)
    text = re.sub(r"^ +", "", text, flags=re.MULTILINE)
    return re.sub(r'(?<= [dxy]=")[^"]*', _places, text)


def _places(found: re.Match[str]) -> str:
    words = found.group().split()
    return " ".join(f"{float(word):.2f}" if "." in word else word for word in words)
