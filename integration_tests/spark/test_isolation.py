"""What transactions may rely on at each isolation level, and what they may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.background import Background
from integration_tests.checks import affected, count, one, refused, rows
from txns_spark.errors import TransactionConflict, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from txns_spark.errors import TransactionError

pytestmark = pytest.mark.sampled

SERIALIZABLE = ["SERIALIZABLE", "STRICT SERIALIZABLE"]
EVERY_LEVEL = ["SNAPSHOT", *SERIALIZABLE]
WEAKER_NAMES = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ"]


def _begin(level: str, *in_sessions: SparkSession) -> None:
    for session in in_sessions:
        session.sql(f"BEGIN ISOLATION LEVEL {level}")


def _total(session: SparkSession, a: str, b: str) -> int:
    query = f"SELECT (SELECT sum(v) FROM {a}) + (SELECT sum(v) FROM {b})"
    return int(one(session, query)[0])


def _assert_names(error: TransactionError, table: str, other_txn_id: str) -> None:
    """The error says which table, whom it clashed with, and from when on it would not."""
    assert isinstance(error, TransactionConflict)
    assert table.removeprefix("lake.") == error.table
    assert other_txn_id == error.other_txn_id
    assert error.txn_id not in {None, other_txn_id}
    assert error.least_ts is not None


# ------------------------------------------------------------ lost update


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_lost_update_is_refused(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """Of two transactions that read a counter and write it back, the second to commit loses."""
    counter, _ = two_tables
    _begin(level, spark, other)
    for session in (spark, other):
        value = one(session, f"SELECT v FROM {counter} WHERE id = 1")["v"]
        session.sql(f"UPDATE {counter} SET v = {value + 1} WHERE id = 1")
    first = one(other, "COMMIT")
    with refused("40001") as refusal:
        spark.sql("COMMIT")
    _assert_names(refusal.error, counter, first.txn_id)
    assert [(1, 1), (2, 0)] == rows(spark, f"SELECT * FROM {counter}")


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_lost_update_over_several_statements_is_refused(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """
    A commit between two statements is found, though each statement by itself would pass.

    1. T1 updates row 1.
    2. T2 updates row 2 and commits.
    3. T1 updates row 2 from the value that it sees, which is the old one.
    """
    counter, _ = two_tables
    _begin(level, spark)
    spark.sql(f"UPDATE {counter} SET v = v + 1 WHERE id = 1")
    other.sql(f"UPDATE {counter} SET v = v + 10 WHERE id = 2")
    assert 1 == affected(spark, f"UPDATE {counter} SET v = v + 100 WHERE id = 2")
    with refused("40001"):
        spark.sql("COMMIT")
    assert [(1, 0), (2, 10)] == rows(spark, f"SELECT * FROM {counter}")


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_delete_and_append_of_the_same_rows_are_refused(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """A reload (DELETE and INSERT) does not overwrite what somebody else has appended since."""
    target, _ = two_tables
    _begin(level, spark)
    spark.sql(f"DELETE FROM {target}")
    spark.sql(f"INSERT INTO {target} VALUES (9, 9)")
    other.sql(f"INSERT INTO {target} VALUES (3, 0)")
    with refused("40001"):
        spark.sql("COMMIT")
    assert [(1, 0), (2, 0), (3, 0)] == rows(spark, f"SELECT * FROM {target}")


# ------------------------------------------------------------ write skew


@pytest.mark.parametrize("level", SERIALIZABLE)
def test_write_skew_over_two_tables_is_refused(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """Each reads both tables and writes another one of them: the second to commit loses."""
    a, b = two_tables
    _begin(level, spark, other)
    assert 0 == _total(spark, a, b) == _total(other, a, b)
    spark.sql(f"INSERT INTO {a} VALUES (3, -100)")
    other.sql(f"INSERT INTO {b} VALUES (3, -100)")
    first = one(spark, "COMMIT")
    with refused("40001") as refusal:
        other.sql("COMMIT")
    _assert_names(refusal.error, a, first.txn_id)
    assert -100 == _total(spark, a, b)


@pytest.mark.parametrize("level", SERIALIZABLE)
def test_write_skew_over_rows_is_refused(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """Two doctors on call, each of whom leaves because the other one stays: one may."""
    on_call, _ = two_tables
    _begin(level, spark, other)
    for session, doctor in ((spark, 1), (other, 2)):
        assert 2 == one(session, f"SELECT count(*) FROM {on_call} WHERE v = 0")[0]
        session.sql(f"UPDATE {on_call} SET v = 1 WHERE id = {doctor}")
    spark.sql("COMMIT")
    with refused("40001"):
        other.sql("COMMIT")
    assert [(1, 1), (2, 0)] == rows(spark, f"SELECT * FROM {on_call}")


@pytest.mark.parametrize("level", ["SNAPSHOT", *WEAKER_NAMES])
def test_write_skew_is_allowed_at_snapshot(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """At SNAPSHOT, which the weaker levels run as, what was only read is not validated."""
    a, b = two_tables
    _begin(level, spark, other)
    assert 0 == _total(spark, a, b) == _total(other, a, b)
    spark.sql(f"INSERT INTO {a} VALUES (3, -100)")
    other.sql(f"INSERT INTO {b} VALUES (3, -100)")
    assert "committed" == one(spark, "COMMIT").state
    assert "committed" == one(other, "COMMIT").state
    assert -200 == _total(spark, a, b)


def test_a_transaction_can_have_its_reads_validated_late(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """
    SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, after it has read at SNAPSHOT.

    1. A transaction at SNAPSHOT reads one table, raises its level, and writes the other.
    2. What it read before is written by somebody else: its COMMIT is refused.
    3. Other modes are still refused, and so is a weaker level.
    """
    a, b = two_tables
    _begin("SNAPSHOT", spark)
    assert 0 == _total(spark, a, b)
    for mode in ("READ ONLY", "ISOLATION LEVEL SNAPSHOT"):
        with refused("25001"):
            spark.sql(f"SET TRANSACTION {mode}")
    spark.sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    spark.sql(f"INSERT INTO {a} VALUES (3, -100)")
    other.sql(f"INSERT INTO {b} VALUES (3, -100)")
    with refused("40001"):
        spark.sql("COMMIT")


def test_reads_through_data_frames_are_validated(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """What is read by the DataFrame API belongs to the transaction as well."""
    a, b = two_tables
    spark.sql("BEGIN")
    amount = spark.table(a).filter("id = 1").first()
    assert amount is not None
    spark.sql(f"INSERT INTO {b} VALUES (3, {amount.v})")
    other.sql(f"UPDATE {a} SET v = 7 WHERE id = 1")
    with refused("40001"):
        spark.sql("COMMIT")
    assert 2 == count(spark, b)


def test_read_of_an_empty_table_is_validated(
    spark: SparkSession, other: SparkSession, table: str
) -> None:
    """That a table had no rows is something that was read."""
    source, target = f"{table}_source", f"{table}_target"
    for name in (source, target):
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {target} SELECT count(*) FROM {source}")
    other.sql(f"INSERT INTO {source} VALUES (1)")
    with refused("40001"):
        spark.sql("COMMIT")
    assert 0 == count(spark, target)


# ------------------------------------------------------------ read-only anomaly


@pytest.mark.parametrize("level", SERIALIZABLE)
def test_read_only_anomaly_is_refused(
    new_session: Callable[[], SparkSession], two_tables: tuple[str, str], level: str
) -> None:
    """
    A report that saw a booking and no closing stays true: the closing is refused.

    1. T1 sums the bookings.
    2. T2 books and commits.
    3. T3 reads both tables: the booking, and no closing.
    4. T1 writes the closing, without that booking.
    """
    bookings, closings = two_tables
    closer, booker, reporter = new_session(), new_session(), new_session()
    _begin(level, closer)
    assert 0 == one(closer, f"SELECT sum(v) FROM {bookings}")[0]
    booker.sql("BEGIN")
    booker.sql(f"INSERT INTO {bookings} VALUES (3, 30)")
    booker.sql("COMMIT")
    reporter.sql(f"BEGIN READ ONLY, ISOLATION LEVEL {level}")
    assert 3 == count(reporter, bookings)
    assert 2 == count(reporter, closings)
    assert "committed" == one(reporter, "COMMIT").state
    closer.sql(f"INSERT INTO {closings} VALUES (3, 0)")
    with refused("40001"):
        closer.sql("COMMIT")
    assert 2 == count(closer, closings)


def test_read_only_anomaly_is_allowed_at_snapshot(
    new_session: Callable[[], SparkSession], two_tables: tuple[str, str]
) -> None:
    """At SNAPSHOT the closing commits: that is what the level gives up."""
    bookings, closings = two_tables
    closer, booker = new_session(), new_session()
    _begin("SNAPSHOT", closer)
    assert 0 == one(closer, f"SELECT sum(v) FROM {bookings}")[0]
    booker.sql(f"INSERT INTO {bookings} VALUES (3, 30)")
    closer.sql(f"INSERT INTO {closings} VALUES (3, 0)")
    assert "committed" == one(closer, "COMMIT").state


# ------------------------------------------------------------ what never conflicts


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_two_appends_to_one_table_both_commit(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str], level: str
) -> None:
    """INSERT VALUES reads nothing, so two of them on one table do not clash."""
    target, _ = two_tables
    _begin(level, spark, other)
    spark.sql(f"INSERT INTO {target} VALUES (3, 3)")
    other.sql(f"INSERT INTO {target} VALUES (4, 4)")
    assert "committed" == one(spark, "COMMIT").state
    assert "committed" == one(other, "COMMIT").state
    assert [(1, 0), (2, 0), (3, 3), (4, 4)] == rows(spark, f"SELECT * FROM {target}")


def test_an_append_commits_beside_an_update(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """An append that read nothing is put after whatever came first."""
    target, _ = two_tables
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {target} VALUES (3, 3)")
    other.sql(f"UPDATE {target} SET v = 1")
    assert "committed" == one(spark, "COMMIT").state
    assert [(1, 1), (2, 1), (3, 3)] == rows(spark, f"SELECT * FROM {target}")


def test_appends_of_many_threads_all_commit(
    new_session: Callable[[], SparkSession], table: str
) -> None:
    """Three writers append to two tables at the same time, without a single conflict."""
    a, b = f"{table}_a", f"{table}_b"
    setup = new_session()
    for name in (a, b):
        setup.sql(f"CREATE TABLE {name} (writer INT, number INT) USING iceberg")

    def append(session: SparkSession, writer: int, number: int) -> None:
        session.sql("BEGIN")
        session.sql(f"INSERT INTO {a} VALUES ({writer}, {number})")
        session.sql(f"INSERT INTO {b} VALUES ({writer}, {number})")
        session.sql("COMMIT")

    one_, two, three = new_session(), new_session(), new_session()
    with (
        Background(lambda number: append(one_, 1, number), turns=8),
        Background(lambda number: append(two, 2, number), turns=8),
        Background(lambda number: append(three, 3, number), turns=8),
    ):
        pass
    expected = [(writer, number) for writer in (1, 2, 3) for number in range(8)]
    assert expected == rows(setup, f"SELECT * FROM {a}")
    assert expected == rows(setup, f"SELECT * FROM {b}")


@pytest.mark.parametrize("level", EVERY_LEVEL)
@pytest.mark.parametrize("mode", ["READ ONLY", "READ WRITE"])
def test_transactions_that_only_read_never_conflict(
    spark: SparkSession,
    other: SparkSession,
    two_tables: tuple[str, str],
    level: str,
    mode: str,
) -> None:
    """Whatever has changed of what it read, a transaction that wrote nothing commits."""
    a, b = two_tables
    spark.sql(f"BEGIN {mode}, ISOLATION LEVEL {level}")
    assert 0 == _total(spark, a, b)
    other.sql(f"UPDATE {a} SET v = 5")
    other.sql(f"DELETE FROM {b}")
    assert 0 == _total(spark, a, b)
    committed = one(spark, "COMMIT")
    assert "committed" == committed.state
    assert committed.read_ts == committed.commit_ts
    assert [] == committed.tables


# ------------------------------------------------------------ names and retries


def test_two_creators_of_one_name(spark: SparkSession, other: SparkSession, table: str) -> None:
    """A name that was found free and is taken at COMMIT is a conflict."""
    for session in (spark, other):
        session.sql("BEGIN")
        session.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg")
    other.sql("COMMIT")
    with refused("40001") as refusal:
        spark.sql("COMMIT")
    assert table.removeprefix("lake.") == refusal.error.table


def test_compaction_does_not_disturb_a_reader_that_writes(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Rewriting the files of a table that was read changes no rows, so it does not clash."""
    source, target = two_tables
    spark.sql(f"INSERT INTO {source} VALUES (3, 0)")
    spark.sql("BEGIN")
    spark.sql(f"INSERT INTO {target} SELECT * FROM {source}")
    compacted = one(
        other,
        f"CALL lake.system.rewrite_data_files(table => '{source}', "
        "options => map('rewrite-all', 'true'))",
    )
    assert compacted.rewritten_data_files_count > 1
    assert "committed" == one(spark, "COMMIT").state
    assert 5 == count(spark, target)


