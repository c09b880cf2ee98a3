"""Types of Spark and Iceberg in SQLAlchemy, both ways."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import types as sqltypes
from sqlalchemy.sql import compiler

from txns_spark import dbapi

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine

__all__ = ["MAP", "STRUCT", "TIMESTAMP_NTZ"]

_DECIMAL_DIGITS = 38
_DECIMAL_SCALE = 10
_FLOAT_BITS = 24


class TIMESTAMP_NTZ(sqltypes.DateTime):  # noqa: N801  (types are written as in SQL)
    """A date and time of day without zone."""

    __visit_name__ = "TIMESTAMP_NTZ"


class MAP(sqltypes.TypeEngine[dict[Any, Any]]):
    """A map: `MAP(String, Integer)`, a dict in Python."""

    __visit_name__ = "MAP"

    def __init__(self, key_type: Any, value_type: Any) -> None:
        self.key_type = sqltypes.to_instance(key_type)
        self.value_type = sqltypes.to_instance(value_type)

    @property
    def python_type(self) -> type[dict[Any, Any]]:
        """Dict."""
        return dict


class STRUCT(sqltypes.TypeEngine[dict[str, Any]]):
    """A struct: `STRUCT({"city": String, "zip": Integer})`, a dict in Python."""

    __visit_name__ = "STRUCT"

    def __init__(self, fields: Mapping[str, Any] | tuple[tuple[str, Any], ...]) -> None:
        pairs = fields if isinstance(fields, tuple) else tuple(fields.items())
        self.fields = tuple((name, sqltypes.to_instance(kind)) for name, kind in pairs)

    @property
    def python_type(self) -> type[dict[str, Any]]:
        """Dict."""
        return dict

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Tell a struct from a map: both are dicts."""
        del dialect
        names = [name for name, _ in self.fields]

        def process(value: Any) -> Any:
            if value is None:
                return None
            return dbapi.Struct((name, value.get(name)) for name in names)

        return process


class _Time(sqltypes.Time):
    """A time of day, kept as text: Iceberg has the type, Spark does not read it."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Return what writes 12:30:00.000001."""
        del dialect
        return lambda value: value.isoformat() if isinstance(value, dt.time) else value

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Return what reads it."""
        del dialect, coltype
        return lambda value: dt.time.fromisoformat(value) if isinstance(value, str) else value


class _Date(sqltypes.Date):
    """A date; of a date and time the first half, as the column keeps it."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Return what takes the date."""
        del dialect
        return _date


def _date(value: Any) -> Any:
    return value.date() if isinstance(value, dt.datetime) else value


class _DateTime(sqltypes.DateTime):
    """A date and time; also for a column that is a date, which SQL compares with it."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Make an instant of what has no zone, where the column has one: in UTC."""
        del dialect
        has_zone = self.timezone

        def process(value: Any) -> Any:
            if has_zone and isinstance(value, dt.datetime) and value.tzinfo is None:
                return value.replace(tzinfo=dt.UTC)
            return value

        return process


class _Binary(sqltypes.LargeBinary):
    """Bytes."""

    def bind_processor(self, dialect: Dialect) -> None:
        """Bind bytes as they are."""
        del dialect


class _JSONPlace:
    """What names a place in a document, as Spark's paths do: $['key'][0]."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        """Return what makes the path."""
        del dialect
        return _json_path


class _JSONIndex(_JSONPlace, sqltypes.JSON.JSONIndexType):
    """A key, or a number."""


class _JSONPath(_JSONPlace, sqltypes.JSON.JSONPathType):
    """Keys and numbers, one inside the other."""


def _json_path(value: Any) -> str:
    steps = [value] if isinstance(value, (int, str)) else value
    return "$" + "".join(_json_step(step) for step in steps)


def _json_step(step: int | str) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f'["{step}"]' if "'" in step else f"['{step}']"


class _Uuid(sqltypes.Uuid[Any]):
    """A UUID, kept as the text that Spark's uuid() makes: with dashes, in small letters."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], str | None]:
        """Return what writes 00000000-0000-0000-0000-000000000001, of a UUID or any text of it."""
        del dialect
        return lambda value: None if value is None else str(uuid.UUID(str(value)))


COLSPECS: dict[type[TypeEngine[Any]], type[TypeEngine[Any]]] = {
    sqltypes.Time: _Time,
    sqltypes.Date: _Date,
    sqltypes.DateTime: _DateTime,
    sqltypes.LargeBinary: _Binary,
    sqltypes.Uuid: _Uuid,
    sqltypes.JSON.JSONIndexType: _JSONIndex,
    sqltypes.JSON.JSONPathType: _JSONPath,
}


