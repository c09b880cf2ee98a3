"""Values that are bound come back as they were, whatever stands around their markers."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Open = Callable[..., dbapi.Connection]

pytestmark = pytest.mark.sampled

UTC = dt.UTC
_COLUMNS = 100
_MANY_VALUES = 20_000
_NEGATED_DIGITS_MAX = 34
_FEW_VALUES = 200
# What text may hold that means something to Spark, to a shell of Hive's, or to nobody.
_PIECES = [
    *("'", '"', "`", "\\", "?", "-", "--", "/*", "*/", "/*+", ";", "${x}", "${env:HOME}", "$", "{"),
    *("\n", "\r", "\t", "\x00", "\x7f", "\\n", "\\u0041", "\\101", "%", "_", " ", "''", '""'),
    *("a", "B", "7", "é", "ß", "\u2028", "\u0085", "\ufeff", "\u200b", "א", "漢", "😀", "\uffff"),
]
# Each sets the marker apart from what stands beside it; the same value comes back.
_AROUND = [
    *("?", "(?)", "/* ? */?", "?/* ? */", "/* /* ? */ ? */?", "?-- ?\n", "-- ?\r?", "-- \\\n ?\n?"),
    *("coalesce(?)", "CASE WHEN '?' = '?' THEN ? END", "nvl(?, NULL)"),
]
_NUMBERS_AROUND = ["-?", "- ?", "0-?", "(-?)", "1-1-?", "-(?)", "-/* ? */?", "0-?-- ?\n"]
# What means something else to a text that is written for the defaults.
_SETTINGS = [
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.ansi.doubleQuotedIdentifiers",
]


class Case(NamedTuple):
    """A value that is bound, the SQL around its marker, and what comes back."""

    value: Any
    sql: str
    expected: Any


def _text(seeded: random.Random) -> str:
    return "".join(seeded.choices(_PIECES, k=seeded.randint(0, 8)))


def _int(seeded: random.Random) -> int:
    size = 2 ** seeded.randint(0, 63)
    near = seeded.choice([0, 2**31, -(2**31), 2**63 - 4, -(2**63) + 4, seeded.randint(-size, size)])
    return min(max(near + seeded.randint(-3, 3), -(2**63)), 2**63 - 1)


def _float(seeded: random.Random) -> float:
    anything = struct.unpack("<d", seeded.randbytes(8))[0]
    some = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 1e22, 0.1]
    return float(seeded.choice([anything, *some, -1e-7, seeded.uniform(-100, 100)]))


def _decimal(seeded: random.Random) -> Decimal:
    digits = seeded.randint(1, 38)
    sign, number = seeded.randint(0, 1), str(seeded.randrange(10**digits)).rjust(digits, "0")
    scale = seeded.randint(0, 38)
    least = Decimal((sign, tuple(map(int, number)), -scale))
    return seeded.choice([least, Decimal("1E+20"), Decimal("-0.00"), Decimal(-3), -least])


def _moment(seeded: random.Random) -> dt.datetime:
    years = seeded.choice([(1, 9999), (1582, 1583), (1900, 2100)])
    start = dt.datetime(years[0], 1, 2, tzinfo=UTC)
    micros = (dt.datetime(years[1], 12, 30, tzinfo=UTC) - start) // dt.timedelta(microseconds=1)
    return start + dt.timedelta(microseconds=seeded.randint(0, micros))


def _zone(seeded: random.Random) -> dt.tzinfo:
    return dt.timezone(dt.timedelta(seconds=seeded.randint(-43_200, 43_200)))


def _span(seeded: random.Random) -> dt.timedelta:
    most = 2 ** seeded.randint(1, 63) - 1
    return dt.timedelta(microseconds=seeded.randint(-most, most))


_KINDS: dict[str, Callable[[random.Random], Any]] = {
    "null": lambda _: None,
    "bool": lambda seeded: seeded.random() < 0.5,
    "int": _int,
    "float": _float,
    "decimal": _decimal,
    "text": _text,
    "bytes": lambda seeded: seeded.randbytes(seeded.randint(0, 6)),
    "date": lambda seeded: _moment(seeded).date(),
    "timestamp_ntz": lambda seeded: _moment(seeded).replace(tzinfo=None),
    "timestamp": lambda seeded: _moment(seeded).astimezone(_zone(seeded)),
    "time": lambda seeded: _moment(seeded).time(),
    "interval": _span,
    "uuid": lambda seeded: uuid.UUID(bytes=seeded.randbytes(16)),
    "list": lambda seeded: [_text(seeded) for _ in range(seeded.randint(1, 3))],
    "numbers": lambda seeded: [seeded.randint(-5, 5) for _ in range(seeded.randint(1, 3))],
    "map": lambda seeded: {_text(seeded): seeded.randint(-5, 5) for _ in range(3)},
    "struct": lambda seeded: dbapi.Struct({"a": _text(seeded), "c": -seeded.randint(0, 9)}),
}


def _case(seeded: random.Random) -> Case:
    kind = seeded.choice(list(_KINDS))
    value = _KINDS[kind](seeded)
    back = value
    if kind in {"time", "uuid"}:
        back = value.isoformat() if kind == "time" else str(value)
    if kind in {"int", "float", "decimal"} and seeded.random() < 0.5:
        sql = seeded.choice(_NUMBERS_AROUND)
        if _can_be_negated(value):
            # A difference is never the negative zero, and of decimals may have too many digits.
            negated = sql if sql.lstrip("(").startswith("-") or kind == "int" else "-?"
            return Case(value, negated, value.copy_negate() if kind == "decimal" else -value)
    if kind == "text" and seeded.random() < 0.3:
        return Case(value, "'?'||?", "?" + value)
    return Case(value, seeded.choice(_AROUND), back)


def _can_be_negated(value: Any) -> bool:
    if isinstance(value, Decimal):
        # Spark rounds what it negates to 34 digits.
        return len(value.as_tuple().digits) <= _NEGATED_DIGITS_MAX
    return isinstance(value, float) or value not in {-(2**31), -(2**63)}


def _is_same(expected: Any, found: Any) -> bool:
    if isinstance(expected, float):
        # The sign of zero counts, and no NaN is equal to itself.
        return repr(expected) == repr(found)
    return bool(expected == found) and isinstance(expected, bool) == isinstance(found, bool)


def _differences(
    connection: dbapi.Connection, seeded: random.Random, count: int
) -> Iterator[tuple[Case, Any]]:
    """Select values under changing settings, many to a statement; yield what has changed."""
    cursor = connection.cursor()
    cursor.execute("SET x = replaced")
    for _ in range(0, count, _COLUMNS):
        flags = [seeded.random() < 0.5 for _ in _SETTINGS]
        for name, flag in zip(_SETTINGS, flags, strict=True):
            cursor.execute(f"SET {name} = {str(flag).lower()}")
        cases = [_case(seeded) for _ in range(_COLUMNS)]
        columns = ", ".join(f"{case.sql} AS c{i}" for i, case in enumerate(cases))
        cursor.execute(f"SELECT {columns}", [case.value for case in cases])
        [row] = cursor.fetchall()
        for case, found in zip(cases, row, strict=True):
            if not _is_same(case.expected, found):
                yield case, found


def test_values_come_back_as_they_were_bound(open_connection: Open) -> None:
    """Each kind of value, next to minus signs, comments and quotes, under several settings."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    found = _differences(open_connection(autocommit=True), random.Random(seed), _FEW_VALUES)
    assert [] == list(found)


