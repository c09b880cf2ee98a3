"""What a connection knows of a statement before it is sent."""

from __future__ import annotations

import pytest

from txns_spark.dbapi import _statements


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
    assert is_own == _statements.is_own(sql)


@pytest.mark.parametrize(
    ("sql", "may_end"),
    [
        ("COMMIT", True),
        ("/* BEGIN */ end", True),
        ("BEGIN ATOMIC SELECT 1; END", True),
        ("BEGIN INSERT INTO t VALUES (1); COMMIT; END", True),
        ("EXECUTE IMMEDIATE 'COMMIT'", True),
        ("-- x\nexecute immediate x", True),
        ("INSERT INTO t VALUES ('${x}')", True),
        ("ROLLBACK", False),
        ("BEGIN", False),
        ("INSERT INTO t VALUES ('begin')", False),
        ("UPDATE t SET v = 'it''s to EXECUTE' WHERE k = \"BEGIN\"", False),
        ("INSERT INTO `begin` VALUES (1)", False),
        ("INSERT INTO t VALUES (1) -- begin", False),
        (f"INSERT INTO t VALUES ('{'x' * 2000}', 'begin') -- begin", False),
        ("SELECT begin FROM t", False),
    ],
)
def test_a_statement_that_may_end_a_transaction_is_known(sql: str, *, may_end: bool) -> None:
    """What is quoted is no statement: the server would be asked, and a certain loss be doubted."""
    assert may_end == _statements.may_end(sql)


@pytest.mark.parametrize(
    ("sql", "ends"),
    [
        ("/* a */ COMMIT", True),
        ("end;", True),
        ("BEGIN ATOMIC SELECT 1; END", True),
        ("BEGIN", False),
        ("ROLLBACK", False),
        ("'COMMIT'", False),
        ("BEGIN SELECT 'COMMIT'; END", False),
    ],
)
def test_a_statement_that_commits_is_known(sql: str, *, ends: bool) -> None:
    assert ends == _statements.ends(sql)