@pytest.mark.slow
def test_a_counter_with_retries_loses_no_increment(
    new_session: Callable[[], SparkSession], table: str
) -> None:
    """Two sessions add up in two tables, each running again after 40001: nothing is lost."""
    a, b = f"{table}_a", f"{table}_b"
    setup = new_session()
    for name in (a, b):
        setup.sql(f"CREATE TABLE {name} (n BIGINT) USING iceberg")
        setup.sql(f"INSERT INTO {name} VALUES (0)")
    conflicts = []

    def increment(session: SparkSession) -> None:
        while True:
            try:
                with translated():
                    session.sql("BEGIN")
                    session.sql(f"UPDATE {a} SET n = n + 1")
                    session.sql(f"UPDATE {b} SET n = n + 1")
                    session.sql("COMMIT")
            except TransactionConflict as conflict:
                conflicts.append(conflict)
                session.sql("ROLLBACK")
            else:
                return

    left, right = new_session(), new_session()
    with (
        Background(lambda _: increment(left), turns=5),
        Background(lambda _: increment(right), turns=5),
    ):
        pass
    print(f"10 increments, {len(conflicts)} conflicts")
    assert [(10,)] == rows(setup, f"SELECT n FROM {a}")
    assert [(10,)] == rows(setup, f"SELECT n FROM {b}")


def test_strict_serializable_sees_what_has_committed_before(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A transaction that begins after another's COMMIT has returned sees it."""
    a, _ = two_tables
    for value in range(1, 4):
        committed = one(other, f"UPDATE {a} SET v = {value}")
        assert 2 == committed.num_affected_rows
        spark.sql("BEGIN")
        assert {value} == {row[1] for row in rows(spark, f"SELECT * FROM {a}")}
        spark.sql("COMMIT")
