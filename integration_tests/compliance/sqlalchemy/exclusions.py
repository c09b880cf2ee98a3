"""
Tests of the suites that SQLite passes and the dialect does not, each with its reason.

The tests that a missing requirement leaves out have theirs in txns_requirements.

Imports: txns_requirements. Used by: run.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING

from integration_tests.compliance.sqlalchemy import txns_requirements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from integration_tests.compliance.sqlalchemy.suites import Outcome

NO_RETURNING = "Spark has no RETURNING"
NO_LENGTH = "Iceberg keeps no length of a text"
NO_EMPTY_INSERT = "an INSERT names its columns: Spark has no DEFAULT VALUES"
# By suite: a pattern of a test's name ([ and ] stand for themselves), and why it fails.
EXCLUSIONS: dict[str, dict[str, str]] = {
    "dialect": {
        "*Test::*returning*": NO_RETURNING,
        "ReturningTest::*": NO_RETURNING,
        "RowCountTest::test_*_rowcount_return_defaults*": NO_RETURNING,
        "InsertBehaviorTest::test_empty_insert*": NO_EMPTY_INSERT,
        "ComponentReflectionTestExtra::test_string_length_reflection[*]": NO_LENGTH,
        "PostCompileParamsTest::test_execute_tuple_expanding_plus_literal_*": (
            "it wants a list of VALUES, where Spark needs a query: the rows are the same"
        ),
        "Computed*Test::*": txns_requirements.NO_COMPUTED,
    },
    "transactions": {},
    "alembic": {},
}

REASONS = {reason for found in EXCLUSIONS.values() for reason in found.values()} | set(
    txns_requirements.REASONS
)


def reason(suite: str, test: str) -> str | None:
    """Return why a test is left out; None for one that has to pass."""
    for pattern, why in EXCLUSIONS[suite].items():
        if _matches(test, pattern):
            return why
    return None


def stale(suite: str, found: Mapping[str, Outcome]) -> list[str]:
    """Return the patterns whose tests have all passed."""
    return [
        pattern
        for pattern in EXCLUSIONS[suite]
        if (kinds := {found[test].kind for test in found if _matches(test, pattern)})
        and kinds == {"passed"}
    ]


def _matches(test: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))
