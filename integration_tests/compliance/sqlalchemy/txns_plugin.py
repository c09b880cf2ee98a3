"""
What the suites need around them: SQLAlchemy's plugin, two schemas, Spark for small data.

Imports: sessions. Used by: suites, as a plugin of pytest.
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.logger import PySparkLogger
from sqlalchemy.testing.plugin import pytestplugin
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403  (the suite's plugin)

from integration_tests import sessions
from sqlalchemy_txns import _ddl

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

# Kind and reason by test, as `suites.Outcome`.
_OUTCOMES: dict[str, tuple[str, str]] = {}
# A test's class carries the database's name and version.
_DATABASE = re.compile(r"_(?:txns|sqlite)\+[a-z]+_[0-9_]+(?=::)")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Prepare before SQLAlchemy's own plugin connects."""
    _prepare(session)
    pytestplugin.pytest_sessionstart(session)


def _prepare(session: pytest.Session) -> None:
    """Start Spark, if the suite runs on it, and make the schemas that the suite expects."""
    # The suite makes errors of warnings, and has no place for this one.
    _ddl._Warned.done = True
    for url in session.config.getoption("dburi") or ():
        if not url.startswith("txns"):
            continue
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        if not url.startswith(("txns+connect", "txns+thrift")):
            folder = Path(os.environ["TXNS_SUITE_LAKE"])
            sessions.start(folder).sql("CREATE NAMESPACE IF NOT EXISTS lake.main")
        engine = sa.create_engine(url.rsplit("/", 1)[0])
        with engine.connect() as connection:
            for name in ("main", "test_schema", "test_schema_2"):
                connection.exec_driver_sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{name}")
            connection.commit()
        engine.dispose()


def pytest_runtest_logreport(report: Any) -> None:
    """Note how each test ended."""
    name = _DATABASE.sub("", report.nodeid.split("::", 1)[1])
    if report.outcome == "failed":
        _OUTCOMES[name] = ("failed", str(report.longrepr)[-1500:])
    elif report.outcome == "skipped":
        reason = str(report.longrepr[2] if report.longrepr else "")
        _OUTCOMES.setdefault(name, ("skipped", reason))
    elif report.when == "call":
        _OUTCOMES.setdefault(name, ("passed", ""))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down how the tests ended."""
    pytestplugin.pytest_sessionfinish(session)
    Path(os.environ["TXNS_SUITE_OUTCOMES"]).write_text(json.dumps(_OUTCOMES, indent=1), "utf-8")
