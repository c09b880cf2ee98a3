"""
dbt-spark's own functional tests, with the profile swapped.

They come out of the source distribution of the dbt-spark that is installed. Three things of them
are changed: the target, which is ours; formats that a transactional catalog does not have (delta,
parquet), which become iceberg; and that a column without a comment has NULL for it, because Spark
describes tables and views of catalogs with an empty one. What dbt-spark skips by profile is run.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from integration_tests.compliance.source_suites import unpacked

# Nothing of our own above its folder, whose `tests` hides ours.
_ALONE = ("-c", "/dev/null", "--rootdir", ".", "--confcutdir", ".")
OPTIONS = ("-p", "dbt_spark", *_ALONE, "--timeout=600")
_NO_COMMENT = ("assert result[2] is None", "assert not result[2]")
_SUITE = "tests/functional/adapter/"
_FORMAT = re.compile(r"""(file_format["']?\s*[=:]\s*["']|using )(?:delta|parquet)\b""")

_NEWER_DBT = "dbt Core 1.11 has no option --empty for seeds"
_DELTA_REFUSES = "expects that columns are not dropped, as in Delta; Iceberg drops them"
_TEXT_AS_DATE = (
    "inserts text into a date, which Spark refuses on Iceberg; test_incremental.TestUniqueKey*"
)
_WIRE_TYPES = "names of types as Databricks' drivers have them; test_constraints.TestColumnsOf*"
_COLUMN_TYPES = "test__constraints_{}_column_data_types"
_DELTA_MESSAGES = "messages of Delta; test_constraints.TestNotNullOf*"
_OWN_STATEMENTS = "the text of dbt-spark's statement; test_constraints.TestStatementsOf*"
_NO_USERS = "GRANT needs a catalog with users, which the embedded one has not"
_NO_PYTHON = "Python models are not offered"

EXCLUDED = {
    "TestSparkEmptySeedFlag": _NEWER_DBT,
    "TestDeltaOnSchemaChange.test_run_incremental_sync_all_columns": _DELTA_REFUSES,
    "TestUniqueKeySpark": _TEXT_AS_DATE,
    "TestBadStrategies": "expects that merge is refused without Delta; Iceberg has it",
    **{
        f"TestSpark{kind}ConstraintsColumnsEqual{driver}.{_COLUMN_TYPES.format(which)}": (
            _WIRE_TYPES
        )
        for kind in ("Table", "View", "Incremental")
        for driver in ("Pyodbc", "DatabricksHTTP")
        for which in ("wrong", "correct")
    },
    "TestSparkTableConstraintsDdlEnforcement": _OWN_STATEMENTS,
    "TestSparkIncrementalConstraintsDdlEnforcement": _OWN_STATEMENTS,
    "TestSparkModelConstraintsRuntimeEnforcement": _OWN_STATEMENTS,
    "TestSparkConstraintQuotedColumn": f"{_OWN_STATEMENTS}; TestQuotedColumn",
    "TestSparkTableConstraintsRollback": _DELTA_MESSAGES,
    "TestSparkIncrementalConstraintsRollback": _DELTA_MESSAGES,
    "TestModelGrantsSpark": _NO_USERS,
    "TestIncrementalGrantsSpark": _NO_USERS,
    "TestSeedGrantsSpark": _NO_USERS,
    "TestSnapshotGrantsSpark": _NO_USERS,
    "TestInvalidGrantsSpark": _NO_USERS,
    "TestPythonModelSpark": _NO_PYTHON,
    "TestPySpark": _NO_PYTHON,
    "TestPythonIncrementalModelSpark": _NO_PYTHON,
    "TestChangingSchemaSpark": _NO_PYTHON,
    "TestCurrentTimestamp.test_current_timestamp_type": (
        "expects a time without its zone, which TIMESTAMP has; test_utils.TestCurrentTimestamp"
    ),
    "TestQueryTimeout": "query_timeout is dbt-spark's way to poll a Thrift server; not offered",
}
"""Class, or class and test -> why it cannot pass here."""


def folder() -> Path:
    """Return the folder of the suite, prepared to run."""
    root = unpacked("dbt-spark", _SUITE, "tests/functional/__init__.py", "tests/__init__.py")
    for path in (root / _SUITE).rglob("*.py"):
        text = path.read_text("utf-8").replace(*_NO_COMMENT)
        path.write_text(_FORMAT.sub(r"\1iceberg", text), "utf-8")
    # The target of our own tests, in the place of dbt-spark's profiles.
    shutil.copyfile(Path(__file__).with_name("conftest.py"), root / "conftest.py")
    return root


def pytest_configure(config: pytest.Config) -> None:
    """Know dbt-spark's mark, which means nothing here."""
    config.addinivalue_line("markers", "skip_profile(profile): not on a profile of dbt-spark")


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Skip what cannot pass, with the reason."""
    unused = set(EXCLUDED)
    for item in items:
        for name in (item.cls.__name__, f"{item.cls.__name__}.{item.originalname}"):
            if name in EXCLUDED:
                unused.discard(name)
                item.add_marker(pytest.mark.skip(reason=EXCLUDED[name]))
    if unused:
        raise pytest.UsageError(f"excluded, but not in the suite: {sorted(unused)}")
