"""Whether a transaction is open is what the server says, never what a statement looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.ways import DRIVERS, through
from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    Open = Callable[..., dbapi.Connection]

pytestmark = pytest.mark.sampled


@pytest.fixture
def rows(open_connection: Open, table: str) -> Callable[[], int]:
    """Make the table with one row; count what others see in it."""
    other = open_connection(autocommit=True)
    cursor = other.cursor()
    cursor.execute(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    cursor.execute(f"INSERT INTO {table} VALUES (1)")
    return lambda: int(cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])


@pytest.mark.parametrize(
    "end",
    ["/* x */ COMMIT", "-- x\rCOMMIT", "commit work;", "BEGIN EXECUTE IMMEDIATE 'COMMIT'; END"],
)
@through("open_connection", "session", DRIVERS)
def test_a_commit_is_one_whatever_stands_around_it(
    open_connection: Open, table: str, rows: Callable[[], int], end: str
) -> None:
    """
    What comes after it is a transaction of its own.

    1. A transaction writes, and ends with a statement.
    2. The next statement begins another one, which is rolled back.
    """
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute(f"INSERT INTO {table} VALUES (2)")
    cursor.execute(end)
    assert not connection.in_transaction
    cursor.execute(f"DELETE FROM {table}")
    assert connection.in_transaction
    connection.rollback()
    assert 2 == rows()


@pytest.mark.parametrize(
    "begin",
    ["/* x */ BEGIN", "/* /* */ */ START TRANSACTION", "BEGIN EXECUTE IMMEDIATE 'BEGIN'; END"],
)
@through("open_connection", "session", DRIVERS)
def test_a_begin_is_one_whatever_stands_around_it(
    open_connection: Open, table: str, rows: Callable[[], int], begin: str
) -> None:
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    cursor.execute(begin)
    assert connection.in_transaction
    cursor.execute(f"INSERT INTO {table} VALUES (2)")
    assert 1 == rows()
    connection.commit()
    assert 2 == rows()


def test_an_atomic_block_leaves_no_transaction_open(
    open_connection: Open, table: str, rows: Callable[[], int]
) -> None:
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute(f"/* x */ BEGIN ATOMIC INSERT INTO {table} VALUES (2); END")
    assert not connection.in_transaction
    assert 2 == rows()
    cursor.execute(f"DELETE FROM {table}")
    connection.rollback()
    assert 2 == rows()


def test_a_script_is_part_of_the_transaction(
    open_connection: Open, table: str, rows: Callable[[], int]
) -> None:
    """It is no BEGIN, though it begins with the word: what it writes can be rolled back."""
    connection = open_connection()
    connection.cursor().execute(f"BEGIN INSERT INTO {table} VALUES (2); END")
    assert connection.in_transaction
    connection.rollback()
    assert 1 == rows()


def test_errors_end_a_transaction_where_the_server_says_so(
    open_connection: Open, table: str, rows: Callable[[], int]
) -> None:
    """
    A failed query leaves it open, a refused statement inside it too, a lost COMMIT does not.

    1. A transaction survives errors and goes on.
    2. It loses a race, in a COMMIT that is sent as a statement.
    """
    connection, other = open_connection(isolation_level="snapshot"), open_connection()
    cursor = connection.cursor()
    cursor.execute(f"DELETE FROM {table}")
    for wrong in ("SELECT 1/0", "SELEC", "BEGIN", f"SELECT * FROM {table}_nowhere"):
        with pytest.raises(dbapi.Error):
            cursor.execute(wrong).fetchall()
        assert connection.in_transaction
    other.cursor().execute(f"DELETE FROM {table}")
    other.commit()
    with pytest.raises(dbapi.TransactionConflict):
        cursor.execute("/* x */ COMMIT")
    assert not connection.in_transaction
    connection.commit()
    assert 0 == rows()


def test_a_streaming_cursor_ends_transactions_too(
    open_connection: Open, table: str, rows: Callable[[], int]
) -> None:
    connection = open_connection()
    cursor = connection.cursor(streaming=True)
    cursor.execute(f"INSERT INTO {table} VALUES (2)")
    assert 1 == cursor.rowcount
    cursor.execute("COMMIT")
    assert not connection.in_transaction
    assert 2 == rows()


def test_an_error_that_quotes_a_loss_is_none(open_connection: Open, table: str) -> None:
    """A user's text stands in the errors of its query, on the driver and from a job."""
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (v STRING) USING iceberg")
    text = "UNAVAILABLE: StatusCode.UNAVAILABLE stopped SparkContext, Invalid SessionHandle"
    cursor.execute(f"INSERT INTO {table} VALUES (?)", [text])
    connection.commit()
    for sql in (
        f"SELECT * FROM `{text}`",
        f"SELECT raise_error('{text}')",
        f"SELECT CAST(v AS INT) FROM {table}",
    ):
        with pytest.raises(dbapi.DatabaseError) as caught:
            cursor.execute(sql)
        assert not isinstance(caught.value, dbapi.ConnectionLost), sql
        connection.rollback()
    assert [(text,)] == cursor.execute(f"SELECT v FROM {table}").fetchall()


def test_closing_drops_what_the_connection_has_cached_and_no_more(
    root_session: SparkSession, spark: SparkSession, table: str
) -> None:
    """All sessions of a process share the cache, and a session that is given its views."""
    entries = root_session._jsparkSession.sharedState().cacheManager().numCachedEntries
    spark.sql(f"CREATE TABLE {table} (id INT) USING iceberg")
    before = entries()
    spark.sql(f"CACHE TABLE {table}")
    spark.range(3).createOrReplaceTempView("mine")
    spark.sql("CACHE TABLE mine")
    connection = dbapi.connect(spark, schema="db", autocommit=True)
    cursor = connection.cursor()
    cursor.execute("CACHE TABLE w AS SELECT 2 AS x")
    cursor.execute(f"/* x */ CACHE LAZY TABLE lake.`db`.{table.removeprefix('lake.db.')}")
    assert before + 4 == entries()
    connection.close()
    assert before + 2 == entries()
    assert spark.catalog.isCached(table)
    assert spark.catalog.isCached("mine")
    spark.catalog.uncacheTable(table)
    spark.catalog.uncacheTable("mine")
    assert before == entries()