@pytest.mark.slow
def test_many_values_come_back_as_they_were_bound(open_connection: Open) -> None:
    seed = random.randrange(2**32)
    connection = open_connection(autocommit=True)
    found = list(_differences(connection, random.Random(seed), _MANY_VALUES))
    print(f"{connection.driver}: seed {seed}, {_MANY_VALUES} values, {len(found)} differences")
    assert [] == found


@pytest.mark.parametrize("value", [Decimal(-3), -3, -3.0])
def test_a_minus_before_a_negative_number_is_no_comment(
    open_connection: Open, table: str, value: Any
) -> None:
    """The rest of the condition holds: nobody else's rows are deleted."""
    connection = open_connection()
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (tenant STRING, v INT) USING iceberg")
    cursor.execute(f"INSERT INTO {table} VALUES ('a', 1), ('b', 1), ('a', 13)")
    cursor.execute(f"DELETE FROM {table} WHERE v < 10 -? AND tenant = ?", [value, "a"])
    cursor.execute(f"SELECT * FROM {table} ORDER BY v")
    assert [("b", 1), ("a", 13)] == cursor.fetchall()


@pytest.mark.parametrize("text", ["it's", "\\", 'a "b" \n\t\\n', "'; --"])
def test_text_stands_where_only_a_literal_may(open_connection: Open, table: str, text: str) -> None:
    """A comment may have a quote in it. The Thrift protocol binds nothing, and says so."""
    connection = open_connection(autocommit=True)
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (v INT) USING iceberg")
    if connection.driver == "thrift":
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute(f"COMMENT ON TABLE {table} IS ?", [text])
        return
    cursor.execute(f"COMMENT ON TABLE {table} IS ?", [text])
    cursor.execute(f"DESCRIBE TABLE EXTENDED {table}")
    assert [text] == [row[1] for row in cursor.fetchall() if row[0] == "Comment"]
    cursor.execute("SELECT 'a%b' LIKE ? ESCAPE ?", ["a\\%b", "\\"])
    assert [(True,)] == cursor.fetchall()


