"""What the suites need around them: SQLAlchemy's plugin, two schemas, Spark for small data."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pyspark.logger import PySparkLogger
from sqlalchemy.testing import provision
from sqlalchemy.testing.plugin import pytestplugin
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403  (the suite's plugin)

import txns_spark
from integration_tests import sessions
from sqlalchemy_txns import _ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

# A job with one task: no suite has rows for two.
_ONE_TASK = {
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
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
            _start_spark(folder).sql("CREATE NAMESPACE IF NOT EXISTS lake.main")
        engine = sa.create_engine(url.rsplit("/", 1)[0])
        with engine.connect() as connection:
            for name in ("main", "test_schema", "test_schema_2"):
                connection.exec_driver_sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{name}")
            connection.commit()
        engine.dispose()


def _start_spark(folder: Path) -> SparkSession:
    builder = sessions.builder()
    for key, value in _ONE_TASK.items():
        builder = builder.config(key, value)
    session = txns_spark.configure(builder, warehouse=str(folder)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


# The statements that have brought rows, since rows were deleted last.
_BROUGHT_ROWS: set[str] = set()


@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def _note_rows(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
    if statement.lstrip().startswith(("INSERT", "MERGE", "CREATE TABLE")):
        _BROUGHT_ROWS.add(statement)


@provision.delete_from_all_tables.for_db("txns")
def _delete_from_tables_with_rows(connection: Any, cfg: Any, metadata: sa.MetaData) -> None:
    """Empty a test's tables: a DELETE from each that has no rows would be half of its time."""
    del cfg
    inspector, quote = sa.inspect(connection), connection.dialect.identifier_preparer.quote
    for table in metadata.tables.values():
        has_rows = any(quote(table.name) in statement for statement in _BROUGHT_ROWS)
        if has_rows and inspector.has_table(table.name, table.schema):
            connection.execute(table.delete())
    _BROUGHT_ROWS.clear()


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
