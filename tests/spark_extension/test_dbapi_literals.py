from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from txns_spark import dbapi
from txns_spark.dbapi._literals import bound, inlined
from txns_spark.dbapi._types import TypeObject, arrow_type, parse_type, type_text


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (np.bool_(0), "FALSE"),
        (1, "1"),
        (np.int32(-1), "(-1)"),
        (-(2**40), "(-1099511627776L)"),
        (2**40, "1099511627776L"),
        (2**63, "9223372036854775808BD"),
        (1.5, "1.5D"),
        (np.float32(0.5), "0.5D"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (Decimal("1E+3"), "1000BD"),
        (Decimal("-0.10"), "(-0.10BD)"),
        (Decimal("1E-38"), f"0.{'0' * 37}1BD"),
        (-1.5, "(-1.5D)"),
        (-0.0, "(-0.0D)"),
        ("a?b", "'a?b'"),
        ("it's", "CAST(X'69742773' AS STRING)"),
        ("\\", "CAST(X'5c' AS STRING)"),
        ("${x}", "CAST(X'247b787d' AS STRING)"),
        (b"\x00", "X'00'"),
        (memoryview(b"\x01"), "X'01'"),
        (dt.date(1, 2, 3), "DATE'0001-02-03'"),
        (dt.time(1, 2, 3), "'01:02:03'"),
        (dt.datetime(2020, 1, 1), "TIMESTAMP_NTZ'2020-01-01 00:00:00.000000'"),  # noqa: DTZ001
        (
            pd.Timestamp("2020-01-01 00:00:00.000001002", tz="Europe/Berlin"),
            "TIMESTAMP'2019-12-31 23:00:00.000001 UTC'",
        ),
        (pd.NaT, "NULL"),
        (pd.NA, "NULL"),
        (dt.timedelta(days=-1, seconds=1), "INTERVAL -'0 23:59:59.000000' DAY TO SECOND"),
        (uuid.UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
        ([1, "a"], "array(1, 'a')"),
        ([], "array()"),
        ({"a": [None]}, "map('a', array(NULL))"),
        (dbapi.Struct(a=1), "named_struct('a', 1)"),
        (Point(1, 2), "named_struct('x', 1, 'y', 2)"),
    ],
)
def test_a_value_becomes_its_literal(value: Any, text: str) -> None:
    assert text == dbapi.literal(value)


@pytest.mark.parametrize(
    "value",
    [
        10**38,
        Decimal("NaN"),
        Decimal("1." + "1" * 38),
        Decimal("1E-39"),
        Decimal("1E+999999999"),
        "half \ud800",
        dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.timedelta.max,
    ],
)
def test_what_no_type_holds_is_a_data_error(value: Any) -> None:
    with pytest.raises(dbapi.DataError):
        dbapi.literal(value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '?', '\\'?', \"?\", `?`, r'\\', %, 'it''s ?' -- ?\n /* ? \n */ , %",
        "/* /* */ ? */ %, /* /*+ ? */ % /*+ % */ %",
        "-- ?\r % -- \\\n ? \n %",
        'SELECT ar\'?\' % `a``?` % "\\"?" R"\\" %',
        "SELECT * FROM file://a?b, s3://%b %",
        "-%",
        "/*+ A(%) */* %",
    ],
)
def test_only_markers_are_replaced_and_set_apart(sql: str) -> None:
    """Strings, quoted names, paths and comments may hold question marks."""
    numbers = [-1] * sql.count("%")
    assert sql.replace("%", " (-1) ") == inlined(sql.replace("%", "?"), numbers)


def test_what_would_be_changed_on_its_way_becomes_a_literal() -> None:
    values = [1, dt.date(2020, 1, 1), "x", "\\", "${x}"]
    sql = "SELECT  :p1 ,  DATE'2020-01-01' ,  :p3 ,  %s ,  CAST(X'247b787d' AS STRING) "
    asked = "SELECT ?, ?, ?, ?, ?"
    named = {"p1": 1, "p3": "x"}
    assert (sql % "CAST(X'5c' AS STRING)", named) == bound(asked, values, lambda: False)
    assert (sql % ":p4", {**named, "p4": "\\"}) == bound(asked, values, lambda: True)


def test_values_are_bound_by_names() -> None:
    """Spark 4.1.3 and 4.2.0 bind five and more to the wrong markers without one (SPARK-58341)."""
    sql, named = bound("SELECT ?, ?, ?, ?, ?", [1, 2, 3, 4, 5], lambda: False)
    assert "SELECT  :p1 ,  :p2 ,  :p3 ,  :p4 ,  :p5 " == sql
    assert {f"p{number}": number for number in range(1, 6)} == named


def test_a_session_is_asked_for_its_escapes_only_where_text_needs_them() -> None:
    def asked() -> bool:
        raise AssertionError

    assert ("SELECT - :p1 ", {"p1": -1}) == bound("SELECT -?", [np.int64(-1)], asked)
    assert ("SELECT  :p1 ", {"p1": "x"}) == bound("SELECT ?", ["x"], asked)
    assert ("SELECT ?", {}) == bound("SELECT ?", [], asked)


@pytest.mark.parametrize(
    "text",
    [
        "bigint",
        "decimal(10,2)",
        "array<int>",
        "map<string,array<decimal(38,0)>>",
        "struct<a:bigint,b:struct<c:timestamp,d:timestamp_ntz>>",
        "interval day to second",
    ],
)
def test_a_type_survives_arrow(text: str) -> None:
    assert text == type_text(arrow_type(parse_type(text)))


def test_a_structs_names_may_be_quoted() -> None:
    parsed = parse_type("struct<`a b`:int not null comment 'x',c:varchar(3)>")
    assert ["a b", "c"] == [name for name, _ in parsed.fields]
    assert (3,) == parsed.fields[1][1].arguments


@pytest.mark.parametrize("text", ["", "array<int", "a;b"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises((dbapi.InternalError, IndexError)):
        parse_type(text)


def test_type_objects_are_equal_to_their_types() -> None:
    assert dbapi.NUMBER == "decimal(10,2)"
    assert dbapi.STRING != "bigint"
    assert TypeObject("string", "varchar", "char") == dbapi.STRING


def test_the_module_says_what_pep_249_asks_for() -> None:
    assert ("2.0", 1, "qmark") == (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle)
    assert issubclass(dbapi.TransactionConflict, dbapi.OperationalError)
    for name in ("DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"):
        assert issubclass(getattr(dbapi, name), dbapi.DatabaseError)


@pytest.mark.parametrize(
    ("sql", "row"),
    [
        ("INSERT INTO t VALUES (?, ?)", "(?, ?)"),
        ("insert into `a b`.t (a, `b)`) values (?, 'it\\'s (', now());", "(?, 'it\\'s (', now())"),
        ("INSERT INTO TABLE t VALUES (lower(?))", "(lower(?))"),
        ("INSERT INTO t VALUES (?, 1), (?, 2)", None),
        ("INSERT INTO t VALUES ((SELECT max(i) FROM t) + ?)", None),
        ("INSERT INTO t SELECT * FROM (VALUES (?))", None),
    ],
)
def test_a_row_that_looks_at_no_table_may_be_repeated(sql: str, row: str | None) -> None:
    found = dbapi.insert_rows(sql)
    assert row == (found and found[1])
