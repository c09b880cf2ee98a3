"""Types of Spark SQL: as text, as Arrow has them, and PEP 249's type objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from txns_spark.dbapi.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[A-Za-z_0-9]+(?:\s+[A-Za-z]+)*|[<>(),:])")
_NOTES = re.compile(r"\s+(?:not null|comment '(?:[^'\\]|\\.)*')", re.IGNORECASE)


class TypeText(NamedTuple):
    """
    A type as Spark writes it, taken apart.

    Attributes:
        name: The type's name in lower case: "bigint", "array", "interval day to second".
        arguments: Numbers in brackets: precision and scale, or a length.
        fields: Names and types of a struct's fields; an array's "element"; a map's "key" and
            "value".
    """

    name: str
    arguments: tuple[int, ...] = ()
    fields: tuple[tuple[str, TypeText], ...] = ()


def parse_type(text: str) -> TypeText:
    """
    Take a type apart: "map<string,array<decimal(10,2)>>".

    Raises:
        InternalError: It is none.
    """
    tokens = _TOKEN.findall(_NOTES.sub("", text))
    if "".join(tokens).replace(" ", "") != re.sub(r"\s", "", _NOTES.sub("", text)):
        raise InternalError(f"not a type of Spark: {text}")
    parsed, end = _parse(tokens, 0)
    if end != len(tokens):
        raise InternalError(f"not a type of Spark: {text}")
    return parsed


def _parse(tokens: list[str], at: int) -> tuple[TypeText, int]:
    name = tokens[at].lower()
    at += 1
    opened = tokens[at] if at < len(tokens) else ""
    if opened == "(":
        end = tokens.index(")", at)
        numbers = tuple(int(token) for token in tokens[at + 1 : end] if token.isdigit())
        return TypeText(name, numbers), end + 1
    if opened != "<":
        return TypeText(name), at
    fields: list[tuple[str, TypeText]] = []
    names = iter({"array": ("element",), "map": ("key", "value")}.get(name, ()))
    at += 1
    while tokens[at] != ">":
        field = next(names, None)
        if field is None:
            field = tokens[at].strip("`").replace("``", "`")
            at += 2 if tokens[at + 1] == ":" else 1
        parsed, at = _parse(tokens, at)
        fields.append((field, parsed))
        at += tokens[at] == ","
    return TypeText(name, (), tuple(fields)), at + 1


_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_type(parsed: TypeText) -> pa.DataType:
    """Return Arrow's type for one of Spark; string for what Arrow has no type for."""
    if parsed.name == "decimal":
        return pa.decimal128(*(parsed.arguments or (10, 0)))
    if parsed.name == "array":
        return pa.list_(arrow_type(parsed.fields[0][1]))
    if parsed.name == "map":
        return pa.map_(arrow_type(parsed.fields[0][1]), arrow_type(parsed.fields[1][1]))
    if parsed.name == "struct":
        return pa.struct([(name, arrow_type(field)) for name, field in parsed.fields])
    if parsed.name.startswith("interval") and "month" not in parsed.name:
        return pa.duration("us")
    return _ARROW.get(parsed.name, pa.string())


_CHECKS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_null, "void"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_date, "date"),
    (pa.types.is_duration, "interval day to second"),
)


def type_text(arrow: pa.DataType) -> str:
    """Return Spark's name of an Arrow type: what `Cursor.description` says."""
    for is_one, name in _CHECKS:
        if is_one(arrow):
            return name
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "timestamp_ntz" if arrow.tz is None else "timestamp"
    if pa.types.is_map(arrow):
        return f"map<{type_text(arrow.key_type)},{type_text(arrow.item_type)}>"
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return f"array<{type_text(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        fields = (arrow.field(i) for i in range(arrow.num_fields))
        return f"struct<{','.join(f'{f.name}:{type_text(f.type)}' for f in fields)}>"
    return str(arrow)


class TypeObject:
    """A group of types; equal to the type code of every column of the group."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._names == other._names
        return isinstance(other, str) and re.split(r"[(<]", other)[0] in self._names

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeObject("string", "varchar", "char")
BINARY = TypeObject("binary")
NUMBER = TypeObject("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
DATETIME = TypeObject("date", "timestamp", "timestamp_ntz", "interval day to second")
# Iceberg's tables have no row ids that a statement could name.
ROWID = TypeObject()