@pytest.mark.parametrize(
    ("sql", "value", "expected"),
    [
        ("SELECT * FROM range(5) LIMIT ?", 1, [(0,)]),
        ("SELECT * FROM range(5) LIMIT 1 OFFSET ?", 1, [(1,)]),
        ("SELECT INTERVAL ? DAY", 1, [(dt.timedelta(1),)]),
        ("SELECT abs(?)", -1, [(1,)]),
        ("SELECT 1 IN (?, 2)", -1, [(False,)]),
        ("SELECT ?::STRING", -1, [("-1",)]),
        ("SELECT ?[0]", [-1], [(-1,)]),
        ("SELECT 7 BETWEEN ?AND 8", -1, [(True,)]),
        ("SELECT * FROM VALUES (?)", -1, [(-1,)]),
        ("SELECT * FROM IDENTIFIER(?)", "range(1)", None),
        ("SELECT /*+ REPARTITION(?) */ 1", 2, [(1,)]),
        ("SELECT 1 AS a?b", 2, None),
        ("SELECT ?e5", 1, [(1,)]),
    ],
)
def test_a_marker_stands_where_a_value_may(
    open_connection: Open, sql: str, value: Any, expected: Any
) -> None:
    """It is set apart from what stands beside it, and that is valid in each place."""
    cursor = open_connection(autocommit=True).cursor()
    if expected is None:
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute(sql, [value])
        return
    assert expected == cursor.execute(sql, [value]).fetchall()


def test_many_rows_have_the_values_that_each_would_have_alone(
    open_connection: Open, table: str
) -> None:
    """Spark makes one type of a column of VALUES: beside a float a DECIMAL loses digits."""
    exact = Decimal("123456789012345678.12345678901234567890")
    cursor = open_connection().cursor()
    cursor.execute(f"CREATE TABLE {table} (id INT, v DECIMAL(38,20), s STRING) USING iceberg")
    rows = [(0, exact, "x"), (1, 0.5, 1), (2, None, 2.5), (3, 7, None)]
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    assert 4 == cursor.rowcount
    cursor.execute(f"SELECT * FROM {table} ORDER BY id")
    half, seven = Decimal("0.5"), Decimal(7)
    assert [
        (0, exact, "x"),
        (1, half, "1"),
        (2, None, "2.5"),
        (3, seven, None),
    ] == cursor.fetchall()


def test_ints_beside_floats_go_in_one_statement_as_they_are(
    open_connection: Open, table: str
) -> None:
    """Spark makes a DOUBLE of both, which a column of another type takes without a loss."""
    great = 2**53 - 1
    cursor = open_connection().cursor()
    cursor.execute(
        f"CREATE TABLE {table} "
        "(d DOUBLE, n DECIMAL(38,20), b BIGINT, a ARRAY<DOUBLE>, s STRUCT<x: DOUBLE>) USING iceberg"
    )
    rows: list[tuple[Any, ...]] = [
        (0.5, great, 1.0, [1], dbapi.Struct(x=1)),
        (1, 1.5, great, [0.5, 2], dbapi.Struct(x=None)),
        (great, -great, -great, [None, 0.5], dbapi.Struct(x=0.5)),
        (None, None, None, None, None),
    ]
    assert 1 == len(dbapi.alike(rows))
    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", rows)
    found = cursor.execute(f"SELECT * FROM {table} ORDER BY d").fetchall()
    numbers = [*rows[3:], *rows[:3]]
    assert numbers == [
        tuple(dbapi.Struct(v) if isinstance(v, dict) else v for v in row) for row in found
    ]
