"""
Bind parameters: to Spark's own markers where it takes them, as literals elsewhere.

A literal is text that no setting of a session can make into something else: a string with a
quote, a backslash, a control character or a variable in it is written in hexadecimal.

Imports: errors. Used by: _connect, _connection, _cursor, _embedded, _spark, _thrift, __init__.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import numbers
import re
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from txns_spark.dbapi.errors import DataError, ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Sequence

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_DECIMAL_DIGITS_MAX = 38
_DAY_MICROSECONDS = 86_400_000_000
# What is neither a marker nor may hide one: strings, quoted names, comments.
_TOKENS = re.compile(
    r"""
      (?<!\w)[rR](?:'[^']*'|"[^"]*")  # raw strings know no escapes
    | '(?:[^'\\]|\\.|'')*'
    | "(?:[^"\\]|\\.|"")*"
    | `(?:[^`]|``)*`
    | --[^\n]*
    | /\*(?:[^*]|\*(?!/))*\*/
    | \?
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_TEXT = re.compile(r"[^'\\\x00-\x1f\x7f$]*")


# The rows of an INSERT ... VALUES, with nothing in them that looks at the table.
_INSERT_ROWS = re.compile(
    r"\s*(INSERT\s+INTO\s+(?:TABLE\s+)?(?:[\w.]|`(?:[^`]|``)*`)+\s*(?:\((?:[\w\s,]|`(?:[^`]|``)*`)*\))?\s*VALUES\s*)"
    r"(\(.*\))\s*;?\s*\Z",
    re.IGNORECASE | re.DOTALL,
)
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)


class Struct(dict[str, Any]):
    """A value of a STRUCT type: its fields by name, in their order."""


def bound(sql: str, parameters: Sequence[Any]) -> tuple[str, list[Any]]:
    """
    Return a statement and what is left to bind to its markers by Spark.

    Numbers, strings, bytes, booleans and NULL stay parameters. Values that pyspark would
    change on their way (times) or refuses (maps, structs, far dates) become literals.
    """
    values = [_normal(value) for value in parameters]
    if all(_is_simple(value) for value in values):
        return sql, values
    kept = [value for value in values if _is_simple(value)]
    return fill_markers(sql, ["?" if _is_simple(v) else literal(v) for v in values]), kept


def inlined(sql: str, parameters: Sequence[Any]) -> str:
    """Return a statement with literals in the place of its markers."""
    return fill_markers(sql, [literal(value) for value in parameters])


def literal(value: Any) -> str:
    """
    Return a value as a literal of Spark SQL that has the value's type.

    int INT, BIGINT or DECIMAL, float DOUBLE, str STRING, bytes BINARY, Decimal DECIMAL, date DATE,
    datetime without zone TIMESTAMP_NTZ, with zone TIMESTAMP, timedelta INTERVAL DAY TO SECOND,
    time and UUID STRING, list and tuple ARRAY, dict MAP, Struct and named tuple STRUCT.

    Raises:
        DataError: A number has more than 38 digits.
        ProgrammingError: The value is of another class.
    """
    value = _normal(value)
    for kind, text in _KINDS:
        if isinstance(value, kind):
            return str(text(value))
    raise ProgrammingError(
        f"a value of this class cannot be bound; convert it first: class={type(value).__name__}"
    )


def _normal(value: Any) -> Any:
    """Turn numpy's numbers and subclasses into the classes that Spark knows."""
    if value is None or type(value) in {bool, int, float, str, bytes, Decimal}:
        return value
    # pandas' missing values are instances of their own classes, unequal to themselves.
    if type(value).__name__ in {"NAType", "NaTType"}:
        return None
    if isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}:
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    # Decimal is no Real of Python's tower.
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return str.__str__(value) if isinstance(value, str) else value


def _is_simple(value: Any) -> bool:
    if isinstance(value, int):
        return _LONG_MIN <= value <= _LONG_MAX
    if isinstance(value, Decimal):
        return False
    return value is None or isinstance(value, (float, str, bytes))


def fill_markers(sql: str, texts: Sequence[str]) -> str:
    """
    Return a statement with texts in the place of its markers.

    Raises:
        ProgrammingError: There are more markers than texts, or fewer.
    """
    remaining = iter(texts)
    count = 0

    def text(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] != "?":
            return match[0]
        count += 1
        return next(remaining, "?")

    replaced = _TOKENS.sub(text, sql)
    if count != len(texts):
        raise ProgrammingError(
            f"the statement has another number of markers than there are parameters; "
            f"markers={count}, parameters={len(texts)}"
        )
    return replaced


def insert_rows(sql: str) -> tuple[str, str] | None:
    """
    Return an INSERT ... VALUES in two: up to VALUES, and the row behind it; None for others.

    The row may be repeated: `(?, 'new', now())` has no query in it, which could see the rows
    before.
    """
    found = _INSERT_ROWS.fullmatch(sql)
    if found is None:
        return None
    bare = _TOKENS.sub(lambda match: "?" if match[0] == "?" else "", found[2])
    depths = list(itertools.accumulate((c == "(") - (c == ")") for c in bare))
    if _SELECT.search(bare) or depths[-1] != 0 or 0 in depths[:-1]:
        return None
    return found[1], found[2]


def identifier(name: str) -> str:
    """Return a name as SQL has it, in backticks."""
    return "`" + name.replace("`", "``") + "`"


def path(name: str) -> str:
    """Return a name of several parts, with dots between them, quoted."""
    return ".".join(identifier(part) for part in name.split("."))


def _of_int(value: int) -> str:
    # As pyspark chooses it: the least type that holds the number.
    if _INT_MIN <= value <= _INT_MAX:
        return str(value)
    if _LONG_MIN <= value <= _LONG_MAX:
        return f"{value}L"
    return _of_decimal(Decimal(value))


def _of_float(value: float) -> str:
    if math.isfinite(value):
        return f"{value!r}D"
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS DOUBLE)"


def _of_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise DataError(f"a DECIMAL is a finite number: value={value}")
    text = format(value, "f")
    if sum(char.isdigit() for char in text.lstrip("-0.")) > _DECIMAL_DIGITS_MAX:
        raise DataError(f"a DECIMAL has at most {_DECIMAL_DIGITS_MAX} digits: value={value}")
    return f"{text}BD"


def _of_text(value: str) -> str:
    if _PLAIN_TEXT.fullmatch(value):
        return f"'{value}'"
    return f"CAST(X'{value.encode('utf-8').hex()}' AS STRING)"


def _of_bytes(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _of_datetime(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ'{_clock_text(value)}'"
    return f"TIMESTAMP'{_clock_text(value.astimezone(dt.UTC))} UTC'"


def _clock_text(value: dt.datetime) -> str:
    # pandas' timestamps are finer than a microsecond, and say so in isoformat().
    return (
        f"{value.year:04}-{value.month:02}-{value.day:02} "
        f"{value.hour:02}:{value.minute:02}:{value.second:02}.{value.microsecond:06}"
    )


def _of_date(value: dt.date) -> str:
    return f"DATE'{value.year:04}-{value.month:02}-{value.day:02}'"


def _of_timedelta(value: dt.timedelta) -> str:
    total = value // dt.timedelta(microseconds=1)
    days, rest = divmod(abs(total), _DAY_MICROSECONDS)
    seconds, micros = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"INTERVAL {'-' if total < 0 else ''}'{days} {clock}' DAY TO SECOND"


def _of_struct(value: Struct) -> str:
    fields = (f"{_of_text(name)}, {literal(field)}" for name, field in value.items())
    return f"named_struct({', '.join(fields)})"


def _of_map(value: dict[Any, Any]) -> str:
    return f"map({', '.join(literal(part) for item in value.items() for part in item)})"


def _of_sequence(value: Sequence[Any]) -> str:
    fields = getattr(value, "_fields", None) or getattr(value, "__fields__", None)
    if fields is not None:
        return _of_struct(Struct(zip(fields, value, strict=True)))
    return f"array({', '.join(literal(element) for element in value)})"


# The first that fits: bool is an int, datetime a date, Struct a dict.
_KINDS: tuple[tuple[type, Any], ...] = (
    (type(None), lambda _: "NULL"),
    (bool, lambda value: "TRUE" if value else "FALSE"),
    (int, _of_int),
    (float, _of_float),
    (Decimal, _of_decimal),
    (str, _of_text),
    (bytes, _of_bytes),
    (dt.datetime, _of_datetime),
    (dt.date, _of_date),
    (dt.time, lambda value: _of_text(value.isoformat())),
    (dt.timedelta, _of_timedelta),
    (uuid.UUID, lambda value: _of_text(str(value))),
    (Struct, _of_struct),
    (dict, _of_map),
    (list, _of_sequence),
    (tuple, _of_sequence),
)
