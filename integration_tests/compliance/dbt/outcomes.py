"""
A plugin of pytest that counts what came of a suite, and which of dbt's classes it inherits.

It also keeps what tests have counted themselves: `record_property("counted", "torn=3 of 20")`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_SUITE = "dbt.tests.adapter."
_BASES = "bases"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of this plugin."""
    parser.addoption("--outcomes", required=True, help="where to write what came of it, as JSON")


class _Outcomes:
    def __init__(self, config: Any) -> None:
        self._path = Path(config.getoption("--outcomes"))
        # Where several processes run the tests, each collects them, and the first writes.
        self._answers: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._bases: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._counted: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for tested in {item.cls for item in session.items if getattr(item, "cls", None)}:
            inherited = [base for base in tested.__mro__ if base.__module__.startswith(_SUITE)]
            # What that class is made of is dbt's own affair.
            self._bases |= {f"{base.__module__}.{base.__qualname__}" for base in inherited[:1]}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that failed to set up or to clean up has failed, and has one report of its own.
        if report.failed:
            self._counts["failed"] += 1
        elif report.skipped:
            self._counts["skipped"] += 1
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.wasxfail
            self._reasons[reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self._counts["passed"] += 1
        if report.when == "call":
            self._counted += [text for key, text in report.user_properties if key == "counted"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._bases |= set(getattr(node, "workeroutput", {}).get(_BASES, ()))

    def pytest_sessionfinish(self) -> None:
        if self._answers is not None:
            self._answers[_BASES] = sorted(self._bases)
            return
        found = {
            "counts": self._counts,
            "bases": sorted(self._bases),
            "reasons": self._reasons,
            "counted": self._counted,
        }
        self._path.write_text(json.dumps(found), "utf-8")


def pytest_configure(config: Any) -> None:
    """Register what needs the option."""
    config.pluginmanager.register(_Outcomes(config), "txns-outcomes")
