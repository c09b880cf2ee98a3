"""The model's statements as Spark SQL, and what runs them."""

from __future__ import annotations

import pytest

from txns._verify import spark_statements, workloads
from txns._verify.model import Condition, Row, Step, Where, where

BOTH = Where((Condition("day", "=", 1), Condition("id", "=", 5)))
MERGE = (
    "MERGE INTO t AS t USING (SELECT * FROM VALUES {} AS brought (id, day, amount)) AS s"
    " ON t.id = s.id AND {} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
STATEMENTS = {
    "append": (
        Step("append", "lists", rows=(Row(7, 1, None), Row(8, 1, 2))),
        "INSERT INTO t VALUES (7L, 1L, CAST(NULL AS BIGINT)), (8L, 1L, 2L)",
    ),
    "delete": (Step("delete", "events", BOTH), "DELETE FROM t WHERE day = 1 and id = 5"),
    "update": (
        Step("update", "events", where("day", "=", 1)),
        "UPDATE t SET amount = (amount + 1) % 6 WHERE day = 1",
    ),
    "an account": (
        Step("overwrite", "there", BOTH, (Row(5, 1, 70),)),
        "UPDATE t SET amount = 70L WHERE day = 1 and id = 5",
    ),
    "a register": (
        Step("overwrite", "registers", BOTH, (Row(5, 1, 70),)),
        MERGE.format("(5L, 1L, 70L)", "t.day IN (1) AND t.id IN (5)"),
    ),
    "upsert": (
        Step("upsert", "marked_registers", rows=(Row(5, 1, 70), Row(6, 2, 71))),
        MERGE.format("(5L, 1L, 70L), (6L, 2L, 71L)", "t.day IN (1, 2) AND t.id IN (5, 6)"),
    ),
    "replace": (
        Step("replace", "events", rows=(Row(7, 1, 0),)),
        "INSERT OVERWRITE t VALUES (7L, 1L, 0L)",
    ),
}


@pytest.mark.parametrize(("step", "expected"), STATEMENTS.values(), ids=list(STATEMENTS))
def test_what_writes(step, expected):
    assert expected == spark_statements.write(step, "t")


def test_what_looks():
    step = Step("read", "events")
    assert "SELECT id, day, amount FROM t WHERE true" == spark_statements.query(step, "t")
    step = Step("count", "events", where("amount", "is"))
    assert "SELECT count(*) AS found FROM t WHERE amount is null" == spark_statements.count(
        step, "t"
    )


def test_accounts_are_all_there():
    """So an UPDATE of one says the same as to overwrite it."""
    opened = workloads.initial()
    for table in workloads.ACCOUNT_TABLES:
        assert [*workloads.ACCOUNTS] == [row.id for row in opened[table]]
