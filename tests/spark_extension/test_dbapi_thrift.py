"""What a Thrift session knows of a statement before it is sent."""

from __future__ import annotations

import pytest

from txns_spark.dbapi import _statements


@pytest.mark.parametrize(
    ("sql", "is_query"),
    [
        ("/* a */ (SELECT 1)", True),
        ("WITH a AS (SELECT 1 AS id) SELECT * FROM a", True),
        ("WITH a AS (SELECT 1 AS id) INSERT INTO t SELECT * FROM a", False),
        ("WITH a AS (SELECT 1 AS id) INSERT INTO t (id) SELECT * FROM a", False),
        ("WITH a AS (SELECT 1 AS id) MERGE INTO t USING (SELECT * FROM a) s ON 1 = 1", False),
        ("INSERT INTO t SELECT 1", False),
    ],
)
def test_a_change_is_told_from_a_query(sql: str, *, is_query: bool) -> None:
    """By what follows the last of its WITH: the row of a change is its row count."""
    assert is_query == _statements.is_query(sql)
