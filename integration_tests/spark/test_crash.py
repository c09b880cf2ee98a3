"""A driver that is killed at any moment loses nothing, doubles nothing and tears no table."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from integration_tests import sessions
from integration_tests.checks import affected, one, rows
from integration_tests.drivers import Driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

ROUNDS = 2
ROUNDS_SLOW = 40
# About as long as a transaction of a driver that has just started, and as its COMMIT.
KILL_IN_TRANSACTION_MAX_S = 2.0
KILL_IN_COMMIT_MAX_S = 0.2
COMMITS_BEFORE_KILL_MAX = 2

A = "SELECT * FROM lake.db.a"
B = "SELECT * FROM lake.db.b"
COUNTER = "SELECT n FROM lake.db.counter"


class Lake(NamedTuple):
    """A lake of a crash test: its folder, and sessions over it."""

    folder: Path
    protocol: Callable[[], SparkSession]
    plain: Callable[[], SparkSession]

    def driver(self, what: str, name: str, **options: str) -> Driver:
        """Start a driver in a process of its own."""
        return Driver(what, self.folder, name, self.folder.parent / "driver.log", **options)


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the tables a and b, empty, and a counter at 0."""

    def session(catalog_class: str) -> SparkSession:
        made = new_session()
        # The drivers know it under this name, and a JDBC catalog keeps it with its tables.
        sessions.add_catalog(made, "lake", tmp_path / "lake", catalog_class)
        return made

    spark = session(sessions.TXNS)
    spark.sql("CREATE NAMESPACE lake.db")
    spark.sql("CREATE TABLE lake.db.a (name STRING, number INT) USING iceberg")
    spark.sql("CREATE TABLE lake.db.b (name STRING, number INT) USING iceberg")
    spark.sql("CREATE TABLE lake.db.counter (n INT) USING iceberg")
    spark.sql("INSERT INTO lake.db.counter VALUES (0)")
    return Lake(tmp_path / "lake", lambda: session(sessions.TXNS), lambda: session(sessions.PLAIN))


def _write_and_read(lake: Lake) -> None:
    """Nothing that a dead driver has left keeps others from writing."""
    spark = lake.protocol()
    before = one(spark, COUNTER)[0]
    assert 1 == affected(spark, "UPDATE lake.db.counter SET n = n + 1")
    assert [(before + 1,)] == rows(spark, COUNTER)
    assert [(before + 1,)] == rows(lake.plain(), COUNTER)


def test_killed_while_staging(lake: Lake) -> None:
    """Before COMMIT, nothing has happened: for nobody, and nobody is hindered."""
    with lake.driver("stage", "killed") as driver:
        assert "staged" == driver.wait_for_line()
        assert [] == rows(lake.protocol(), A)
    for session in (lake.protocol(), lake.plain()):
        assert [] == rows(session, A)
        assert [] == rows(session, B)
        assert [(0,)] == rows(session, COUNTER)
    _write_and_read(lake)


def test_killed_after_the_swap(lake: Lake) -> None:
    """
    After COMMIT, everything has happened, though the data tables do not show it yet.

    1. A driver with txns.apply=next commits, and is killed.
    2. Every session of the protocol reads all of it; plain Iceberg reads nothing of it.
    3. CALL lake.system.apply(): plain Iceberg reads the same.
    """
    lake.protocol().sql("CALL lake.system.settings(apply => 'next')")
    with lake.driver("commit", "killed", **{"txns.apply": "next"}) as driver:
        assert "committed False" == driver.wait_for_line()
    lake.protocol().sql("CALL lake.system.settings(apply => 'inline')")
    expected = [("killed", 0)]
    plain, spark = lake.plain(), lake.protocol()
    assert ([], [], [(0,)]) == tuple(rows(plain, query) for query in (A, B, COUNTER))
    assert (expected, expected, [(1,)]) == tuple(rows(spark, query) for query in (A, B, COUNTER))
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert (expected, expected, [(1,)]) == tuple(rows(plain, query) for query in (A, B, COUNTER))
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert (expected, expected, [(1,)]) == tuple(rows(spark, query) for query in (A, B, COUNTER))
    _write_and_read(lake)


