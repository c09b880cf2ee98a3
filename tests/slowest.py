"""
Say at the end of a test run which ten files took longest.

For pytest a plugin, also where xdist runs the tests in several processes; for JUnit a program that
reads Surefire's reports: `python -m tests.slowest spark_extension/java`.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest

SHOWN = 10
_FILES_MIN = 2
_seconds: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the tests of a file take, with their fixtures."""
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest files, of a run of several."""
    if len(_seconds) >= _FILES_MIN:
        terminalreporter.section("slowest files")
        for line in table(_seconds):
            terminalreporter.write_line(line)


def table(seconds: Mapping[str, float]) -> Iterable[str]:
    """Give a line for each of the slowest files, then one of the sum: seconds, share, name."""
    whole = sum(seconds.values())
    for name, took in Counter(seconds).most_common(SHOWN):
        yield f"{took:7.1f} s {took / max(whole, 1e-9):4.0%}  {name}"
    yield f"{whole:7.1f} s       all {len(seconds)} files"


def of_surefire(folder: Path) -> dict[str, float]:
    """Return the seconds of each test class below a folder, as its last run reports them."""
    return {
        suite.get("name", ""): float(suite.get("time", "0").replace(",", ""))
        for path in folder.glob("**/surefire-reports/TEST-*.xml")
        for suite in [ET.parse(path).getroot()]
    }


if __name__ == "__main__":
    print("slowest classes")
    print("\n".join(table(of_surefire(Path(sys.argv[1])))))
