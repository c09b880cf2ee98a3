"""Programs run a transaction again that has lost a race: `txns_spark.run_transaction`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import txns_spark
from integration_tests import sessions
from integration_tests.checks import affected, count, one, rows, state
from integration_tests.refusing_proxy import RefusingProxy
from txns_spark import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from integration_tests.rest_server import Server


def test_a_lost_race_is_run_again(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """From its beginning: it sees what the winner wrote, and nothing of the lost attempt stays."""
    a, b = two_tables
    seen = []

    def move(session: SparkSession) -> int:
        found = one(session, f"SELECT sum(v) AS v FROM {a}").v
        seen.append(found)
        affected(session, f"INSERT INTO {b} VALUES (3, {found})")
        if len(seen) == 1:
            affected(other, f"UPDATE {a} SET v = 5 WHERE id = 1")
        affected(session, f"UPDATE {a} SET v = v + 1 WHERE id = 1")
        return int(found)

    assert 5 == txns_spark.run_transaction(spark, move)
    assert [0, 5] == seen
    assert [(1, 6), (2, 0)] == rows(other, f"SELECT * FROM {a}")
    assert [(3, 5)] == rows(other, f"SELECT * FROM {b} WHERE id = 3")
    assert "none" == state(spark)


@pytest.mark.parametrize(
    ("isolation", "attempts"),
    [(None, 2), ("serializable", 2), ("Strict-Serializable", 2), ("snapshot", 1)],
)
def test_at_a_level(
    spark: SparkSession,
    other: SparkSession,
    two_tables: tuple[str, str],
    isolation: str | None,
    attempts: int,
) -> None:
    """What was only read clashes above SNAPSHOT."""
    a, b = two_tables
    seen = []

    @txns_spark.transactional(isolation=isolation)
    def copy_count(session: SparkSession, table: str, *, key: int) -> None:
        """Count rows."""
        seen.append(count(session, table))
        if len(seen) == 1:
            affected(other, f"INSERT INTO {table} VALUES (3, 0)")
        affected(session, f"INSERT INTO {b} VALUES ({key}, {seen[-1]})")

    copy_count(spark, a, key=9)
    assert [2, 3][:attempts] == seen
    assert [(9, seen[-1])] == rows(other, f"SELECT * FROM {b} WHERE id = 9")
    assert ("copy_count", "Count rows.") == (copy_count.__name__, copy_count.__doc__)


def test_all_attempts_are_lost(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """The last conflict is raised, in our class; the session has no transaction any more."""
    a, b = two_tables
    attempts = []

    def lose(session: SparkSession) -> None:
        attempts.append(1)
        affected(session, f"UPDATE {a} SET v = v + 1")
        affected(session, f"INSERT INTO {b} VALUES (3, 3)")
        affected(other, f"UPDATE {a} SET v = 7")

    with pytest.raises(errors.TransactionConflict) as lost:
        txns_spark.run_transaction(spark, lose, max_attempts=2)
    assert ("40001", 2) == (lost.value.sqlstate, len(attempts))
    assert [(1, 7), (2, 7)] == rows(spark, f"SELECT * FROM {a}")
    assert 2 == count(other, b)
    assert "none" == state(spark)


def test_what_the_callback_raises_is_not_run_again(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    a, _ = two_tables
    attempts = []

    def fail(session: SparkSession) -> None:
        attempts.append(1)
        affected(session, f"DELETE FROM {a}")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        txns_spark.run_transaction(spark, fail)
    assert (1, 2) == (len(attempts), count(spark, a))
    assert "none" == state(spark)


@pytest.mark.parametrize("lands", [True, False])
def test_a_commit_that_the_catalog_has_refused(
    new_session: Callable[[], SparkSession], rest_server: Server, *, lands: bool
) -> None:
    """It has committed where its request has landed all the same, and is not done twice."""
    name = f"refused.{'landed' if lands else 'undone'}"
    attempts = []

    def insert(session: SparkSession) -> str:
        attempts.append(1)
        affected(session, f"INSERT INTO {name}.t VALUES (1)")
        return "inserted"

    with RefusingProxy(rest_server.uri) as proxy:
        session = new_session()
        session.conf.set("spark.sql.catalog.refused.type", "rest")
        session.conf.set("spark.sql.catalog.refused.uri", proxy.uri)
        session.conf.set("spark.sql.catalog.refused", sessions.TXNS)
        session.sql(f"CREATE NAMESPACE {name}")
        session.sql(f"CREATE TABLE {name}.t (id BIGINT) USING iceberg")
        proxy.refuse_next("commits", lands=lands)
        if lands:
            assert "inserted" == txns_spark.run_transaction(session, insert)
        else:
            with pytest.raises(errors.CommitStateUnknown):  # it may still land
                txns_spark.run_transaction(session, insert)
        assert "none" == state(session)
        assert ([1], int(lands)) == (attempts, count(session, f"{name}.t"))


def test_a_session_in_a_transaction_keeps_it(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    a, _ = two_tables
    begun = one(spark, "BEGIN")
    affected(spark, f"DELETE FROM {a}")
    with pytest.raises(errors.InvalidUsage):
        txns_spark.run_transaction(spark, lambda session: count(session, a))
    assert begun.txn_id == one(spark, "SHOW TRANSACTION").txn_id
    spark.sql("COMMIT")
    assert 0 == count(spark, a)


def test_what_would_run_after_the_commit(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """Its statements would each commit by itself, and none of them in the transaction."""
    a, _ = two_tables

    async def later(session: SparkSession) -> None:
        affected(session, f"DELETE FROM {a}")

    def one_by_one(session: SparkSession) -> Iterator[int]:
        affected(session, f"DELETE FROM {a}")
        yield 1

    def hidden(session: SparkSession) -> object:
        return later(session)

    def hidden_too(session: SparkSession) -> object:
        return one_by_one(session)

    for lazy in (later, one_by_one):
        with pytest.raises(errors.ConfigurationError, match=lazy.__name__):
            txns_spark.run_transaction(spark, lazy)
        with pytest.raises(errors.ConfigurationError, match=lazy.__name__):
            txns_spark.transactional()(lazy)
    with pytest.raises(errors.ConfigurationError, match="later"):
        txns_spark.run_transaction(spark, hidden)
    with pytest.raises(errors.ConfigurationError, match="one_by_one"):
        txns_spark.run_transaction(spark, hidden_too)
    assert 2 == count(spark, a)
    assert "none" == state(spark)


def test_a_method_is_a_callback(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """Decorated it gets its object in the session's place, and says so."""
    a, _ = two_tables

    class Shop:
        def sell(self, session: SparkSession) -> None:
            affected(session, f"DELETE FROM {a} WHERE id = 1")

        decorated = txns_spark.transactional()(sell)  # type: ignore[arg-type, var-annotated]

    with pytest.raises(errors.ConfigurationError, match=r"self\.method\) there; got=Shop"):
        Shop().decorated(spark)
    txns_spark.run_transaction(spark, Shop().sell)
    assert 1 == count(spark, a)


