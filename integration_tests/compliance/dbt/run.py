"""
Run dbt's own adapter suite and our tests of its transactions: `make compliance-dbt`.

With arguments, those of pytest: `run.py -k basic`. The last line has the counts.

Imports: pytest. Used by: make.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


class Counts:
    """A plugin of pytest that counts tests by what came of them."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that failed to set up or to clean up has failed, and has one report of its own.
        if report.failed:
            self.of["failed"] += 1
        elif report.skipped:
            self.of["skipped"] += 1
        elif report.when == "call":
            self.of["passed"] += 1


def main() -> int:
    """Run the suite; 1 if a test failed."""
    counts = Counts()
    options = [f"--confcutdir={HERE}", "-p", "no:cacheprovider", "-q", "--show-capture=no"]
    # dbt's fixtures are of a style that pytest 10 drops; they are not ours to change.
    options += ["-W", "ignore::pytest.PytestRemovedIn10Warning"]
    status = pytest.main([str(HERE), *options, *sys.argv[1:]], plugins=[counts])
    print(" ".join(f"{kind}={counts.of[kind]}" for kind in ("passed", "failed", "skipped")))
    return int(status != pytest.ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())
