"""What a cursor makes of sets of parameters before anything is sent."""

from __future__ import annotations

import datetime as dt
import random
from collections import UserDict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from txns_spark import dbapi
from txns_spark.dbapi import _connection
from txns_spark.dbapi._session import Answer

_INSERT = "INSERT INTO t VALUES (?, ?)"
_UPDATE = "UPDATE t SET a = ? WHERE b = ?"


class Listening:
    """A server that notes what it is sent."""

    driver = "connect"

    def __init__(self) -> None:
        self.sent: list[str] = []

    def run(self, sql: str, _parameters: object) -> Answer:
        self.sent.append(sql)
        return Answer(pa.table({}), is_command=True)


@pytest.fixture
def server() -> Listening:
    return Listening()


@pytest.fixture
def cursor(server: Listening) -> dbapi.Cursor:
    return _connection.Connection(server, autocommit=True).cursor()


@pytest.mark.parametrize("sql", [_INSERT, _UPDATE])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(1, 2), (3,), (4, 5, 6)], "row=1, counted from 0, values=1, markers=2"),
        ([(1, 2), ()], "row=1, counted from 0, values=0, markers=2"),
        ([(1, 2, 3), (4,)], "row=0, counted from 0, values=3, markers=2"),
        ([(1, 2), {"a": 3, "b": 4}], "row=1, counted from 0, class=dict"),
        ([{"b": 3, "a": 4}, {"a": 1}], "row=0, counted from 0, class=dict"),
        ([UserDict(a=1, b=2)], "row=0, counted from 0, class=UserDict"),
        ([(1, 2), "ab"], "row=1, counted from 0, class=str"),
        ([(1, 2), {3, 4}], "row=1, counted from 0, class=set"),
        ([(1, 2), 3], "row=1, counted from 0, class=int"),
        ({"a": (1, 2)}, "class=dict"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_sent(
    server: Listening, cursor: dbapi.Cursor, sql: str, rows: Any, words: str
) -> None:
    """Nothing is shifted into the next row, and no name is taken for a value."""
    with pytest.raises(dbapi.ProgrammingError, match=words):
        cursor.executemany(sql, rows)
    assert not server.sent


@pytest.mark.parametrize("parameters", [{"a": 1, "b": 2}, UserDict(a=1, b=2), "ab", {1, 2}])
def test_parameters_by_name_are_refused(
    server: Listening, cursor: dbapi.Cursor, parameters: Any
) -> None:
    with pytest.raises(dbapi.ProgrammingError, match="qmark"):
        cursor.execute(_INSERT, parameters)
    assert not server.sent


def test_rows_may_come_from_generators(server: Listening, cursor: dbapi.Cursor) -> None:
    cursor.executemany(_INSERT, (iter((i, i)) for i in range(2)))
    assert ["INSERT INTO t VALUES ( 0 ,  0 ), ( 1 ,  1 )"] == server.sent


_NAIVE = dt.datetime(2020, 1, 1)  # noqa: DTZ001  (has no zone)
_POINT = dbapi.Struct(x=1, y=None)


@pytest.mark.parametrize(
    ("column", "groups"),
    [
        ([1, None, 2**40, 10**30], 1),
        ([Decimal(1), 0.5, Decimal("1.5"), 2.5], 2),
        ([Decimal(1), 0.5, None], 2),
        ([1, Decimal("0.5")], 2),
        ([1, 0.5, None, 2**53 - 1], 1),
        ([1, 0.5, -(2**53), 2**60], 2),
        ([Decimal(1), 2, 0.5], 2),
        (["a", 1, 0.5, None], 3),
        ([True, 1], 2),
        (["a", b"b"], 2),
        ([_NAIVE, _NAIVE.replace(tzinfo=dt.UTC), _NAIVE.date()], 3),
        ([[1, None], [], None, [2]], 1),
        ([[1], [0.5], [2, 0.5]], 1),
        ([[1], ["a"], [None]], 2),
        ([{"a": 1}, {}, {"b": None}], 1),
        ([{"a": 1}, {"a": 0.5}], 1),
        ([{"a": Decimal(1)}, {"a": 0.5}, {}], 2),
        ([_POINT, dbapi.Struct(x=None, y=0.5), dbapi.Struct(x=2, y=1.5)], 1),
        ([_POINT, dbapi.Struct(x=0.5, y=None)], 1),
        ([_POINT, dbapi.Struct(x="a", y=None), dbapi.Struct(x=None, y="a")], 2),
    ],
)
def test_what_spark_would_make_one_type_of_stands_apart(column: list[Any], groups: int) -> None:
    """Each value goes as it is: beside a float a DECIMAL would be a DOUBLE."""
    rows = [(number, value) for number, value in enumerate(column)]
    found = dbapi.alike(rows)
    assert groups == len(found)
    assert rows == sorted((tuple(row) for group in found for row in group), key=lambda row: row[0])


@pytest.mark.parametrize(
    ("values", "columns", "statements"),
    [
        ((2, 1.5), 10, 3),
        ((None, 2, 1.5), 6, 2),
        # One for each combination of types: NULL is none of them.
        ((None, Decimal(2), 1.5), 6, 2**6),
    ],
)
def test_values_of_many_types_go_in_few_statements(
    server: Listening, cursor: dbapi.Cursor, values: Any, columns: int, statements: int
) -> None:
    """An int beside floats, and a NULL, do not double the statements with each column."""
    seeded = random.Random(0)
    rows = [tuple(seeded.choices(values, k=columns)) for _ in range(5_000)]
    cursor.executemany(f"INSERT INTO t VALUES ({', '.join('?' * columns)})", rows)
    assert statements == len(server.sent)


def test_none_is_no_parameters(server: Listening, cursor: dbapi.Cursor) -> None:
    """As in other drivers."""
    cursor.execute("SELECT 1", None)
    assert ["SELECT 1"] == server.sent
