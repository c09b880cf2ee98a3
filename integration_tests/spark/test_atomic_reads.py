"""Readers see all of a transaction or nothing, whatever way they read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as fn

from integration_tests import sessions
from integration_tests.background import Background
from integration_tests.checks import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

READS_OF_A_KIND = 16
READS_OF_A_KIND_SLOW = 200
PLAIN_READS_OF_A_KIND = 20


class Reader:
    """
    Read both tables, one way after the other; every row pairs a value of a with one of b.

    Attributes:
        reads: How many reads each way has done.
        torn: How many of them had two different values.
        seen: All values that were read.
    """

    def __init__(self, session: SparkSession, a: str, b: str, ways: tuple[str, ...]) -> None:
        self._session, self._a, self._b = session, a, b
        self._ways = ways
        self.reads = dict.fromkeys(ways, 0)
        self.torn = dict.fromkeys(ways, 0)
        self.seen: set[int] = set()

    def turn(self, number: int) -> None:
        """Do one read."""
        way = self._ways[number % len(self._ways)]
        values = {value for pair in getattr(self, f"_{way}")() for value in pair}
        self.reads[way] += 1
        self.torn[way] += len(values) != 1
        self.seen |= values

    def _join(self) -> list[tuple[int, int]]:
        return rows(
            self._session, f"SELECT a.v, b.v FROM {self._a} a JOIN {self._b} b ON a.id = b.id"
        )

    def _data_frames(self) -> list[tuple[int, int]]:
        a, b = self._session.table(self._a), self._session.table(self._b)
        joined = a.join(b, a["id"] == b["id"]).select(a["v"].alias("a"), b["v"].alias("b"))
        return [(row.a, row.b) for row in joined.collect()]

    def _subquery(self) -> list[tuple[int, int]]:
        return rows(self._session, f"SELECT v, (SELECT max(v) FROM {self._b}) FROM {self._a}")

    def _view(self) -> list[tuple[int, int]]:
        return rows(self._session, f"SELECT * FROM {self._a}_and_b")


def _make_tables(session: SparkSession, a: str, b: str) -> None:
    for name in (a, b):
        session.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT) USING iceberg")
        session.sql(f"INSERT INTO {name} VALUES (1, 0), (2, 0), (3, 0)")
    session.sql(
        f"CREATE VIEW {a}_and_b AS SELECT a.v AS a, b.v AS b FROM {a} a JOIN {b} b ON a.id = b.id"
    )


def _change(session: SparkSession, name: str, value: int) -> None:
    """Give all rows a new value: in one statement, or in two with an empty table in between."""
    if value % 2:
        session.sql(f"UPDATE {name} SET v = {value}")
    else:
        session.sql(f"DELETE FROM {name}")
        session.sql(f"INSERT INTO {name} SELECT id, {value} FROM range(1, 4)")


def _report(record: Callable[[str, object], None], name: str, readers: list[Reader]) -> None:
    for reader in readers:
        for way, reads in reader.reads.items():
            text = f"{reader.torn[way]} torn of {reads} reads"
            record(f"{name}, {way}", text)
            print(f"{name}, {way}: {text}")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "reads", [READS_OF_A_KIND, pytest.param(READS_OF_A_KIND_SLOW, marks=pytest.mark.slow)]
)
def test_no_read_of_two_tables_is_torn(
    new_session: Callable[[], SparkSession],
    table: str,
    record_property: Callable[..., None],
    reads: int,
) -> None:
    """Many reads of each kind beside a writer that changes both tables: none is torn."""
    a, b = f"{table}_a", f"{table}_b"
    writer = new_session()
    _make_tables(writer, a, b)
    readers = [
        Reader(new_session(), a, b, ("join", "view")),
        Reader(new_session(), a, b, ("data_frames", "subquery")),
    ]

    def commit(number: int) -> None:
        writer.sql("BEGIN")
        _change(writer, a, number + 1)
        _change(writer, b, number + 1)
        writer.sql("COMMIT")

    turns = 2 * reads
    with (
        Background(commit) as writing,
        Background(readers[0].turn, turns=turns),
        Background(readers[1].turn, turns=turns),
    ):
        pass

    _report(record_property, "transactions", readers)
    print(f"transactions committed meanwhile: {writing.turns_done}")
    record_property("transactions committed", writing.turns_done)
    for reader in readers:
        assert dict.fromkeys(reader.reads, reads) == reader.reads
        assert dict.fromkeys(reader.reads, 0) == reader.torn
    # The reads were not all of one state: the test would see a tear.
    assert len(readers[0].seen | readers[1].seen) > 5


@pytest.mark.slow
def test_plain_iceberg_is_torn_between_the_tables(
    new_session: Callable[[], SparkSession],
    tmp_path: Path,
    record_property: Callable[..., None],
) -> None:
    """The same reads tear with plain Iceberg, whose writer commits table by table."""
    a, b = "plain.db.a", "plain.db.b"
    plain: list[SparkSession] = []
    for _ in range(2):
        session = new_session()
        sessions.add_catalog(session, "plain", tmp_path, sessions.PLAIN)
        plain.append(session)
    plain[0].sql("CREATE NAMESPACE plain.db")
    _make_tables(plain[0], a, b)
    reader = Reader(plain[1], a, b, ("join", "data_frames", "subquery", "view"))

    with Background(reader.turn) as reading:
        for value in range(1, PLAIN_READS_OF_A_KIND // 2 + 1):
            _change(plain[0], a, value)
            reading.wait_for_turns(4)
            _change(plain[0], b, value)
            reading.wait_for_turns(4)

    _report(record_property, "plain Iceberg", [reader])
    for way, reads in reader.reads.items():
        assert reads >= PLAIN_READS_OF_A_KIND, way
        assert reader.torn[way] > 0, way


def test_data_frames_of_two_moments_are_read_at_one(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Tables that were loaded before and after a commit are joined as of one read_ts."""
    a, b = two_tables
    before = spark.table(a)
    other.sql("BEGIN")
    other.sql(f"UPDATE {a} SET v = 1")
    other.sql(f"UPDATE {b} SET v = 1")
    other.sql("COMMIT")
    after = spark.table(b)
    joined = before.join(after, before["id"] == after["id"])
    values = {
        tuple(row) for row in joined.select(before["v"].alias("a"), after["v"].alias("b")).collect()
    }
    assert {(1, 1)} == values


