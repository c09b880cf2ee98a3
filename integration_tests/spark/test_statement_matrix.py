"""
Every statement on a table under care, beside the same statement on a plain Iceberg table.

A case runs three times: through plain Iceberg, through our catalog by itself, and inside a
transaction, where it is seen before COMMIT by its session alone and after COMMIT by everybody.
Rows, columns, partitioning, order, properties, branches and errors must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from integration_tests import sessions
from integration_tests.case_tables import KINDS, fill, state_of
from integration_tests.ddl_cases import CHANGES
from integration_tests.statement_cases import FAST, STATEMENTS, Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sampled

CASES = [*STATEMENTS, *CHANGES]


def _runs() -> list[object]:
    """Give every case on every kind of table; one kind of a fast case is fast, in turns."""
    fast = [case.name for case in CASES if case.name in FAST]
    runs = []
    for case in CASES:
        for number, kind in enumerate(KINDS):
            quick = case.name in FAST and fast.index(case.name) % len(KINDS) == number
            name = f"{case.name}, {kind[0]}, format {kind[1]}"
            marks = [] if quick else [pytest.mark.slow]
            runs.append(pytest.param(case, kind, marks=marks, id=name))
    return runs


def _try(session: SparkSession, table: str, case: Case) -> str:
    """Run the case's steps; give the condition, or the class, of the error that ended it."""
    try:
        for step in case.steps:
            if isinstance(step, str):
                session.sql(step.format(table)).collect()
            else:
                step(session, table)
    except PySparkException as e:
        return e.getCondition() or type(e).__name__
    except Py4JJavaError as e:
        return str(e.java_exception.getClass().getSimpleName())
    return ""


@pytest.mark.parametrize(("case", "kind"), _runs())
def test_like_plain_iceberg(
    case: Case,
    kind: tuple[str, int],
    table: str,
    outsider: SparkSession,
    new_session: Callable[[], SparkSession],
) -> None:
    """A statement does the same on a plain table, on one under care, and in a transaction."""
    plain, alone, inside = f"{table}_plain", f"{table}_alone", f"{table}_inside"
    fill(outsider, plain, kind)
    assert case.error == _try(outsider, plain, case)
    expected = state_of(outsider, plain, case)

    session = new_session()
    fill(session, alone, kind)
    assert case.error == _try(session, alone, case)
    assert expected == state_of(session, alone, case)
    assert expected == state_of(new_session(), alone, case)

    session, other = new_session(), new_session()
    fill(session, inside, kind)
    before = state_of(other, inside, Case("", []))
    session.sql("BEGIN")
    assert case.error == _try(session, inside, case)
    if case.error:
        assert "aborted" == session.sql("SHOW TRANSACTION").first().state
        session.sql("ROLLBACK")
        assert before == state_of(session, inside, Case("", []))
        return
    assert expected == state_of(session, inside, case)
    assert before == state_of(other, inside, Case("", []))
    session.sql("COMMIT")
    assert expected == state_of(session, inside, case)
    assert expected == state_of(new_session(), inside, case)
    reader = sessions.outsider(outsider)
    if session.catalog.tableExists(inside):
        assert expected == state_of(reader, inside, case)
