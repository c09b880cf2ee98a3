"""
Tests of the suites that SQLite passes and the dialect does not, each with its reason.

The tests that a missing requirement leaves out have theirs in txns_requirements.
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
        "CompositeKeyReflectionTest::test_fk_repeated_source_cols_reported_by_inspector": (
            "2.0's creates a table by SQL of its own with keys, which Spark refuses"
        ),
        "Computed*Test::*": txns_requirements.NO_COMPUTED,
    },
    "transactions": {
        "NaturalPKRollbackTest::test_rollback_recover": txns_requirements.KEYS,
        "RollbackRecoverTest::test_pk_violation*": txns_requirements.KEYS,
        "SessionTransactionTest::test_failed_rollback_deactivates_transaction": (
            txns_requirements.KEYS
        ),
        "SessionTransactionTest::test_preserve_flush_error": txns_requirements.KEYS,
        "SessionTransactionTest::test_warning_on_using_inactive_session_*": txns_requirements.KEYS,
        "TransactionConnectionsTest::test_inactive_transaction": txns_requirements.KEYS,
        "TransactionTest::test_raise": txns_requirements.KEYS,
    },
    "alembic": {
        # The others of this class compare tables that have none yet.
        "AutogenerateComputedTest::test_remove_computed_column": txns_requirements.NO_COMPUTED,
        "AutogenerateComputedTest::test_c*[<lambda>1]": txns_requirements.NO_COMPUTED,
        "AutogenerateComputedTest::test_c*[<lambda>2]": txns_requirements.NO_COMPUTED,
        "AutogenerateComputedTest::test_c*[<lambda>3]": txns_requirements.NO_COMPUTED,
        "AutoincrementTest::test_alter_column_autoincrement_*pk*": (
            "Integer is BIGINT already, so BigInteger in its place is no change"
        ),
        "AlterColumnTest::test_*_server_default[*]": txns_requirements.NO_DEFAULTS,
        "BackendAlterColumnTest::test_*_server_default_int": txns_requirements.NO_DEFAULTS,
        "BackendAlterColumnTest::test_modify_nullable_to_non": (
            "Iceberg makes no column required that was not: it may have NULLs"
        ),
        "BackendAlterColumnTest::test_modify_type_int_str": "Iceberg's types only get wider",
    },
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