def test_a_rehearsal(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """The next COMMITs of the session that have written something lose, until none is left."""
    a, _ = two_tables
    spark.sql("SET `spark.sql.txns.rehearse-conflicts` = 3")
    attempts = []

    def delete(session: SparkSession) -> None:
        attempts.append(count(session, a))
        affected(session, f"DELETE FROM {a} WHERE id = 1")

    txns_spark.run_transaction(spark, lambda session: count(session, a))
    affected(spark, f"INSERT INTO {a} VALUES (3, 3)")
    with pytest.raises(errors.TransactionConflict, match=r"rehearsal, .* asks for 2 more") as lost:
        txns_spark.run_transaction(spark, delete, max_attempts=1)
    assert "40001" == lost.value.sqlstate
    txns_spark.run_transaction(spark, delete)
    assert [3] * 4 == attempts
    assert 2 == count(spark, a)
    spark.sql("SET `spark.sql.txns.rehearse-conflicts` = 1")
    spark.sql(f"BEGIN ATOMIC DELETE FROM {a}; END")
    assert 0 == count(spark, a)
    assert "0" == spark.conf.get("spark.sql.txns.rehearse-conflicts")


def test_a_rehearsal_of_no_number(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """The transaction stays: set it right, and COMMIT again."""
    a, _ = two_tables
    spark.sql("SET `spark.sql.txns.rehearse-conflicts` = often")
    spark.sql("BEGIN")
    affected(spark, f"DELETE FROM {a}")
    with pytest.raises(Exception, match="rehearse-conflicts must be a whole number"):
        spark.sql("COMMIT")
    spark.sql("SET `spark.sql.txns.rehearse-conflicts` = 0")
    spark.sql("COMMIT")
    assert 0 == count(spark, a)


@pytest.mark.parametrize("options", [{"isolation": "SNAPSHOT; DROP"}, {"max_attempts": 0}])
def test_options_that_are_none(spark: SparkSession, options: dict[str, object]) -> None:
    with pytest.raises(errors.ConfigurationError):
        txns_spark.run_transaction(spark, lambda _: None, **options)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidUsage, match="SERIALIZABLE"):
        txns_spark.run_transaction(spark, lambda _: None, isolation="chaos")


def test_what_the_callback_has_committed_is_not_run_again(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """
    Its rows would be there twice.

    1. A callback commits. 2. A transaction of its own loses a race, here or in another session.
    """
    a, b = two_tables
    attempts = []

    def twice(session: SparkSession, second: SparkSession) -> None:
        attempts.append(second)
        affected(session, f"INSERT INTO {a} VALUES (3, 3)")
        session.sql("COMMIT")
        second.sql("SET `spark.sql.txns.rehearse-conflicts` = 1")
        second.sql("BEGIN")
        affected(second, f"INSERT INTO {b} VALUES (3, 3)")
        second.sql("COMMIT")

    for second in (other, spark):
        with pytest.raises(errors.TransactionConflict, match="rehearsal") as raised:
            txns_spark.run_transaction(spark, lambda session, by=second: twice(session, by))
        assert "is not run again" in raised.value.__notes__[-1]
    assert [other, spark] == attempts
    assert (4, 2) == (count(spark, a), count(spark, b))
    assert "none" == state(spark)


@pytest.mark.parametrize("begin", ["BEGIN", "EXECUTE IMMEDIATE 'BEGIN'"])
def test_what_the_callback_has_committed_before_its_last_commit_loses(
    spark: SparkSession, two_tables: tuple[str, str], begin: str
) -> None:
    """
    Its first rows would be there twice.

    1. A callback commits, begins another transaction and writes. 2. Its COMMIT, which is
    run_transaction's, loses.
    """
    a, b = two_tables
    attempts = []

    def twice(session: SparkSession) -> None:
        attempts.append(session)
        affected(session, f"INSERT INTO {a} VALUES (3, 3)")
        session.sql("COMMIT")
        session.sql(begin)
        affected(session, f"INSERT INTO {b} VALUES (3, 3)")
        session.sql("SET `spark.sql.txns.rehearse-conflicts` = 1")

    with pytest.raises(errors.TransactionConflict, match="rehearsal") as raised:
        txns_spark.run_transaction(spark, twice)
    assert "is not run again" in raised.value.__notes__[-1]
    assert [spark] == attempts
    assert (3, 2) == (count(spark, a), count(spark, b))
    assert "none" == state(spark)
