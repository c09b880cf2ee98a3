"""Ask a session, and expect errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from txns_spark.errors import TransactionError, translation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row, SparkSession


def rows(session: SparkSession, query: str) -> list[tuple[Any, ...]]:
    """Return a query's rows as tuples, sorted."""
    return sorted((tuple(row) for row in session.sql(query).collect()), key=repr)


def one(session: SparkSession, statement: str) -> Row:
    """Return the one row of a statement."""
    found = session.sql(statement).collect()
    assert len(found) == 1, found
    return found[0]


def count(session: SparkSession, table: str) -> int:
    """Return how many rows a table has."""
    return int(one(session, f"SELECT count(*) FROM {table}")[0])


def affected(session: SparkSession, statement: str) -> int:
    """Run a statement that changes rows and return how many it says it did."""
    return int(one(session, statement)["num_affected_rows"])


def state(session: SparkSession) -> str:
    """Return the state of the session's transaction."""
    return str(one(session, "SHOW TRANSACTION")["state"])


class Refusal:
    """
    What a block was refused with.

    Attributes:
        error: The error as txns_spark translates it; set when the block has ended.
    """

    error: TransactionError


@contextmanager
def refused(sqlstate: str) -> Iterator[Refusal]:
    """Expect an error of the transaction with this SQLSTATE, by Spark's class and by ours."""
    refusal = Refusal()
    with pytest.raises(PySparkException) as caught:
        yield refusal
    found = translation(caught.value)
    assert found is not None, caught.value
    assert sqlstate == found.sqlstate, found.message
    refusal.error = found
