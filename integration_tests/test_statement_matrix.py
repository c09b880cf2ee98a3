"""
Every statement on a table under care, beside the same statement on a plain Iceberg table.

A case runs three times: through plain Iceberg, through our catalog by itself, and inside a
transaction, where it is seen before COMMIT by its session alone and after COMMIT by everybody.
Rows, columns, partitioning, order, properties, branches and errors must be the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from integration_tests import sessions
from integration_tests.ddl_cases import CHANGES
from integration_tests.statement_cases import FAST, STATEMENTS, Case

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

KINDS = [
    ("copy-on-write", 2),
    ("merge-on-read", 3),
    ("copy-on-write", 3),
    ("merge-on-read", 2),
]


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


def _fill(session: SparkSession, table: str, kind: tuple[str, int]) -> None:
    mode, version = kind
    session.sql(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, v STRING, day INT NOT NULL) USING iceberg "
        f"PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '{version}', "
        f"'write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}', "
        f"'write.merge.mode' = '{mode}')"
    )
    session.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', 2)")


def _try(session: SparkSession, table: str, case: Case) -> str:
    """Run the case's steps; give the error that ended it, as a user knows it."""
    try:
        for step in case.steps:
            if isinstance(step, str):
                session.sql(step.format(table)).collect()
            else:
                step(session, table)
    except PySparkException as e:
        return e.getCondition() or type(e).__name__
    except Exception as e:  # noqa: BLE001 (py4j's and Python's errors count as well)
        return type(e).__name__
    return ""


def _state(session: SparkSession, table: str, case: Case) -> dict[str, object]:
    """What a user can see of a table."""
    found = sorted(map(str, session.sql(case.rows.format(table)).collect()))
    seen: dict[str, object] = {"rows": found}
    if session.catalog.tableExists(table):
        created = str(session.sql(f"SHOW CREATE TABLE {table}").first()[0])
        created = re.sub(r"\n *'(txns\.|history\.expire\.|current-snapshot-id)[^\n]*", "", created)
        if any("DROP TABLE" in str(step) for step in case.steps):
            # Created again it is the same physical table, whose format version never goes down.
            created = re.sub(r"\n *'format-version'[^\n]*", "", created)
        seen["create"] = re.sub(r"LOCATION '[^']*'", "", created).replace(table, "t")
        refs = session.sql(f"SELECT name, type FROM {table}.refs").collect()
        seen["refs"] = sorted(map(str, refs)) or ["Row(name='main', type='BRANCH')"]
        columns = session.sql(f"DESCRIBE TABLE {table}").collect()
        seen["columns"] = [str(row) for row in columns]
    return seen


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
    _fill(outsider, plain, kind)
    expected_error = _try(outsider, plain, case)
    expected = _state(outsider, plain, case)

    session = new_session()
    _fill(session, alone, kind)
    assert expected_error == _try(session, alone, case)
    assert expected == _state(session, alone, case)
    assert expected == _state(new_session(), alone, case)

    session, other = new_session(), new_session()
    _fill(session, inside, kind)
    before = _state(other, inside, Case("", []))
    session.sql("BEGIN")
    assert expected_error == _try(session, inside, case)
    if expected_error:
        assert "aborted" == session.sql("SHOW TRANSACTION").first().state
        session.sql("ROLLBACK")
        assert before == _state(session, inside, Case("", []))
        return
    assert expected == _state(session, inside, case)
    assert before == _state(other, inside, Case("", []))
    session.sql("COMMIT")
    assert expected == _state(session, inside, case)
    assert expected == _state(new_session(), inside, case)
    reader = sessions.outsider(outsider)
    if session.catalog.tableExists(inside):
        assert expected == _state(reader, inside, case)
