"""
Write docs/benchmarks.md: every committed result, with what was run and what was aimed at.

The text of each section is the benchmark's own docstring, its plots and its table are made of the
file in results/; the last section is what suites of tests came to, from results/suites.json. A test
holds the page and the plots, docs/benchmarks/*.svg, to them.

    python benchmarks/_report.py
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from _drawing import svg
from _measure import is_met
from _plots import Plot, plots

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
PLOTS = PAGE.with_suffix("")
_SUITES = HERE / "results" / "suites.json"

_INTRODUCTION = """\
# Benchmarks

`make bench` runs them all and writes this page; `make bench NAME=x` runs one of them. Machines
are shared and noisy, so what counts are ratios: both ways take turns in one run, each turn gives
one ratio, and the figure is the median of these with its 95 % interval. A time by itself is for
orientation. Where a figure misses its target, it says so. The plots are made by the same commands,
of the figures below them.
"""
_UNITS = {"ratio": "x", "share": "of it", "count": "", "exponent": ""}


def main() -> None:
    """Write the page and its plots."""
    PAGE.write_text(page())
    PLOTS.mkdir(exist_ok=True)
    for stale in PLOTS.glob("*.svg"):
        stale.unlink()
    for plot in all_plots():
        (PLOTS / f"{plot.name}.svg").write_text(svg(plot))
    print(f"written: {PAGE.relative_to(HERE.parent)}, and its plots")


def page() -> str:
    """Return the page: a section for each benchmark, in the order of their names, and suites."""
    return "\n".join([_INTRODUCTION, *(_section(result) for result in _results()), _suites()])


def all_plots() -> list[Plot]:
    """Return the plots of all committed results."""
    return [plot for result in _results() for plot in plots(result.stem, _metrics(result))]


def _results() -> list[Path]:
    return sorted(set((HERE / "results").glob("*.json")) - {_SUITES})


def _metrics(result: Path) -> list[dict[str, Any]]:
    return list(json.loads(result.read_text()))


def _suites() -> str:
    rows = [
        f"| {run['suite']} | `{run['command']}` | {run['passed']} | {run['failed']}"
        f" | {run['skipped']} | {run['seconds']} s | {run['commit'][:12]} | {run['date']} |"
        for run in json.loads(_SUITES.read_text())
    ]
    return "\n".join(
        [
            "## Suites",
            "",
            "What suites of tests came to when they were last run as a whole, and on which commit.",
            "",
            "| Suite | Command | Passed | Failed | Skipped | Time | Commit | Date |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _section(result: Path) -> str:
    program = HERE / f"{result.stem}.py"
    said = ast.get_docstring(ast.parse(program.read_text())) or ""
    summary, text, *_ = said.split("\n\n")
    metrics = _metrics(result)
    shown = [
        line
        for plot in plots(result.stem, metrics)
        for line in (f"![{plot.alt}]({PLOTS.name}/{plot.name}.svg)", "")
    ]
    return "\n".join(
        [
            f"## {result.stem}",
            "",
            summary,
            "",
            text,
            "",
            f"`make bench NAME={result.stem}`",
            "",
            *shown,
            "| What | Median | 95 % interval | Target | Against | Turns |",
            "|---|---|---|---|---|---|",
            *(_row(metric) for metric in metrics),
            "",
        ]
    )


def _row(metric: dict[str, Any]) -> str:
    turns = int(metric["turns"])
    cells = (
        metric["metric"],
        _figure(metric["value"], metric["unit"]),
        f"{metric['low']:g} to {metric['high']:g}" if turns > 1 else "",
        _target(metric),
        metric["against"],
        str(turns),
    )
    return f"| {' | '.join(cells)} |"


def _figure(value: float, unit: str) -> str:
    return f"{value:g} {_UNITS.get(unit, unit)}".rstrip()


def _target(metric: dict[str, Any]) -> str:
    target = metric["target"]
    if target is None:
        return ""
    met = is_met(metric["value"], target, metric["better"])
    sign = "≤" if metric["better"] == "lower" else "≥"
    return f"{sign} {target:g}: {'met' if met else '**missed**'}"


if __name__ == "__main__":
    main()