def test_next_writer_applies_what_a_killed_one_left(lake: Lake) -> None:
    """A writer of one of the tables carries on with it; it does not write over it."""
    lake.protocol().sql("CALL lake.system.settings(apply => 'next')")
    with lake.driver("commit", "killed", **{"txns.apply": "next"}) as driver:
        assert "committed False" == driver.wait_for_line()
    lake.protocol().sql("CALL lake.system.settings(apply => 'inline')")
    spark = lake.protocol()
    assert 1 == affected(spark, "UPDATE lake.db.counter SET n = n + 10")
    assert 1 == affected(spark, "INSERT INTO lake.db.a VALUES ('next', 0)")
    assert [(11,)] == rows(spark, COUNTER) == rows(lake.plain(), COUNTER)
    assert [("killed", 0), ("next", 0)] == rows(spark, A) == rows(lake.plain(), A)
    assert [("killed", 0)] == rows(spark, B)


def _check_after_kill(lake: Lake, acknowledged: set[tuple[str, int]], round_name: str) -> None:
    spark, plain = lake.protocol(), lake.plain()
    a, b, counter = rows(spark, A), rows(spark, B), rows(spark, COUNTER)
    print(f"{round_name}: {len(acknowledged)} acknowledged, {len(a)} committed")
    assert a == b, "torn"
    assert len(a) == len(set(a)), "doubled"
    assert acknowledged <= set(a), "lost"
    # In each round one transaction may have committed without an answer.
    unanswered = set(a) - acknowledged
    assert len({name for name, _ in unanswered}) == len(unanswered)
    assert [(len(a),)] == counter, "the counter is lost or doubled"
    assert 0 == one(spark, "CALL lake.system.apply()").tables_left
    assert (a, b, counter) == tuple(rows(plain, query) for query in (A, B, COUNTER))
    assert (a, b, counter) == tuple(rows(spark, query) for query in (A, B, COUNTER))


def _ask_by_id(lake: Lake, name: str, number: int) -> None:
    """The id of a transaction without an answer tells whether it has committed."""
    spark = lake.protocol()
    has_committed = (name, number) in rows(spark, A)
    expected = "committed" if has_committed else "active"
    assert expected == one(spark, f"BEGIN ID '{name}/{number}'").state
    spark.sql("ROLLBACK")


def _wait_for_the_moment(driver: Driver, draw: random.Random, *, in_commit: bool) -> None:
    """Wait for some commits, and then until a random moment in a transaction, or in COMMIT."""
    number = draw.randrange(1, COMMITS_BEFORE_KILL_MAX + 1)
    word = "committing" if in_commit else "committed"
    while driver.wait_for_line() != f"{word} {number}":
        pass
    # No event marks the moment: it is what is random here.
    time.sleep(draw.uniform(0, KILL_IN_COMMIT_MAX_S if in_commit else KILL_IN_TRANSACTION_MAX_S))


def _kill_rounds(lake: Lake, rounds: int, options: dict[str, str]) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed={seed}")
    draw = random.Random(seed)
    acknowledged: set[tuple[str, int]] = set()
    for number in range(rounds):
        name = f"round {number}"
        with lake.driver("stream", name, **options) as driver:
            _wait_for_the_moment(driver, draw, in_commit=number % 2 == 0)
        answers = [line.split() for line in driver.lines]
        committed = [int(answer) for word, answer in answers if word == "committed"]
        acknowledged |= {(name, answer) for answer in committed}
        _ask_by_id(lake, name, len(committed))
        _check_after_kill(lake, acknowledged, name)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_random_moments(lake: Lake) -> None:
    """Every acknowledged transaction is there once, in all its tables, after each kill."""
    _kill_rounds(lake, ROUNDS, {"txns.tidy-after": "3"})


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("apply", ["inline", "next"])
def test_killed_at_many_random_moments(lake: Lake, apply: str) -> None:
    """The same with more rounds, and where COMMIT leaves applying to the next writer."""
    lake.protocol().sql(f"CALL lake.system.settings(apply => '{apply}')")
    _kill_rounds(lake, ROUNDS_SLOW, {"txns.tidy-after": "3", "txns.apply": apply})