def test_cached_table_is_joined_with_a_fresh_one(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A query over a cached DataFrame and a table is of one state, or reads the cache anew."""
    a, b = two_tables
    cached = spark.table(a).filter("id > 0").cache()
    assert 2 == cached.count()
    other.sql("BEGIN")
    other.sql(f"UPDATE {a} SET v = 1")
    other.sql(f"UPDATE {b} SET v = 1")
    other.sql("COMMIT")
    spark.sql("BEGIN READ ONLY")
    a_now, b_now = spark.table(a).filter("id > 0"), spark.table(b)
    joined = a_now.join(b_now, "id").select(a_now["v"].alias("a"), b_now["v"].alias("b"))
    assert {(1, 1)} == {tuple(row) for row in joined.collect()}
    spark.sql("COMMIT")


def test_a_transaction_reads_at_one_moment(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """From the first statement to the last, a transaction sees the state at its BEGIN."""
    a, b = two_tables
    spark.sql("BEGIN READ ONLY")
    first = rows(spark, f"SELECT * FROM {a}")
    other.sql("BEGIN")
    other.sql(f"UPDATE {a} SET v = 1")
    other.sql(f"UPDATE {b} SET v = 1")
    other.sql("COMMIT")
    assert first == rows(spark, f"SELECT * FROM {a}")
    assert first == rows(spark, f"SELECT * FROM {b}")
    assert [(0, 4)] == [tuple(r) for r in spark.table(b).agg(fn.sum("v"), fn.lit(4)).collect()]
    spark.sql("COMMIT")
    assert [(1, 1), (2, 1)] == rows(spark, f"SELECT * FROM {b}")


def test_two_writers_and_a_reader_of_the_sum(
    new_session: Callable[[], SparkSession], table: str
) -> None:
    """Moving an amount from one table to the other in parallel never changes the sum."""
    a, b = f"{table}_a", f"{table}_b"
    setup = new_session()
    for name in (a, b):
        setup.sql(f"CREATE TABLE {name} (amount BIGINT) USING iceberg")
        setup.sql(f"INSERT INTO {name} VALUES (100)")
    reading = threading.Event()
    sums: set[int] = set()

    def move(session: SparkSession, amount: int) -> None:
        session.sql("BEGIN ISOLATION LEVEL SNAPSHOT")
        session.sql(f"INSERT INTO {a} VALUES ({-amount})")
        session.sql(f"INSERT INTO {b} VALUES ({amount})")
        session.sql("COMMIT")

    def read(session: SparkSession) -> None:
        query = f"SELECT (SELECT sum(amount) FROM {a}) + (SELECT sum(amount) FROM {b})"
        sums.add(rows(session, query)[0][0])
        reading.set()

    one, two, reader = new_session(), new_session(), new_session()
    with (
        Background(lambda _: read(reader)),
        Background(lambda number: move(one, number), turns=10),
        Background(lambda number: move(two, number), turns=10),
    ):
        reading.wait()
    assert {200} == sums
    assert [(2 * 45,)] == rows(setup, f"SELECT sum(amount) - 100 FROM {b}")
