"""What a connection knows of a statement before it is sent."""

from __future__ import annotations

import pytest

from txns_spark.dbapi import _connection


@pytest.mark.parametrize(
    ("sql", "is_own"),
    [
        ("/* a /* b */ */ COMMIT", True),
        ("-- a\rROLLBACK TO SAVEPOINT `x`", True),
        ("begin;", True),
        ("BEGIN /* only that */", True),
        ("BEGIN -- a\n WORK", True),
        ("BEGIN ID 'x'", True),
        ("BEGIN COMMENT 'x'", True),
        ("BEGIN ATOMIC SELECT 1; END", True),
        ("SET TRANSACTION READ ONLY", True),
        ("SHOW TRANSACTION", True),
        ("BEGIN INSERT INTO t VALUES (1); END", False),
        ("BEGIN /* a */ COMMENT ON TABLE t IS 'x'; END", False),
        ("BEGIN\nEND", False),
        ("SAVEPOINT a", False),
        ("SET x = 1", False),
        ("COMMITTED", False),
    ],
)
def test_a_statement_that_begins_no_transaction_before_it_is_known(
    sql: str, *, is_own: bool
) -> None:
    """A script is none, and SAVEPOINT needs a transaction."""
    assert is_own == _connection._is_own(sql)