class TxnsTypeCompiler(compiler.GenericTypeCompiler):
    """Names of types in DDL and CAST."""

    def visit_integer(self, type_: Any, **kw: Any) -> str:
        """64 bits: ids that clients make need them, and foreign keys follow."""
        return "BIGINT"

    def visit_BIGINT(self, type_: Any, **kw: Any) -> str:
        return "BIGINT"

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_SMALLINT(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_float(self, type_: Any, **kw: Any) -> str:
        precision = type_.precision
        return "FLOAT" if precision is not None and precision <= _FLOAT_BITS else "DOUBLE"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return self.visit_float(type_)

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_double(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    visit_DOUBLE = visit_DOUBLE_PRECISION = visit_double

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        precision, scale = type_.precision, type_.scale
        if precision is None:
            precision, scale = _DECIMAL_DIGITS, _DECIMAL_SCALE if scale is None else scale
        return f"DECIMAL({precision},{scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_string(self, type_: Any, **kw: Any) -> str:
        """Without a length: Iceberg keeps none."""
        return "STRING"

    visit_VARCHAR = visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_TEXT = visit_string
    visit_CLOB = visit_unicode = visit_unicode_text = visit_text = visit_enum = visit_string
    visit_JSON = visit_TIME = visit_UUID = visit_uuid = visit_time = visit_string

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    visit_BLOB = visit_BINARY = visit_VARBINARY = visit_large_binary

    def visit_datetime(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP" if type_.timezone else "TIMESTAMP_NTZ"

    visit_DATETIME = visit_TIMESTAMP = visit_datetime

    def visit_TIMESTAMP_NTZ(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP_NTZ"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        inner = self.process(type_.item_type, **kw)
        for _ in range(type_.dimensions or 1):
            inner = f"ARRAY<{inner}>"
        return inner

    def visit_MAP(self, type_: Any, **kw: Any) -> str:
        key, value = self.process(type_.key_type, **kw), self.process(type_.value_type, **kw)
        return f"MAP<{key}, {value}>"

    def visit_STRUCT(self, type_: Any, **kw: Any) -> str:
        fields = (
            f"`{name.replace('`', '``')}`: {self.process(kind, **kw)}"
            for name, kind in type_.fields
        )
        return f"STRUCT<{', '.join(fields)}>"


_SIMPLE: dict[str, Any] = {
    "boolean": sqltypes.BOOLEAN,
    "tinyint": sqltypes.SMALLINT,
    "smallint": sqltypes.SMALLINT,
    "int": sqltypes.INTEGER,
    "bigint": sqltypes.BIGINT,
    "float": sqltypes.REAL,
    "double": sqltypes.DOUBLE,
    "string": sqltypes.String,
    "binary": sqltypes.LargeBinary,
    "date": sqltypes.DATE,
    "timestamp_ntz": TIMESTAMP_NTZ,
    "void": sqltypes.NullType,
}


def of_text(text: str) -> TypeEngine[Any]:
    """Return SQLAlchemy's type for one that Spark names."""
    return _of_parsed(dbapi.parse_type(text))


def _of_parsed(parsed: dbapi.TypeText) -> TypeEngine[Any]:
    if parsed.name == "decimal":
        precision, scale = parsed.arguments or (10, 0)
        return sqltypes.DECIMAL(precision, scale)
    if parsed.name in {"varchar", "char"}:
        return sqltypes.String(parsed.arguments[0])
    if parsed.name == "timestamp":
        return sqltypes.TIMESTAMP(timezone=True)
    if parsed.name == "array":
        return _array(_of_parsed(parsed.fields[0][1]))
    if parsed.name == "map":
        return MAP(_of_parsed(parsed.fields[0][1]), _of_parsed(parsed.fields[1][1]))
    if parsed.name == "struct":
        return STRUCT(tuple((name, _of_parsed(kind)) for name, kind in parsed.fields))
    made: TypeEngine[Any] = _SIMPLE.get(parsed.name, sqltypes.NullType)()
    return made


def _array(element: TypeEngine[Any]) -> TypeEngine[Any]:
    if isinstance(element, sqltypes.ARRAY):
        return sqltypes.ARRAY(element.item_type, dimensions=(element.dimensions or 1) + 1)
    return sqltypes.ARRAY(element)
