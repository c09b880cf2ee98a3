"""
Bind parameters: to Spark's own markers where it takes them, as literals elsewhere.

A literal is text that no setting of a session can make into something else: a string with a
quote, a backslash, a control character or a variable in it is written in hexadecimal. That is an
expression, which LIKE ... ESCAPE and COMMENT ON do not take: where Spark binds, it is left to it.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
import re
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from txns_spark.dbapi._markers import fill_markers
from txns_spark.dbapi.errors import DataError, ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_DECIMAL_DIGITS_MAX = 38
_DAY_MICROSECONDS = 86_400_000_000
# What means the same in a literal, whatever the session's settings are.
_PLAIN_TEXT = re.compile(r"[^'\\\x00-\x1f\x7f$\ud800-\udfff]*")
# What is the same once Spark has written it with escapes, if its literals know them.
_ESCAPED_TEXT = re.compile(r"(?:[^$\ud800-\udfff]|\$(?!\{))*")


class Struct(dict[str, Any]):
    """A value of a STRUCT type: its fields by name, in their order."""


def bound(
    sql: str, parameters: Sequence[Any], has_escapes: Callable[[], bool]
) -> tuple[str, dict[str, Any]]:
    """
    Return a statement and what is left to bind to its markers by Spark, by their names.

    By names, since Spark 4.1.0 to 4.1.3 and 4.2.0 bind five values and more to the wrong ones of
    markers without a name (SPARK-58341), on the server's side: no version of a client avoids it.

    Numbers, text, bytes, booleans and NULL stay parameters. Values that would be changed on their
    way become literals: by pyspark (times, decimals, maps, structs), or by Spark, which writes
    text as a literal with escapes that spark.sql.parser.escapedStringLiterals switches off.

    Args:
        sql: The statement.
        parameters: The values.
        has_escapes: Tells whether the session's literals know escapes; asked only for text that
            needs one.
    """
    values = [_normal(value) for value in parameters]
    if not values:
        return sql, {}
    escapes = any(_needs_escapes(value) for value in values) and has_escapes()
    named = {
        f"p{number}": value
        for number, value in enumerate(values, 1)
        if _is_faithful(value) or (escapes and _needs_escapes(value))
    }
    texts = [
        f":p{number}" if f"p{number}" in named else literal(value)
        for number, value in enumerate(values, 1)
    ]
    return fill_markers(sql, texts), named


def inlined(sql: str, parameters: Sequence[Any]) -> str:
    """Return a statement with literals in the place of its markers."""
    return fill_markers(sql, [literal(value) for value in parameters])


def literal(value: Any) -> str:
    """
    Return a value as a literal of Spark SQL that has the value's type.

    int INT, BIGINT or DECIMAL, float DOUBLE, str STRING, bytes BINARY, Decimal DECIMAL, date DATE,
    datetime without zone TIMESTAMP_NTZ, with zone TIMESTAMP, timedelta INTERVAL DAY TO SECOND,
    time and UUID STRING, list and tuple ARRAY, dict MAP, Struct and named tuple STRUCT.

    A literal is whole in itself: what stands before or behind it joins no part of it, so a
    negative number stands in parentheses.

    Raises:
        DataError: No value of the type holds it: a number with more than 38 digits, an instant
            before the year 1, an interval of more than 292,000 years, text that is no Unicode.
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


def _is_faithful(value: Any) -> bool:
    """Tell whether what Spark binds comes back as it was, under any settings."""
    if isinstance(value, int):
        return _LONG_MIN <= value <= _LONG_MAX
    if isinstance(value, str):
        return _PLAIN_TEXT.fullmatch(value) is not None
    return value is None or isinstance(value, (float, bytes))


def _needs_escapes(value: Any) -> bool:
    """Tell whether Spark writes text with escapes, and it comes back as it was where they work."""
    return (
        isinstance(value, str)
        and _PLAIN_TEXT.fullmatch(value) is None
        and _ESCAPED_TEXT.fullmatch(value) is not None
    )


def identifier(name: str) -> str:
    """Return a name as SQL has it, in backticks."""
    return "`" + name.replace("`", "``") + "`"


def path(name: str) -> str:
    """Return a name of several parts, with dots between them, quoted."""
    return ".".join(identifier(part) for part in name.split("."))


def _number(text: str) -> str:
    """Return a number's text so that a minus before it makes no comment of the rest."""
    return f"({text})" if text.startswith("-") else text


def _of_int(value: int) -> str:
    # As pyspark chooses it: the least type that holds the number.
    if _INT_MIN <= value <= _INT_MAX:
        return _number(str(value))
    if _LONG_MIN <= value <= _LONG_MAX:
        return _number(f"{value}L")
    return _of_decimal(Decimal(value))


def _of_float(value: float) -> str:
    if math.isfinite(value):
        return _number(f"{value!r}D")
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"CAST('{name}' AS DOUBLE)"


def _of_decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"a DECIMAL is a finite number: value={value}")
    if max(value.adjusted() + 1, 0) + max(-exponent, 0) > _DECIMAL_DIGITS_MAX:
        raise DataError(f"a DECIMAL has at most {_DECIMAL_DIGITS_MAX} digits: value={value}")
    return _number(f"{value:f}BD")


def _of_text(value: str) -> str:
    if _PLAIN_TEXT.fullmatch(value):
        return f"'{value}'"
    try:
        return f"CAST(X'{value.encode('utf-8').hex()}' AS STRING)"
    except UnicodeEncodeError as error:
        raise DataError(f"half a character is no text: value={value!r}") from error


def _of_bytes(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _of_datetime(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP_NTZ'{_clock_text(value)}'"
    try:
        instant = value.astimezone(dt.UTC)
    except OverflowError as error:
        raise DataError(f"a TIMESTAMP is in the years 1 to 9999 in UTC: value={value}") from error
    return f"TIMESTAMP'{_clock_text(instant)} UTC'"


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
    if not _LONG_MIN <= total <= _LONG_MAX:
        raise DataError(f"an INTERVAL has at most 2^63 microseconds: value={value}")
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
