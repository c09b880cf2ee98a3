"""docs/benchmarks.md and its plots say what the committed results say."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
AGAIN = "run `python benchmarks/_report.py`, and commit the page and its plots"
SHOWN = re.compile(r"^!\[[^]\n]+\]\(benchmarks/(\w+)\.svg\)$", re.MULTILINE)
IDENTIFIER = "{http://purl.org/dc/elements/1.1/}identifier"
TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.fixture
def module(monkeypatch):
    """Import a module of the benchmarks, which are programs: each finds the others beside it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


@pytest.fixture
def plots(module):
    return module("_plots")


@pytest.fixture
def growth(module):
    """Give figures of two things that grow, in three sizes, as growth.py makes them."""
    measure = module("_measure")
    sizes = (0, 4, 16)
    made = [
        measure.exponent(
            f"{what}: {part}, {quantity}",
            sizes,
            [[scale * max(size, 1) ** power for size in sizes] for scale in (9, 10, 11)],
            against="",
            target=0.1,
        )
        for what, power in (("tables", 0.0), ("entries in the head", 1.0))
        for part in ("BEGIN", "COMMIT")
        for quantity in ("bytes read", "time")
    ]
    return json.loads(json.dumps([measure.as_json(metric) for metric in made]))


def _metric(name, value, *, target=None, unit="ratio", better="lower"):
    return {
        "metric": name,
        "value": value,
        "unit": unit,
        "target": target,
        "better": better,
        "against": "plain Iceberg",
        "low": value * 0.9,
        "high": value * 1.1,
        "turns": 9,
    }


def test_the_page_is_made_of_the_committed_results(module):
    report = module("_report")
    assert report.page() == report.PAGE.read_text(), AGAIN


def test_each_plot_shows_the_figures_of_the_committed_results(module, plots):
    report = module("_report")
    wanted = {plot.name: plots.digest(plot) for plot in report.all_plots()}
    drawn = {
        path.stem: ET.parse(path).find(f".//{IDENTIFIER}").text for path in report.PLOTS.iterdir()
    }
    assert wanted == drawn, AGAIN


def test_the_page_shows_all_plots_that_there_are(module):
    report = module("_report")
    shown = SHOWN.findall(report.PAGE.read_text())
    assert sorted(path.name for path in report.PLOTS.iterdir()) == sorted(
        f"{name}.svg" for name in shown
    ), AGAIN


@pytest.mark.parametrize("part", ["value", "low", "high", "target", "better", "metric", "against"])
def test_a_digest_is_of_all_that_a_plot_shows_of_a_figure(plots, part):
    before = _metric("small: MERGE", 1.0, target=1.1)
    other = {"better": "higher", "metric": "small: UPDATE", "against": "another"}.get(part, 0.5)
    [one], [two] = (plots.plots("x", [each]) for each in (before, {**before, part: other}))
    assert plots.digest(one) != plots.digest(two)


def test_settings_with_the_same_rows_are_columns_and_the_rest_is_a_list(plots):
    names = ("small: MERGE", "large: MERGE", "small: UPDATE", "large: UPDATE", "COMMIT")
    [plot] = plots.plots("x", [_metric(name, 1.0) for name in names])
    table, rest = plot.blocks
    assert (("small", "large"), (("MERGE", ""), ("UPDATE", ""))) == (table.columns, table.rows)
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == [(dot.row, dot.column) for dot in table.dots]
    assert (("",), (("COMMIT", ""),)) == (rest.columns, rest.rows)


@pytest.mark.parametrize(
    ("target", "better", "met"),
    [(1.1, "lower", True), (0.9, "lower", False), (0.9, "higher", True), (None, "lower", None)],
)
def test_a_dot_says_whether_its_target_is_met(plots, target, better, met):
    [plot] = plots.plots("x", [_metric("a", 1.0, target=target, better=better)])
    [dot] = plot.blocks[0].dots
    assert met is dot.is_met


def test_times_and_counts_by_themselves_have_no_plot(plots):
    assert [] == plots.plots("x", [_metric("a", 1.0, unit=unit) for unit in ("ms", "1/s", "count")])


def test_what_grows_has_a_plot_of_each_quantity_with_its_medians(plots, growth):
    read, time = plots.plots("growth", growth)
    assert ("growth_bytes_read", "growth_time") == (read.name, time.name)
    assert ["tables", "entries in the head"] == [panel.title for panel in time.panels]
    flat, steep = (panel.curves[0] for panel in time.panels)
    assert ((0, 0.01), (4, 0.01), (16, 0.01)) == flat.points
    assert ((0, 0.01), (4, 0.04), (16, 0.16)) == steep.points
    assert ("0.000, ≤ 0.1", "1.000, ≤ 0.1: missed") == (flat.said, steep.said)


@pytest.mark.parametrize("count", [1, 3])
def test_writers_are_curves_of_each_way(plots, count):
    writers = (8, 1, 4)[:count]
    metrics = [
        _metric(f"{each} writers, same tables: atomic{suffix}", 10.0 * each, unit=unit)
        for each in writers
        for suffix, unit in (("", "1/s"), (", p99", "ms"))
    ]
    [plot] = plots.plots("small_transactions", metrics)
    assert ["transactions a second", "p99, ms"] == [panel.upwards for panel in plot.panels]
    for panel in plot.panels:
        [curve] = panel.curves
        assert [(each, 10.0 * each) for each in sorted(writers)] == list(curve.points)


def test_the_same_figures_are_the_same_file(module, plots, growth):
    svg = module("_drawing").svg
    dots = [_metric("a: b", 1.0, target=2), _metric("c: b", 0.001)]
    for plot in (*plots.plots("growth", growth[:1]), *plots.plots("x", dots)):
        assert svg(plot) == svg(plot)


def test_a_plot_says_its_labels_as_text_and_no_date(module, plots):
    [plot] = plots.plots("x", [_metric("a name that is told", 1.0, target=1.1)])
    text = module("_drawing").svg(plot)
    said = [each.text for each in ET.fromstring(text).iter(TEXT)]
    assert {"a name that is told", "1.00", "Ratio to plain Iceberg (less is better)"} <= set(said)
    assert "date" not in text
