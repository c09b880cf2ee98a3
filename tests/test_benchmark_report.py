"""docs/benchmarks.md says what the committed results say."""

from __future__ import annotations

import runpy
from pathlib import Path

REPORT = Path(__file__).resolve().parents[1] / "benchmarks" / "_report.py"


def test_the_page_is_made_of_the_committed_results() -> None:
    report = runpy.run_path(str(REPORT))
    page = report["PAGE"].read_text()
    assert page == report["page"](), "run `python benchmarks/_report.py`, and commit the page"
