"""
Which rows may stand in one VALUES.

Spark makes one type of each of its columns, and changes values for it: beside a float a DECIMAL
becomes a DOUBLE and loses digits, beside a time with zone one without gets the session's. Row by
row each value goes to the table's column as it is.
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Classes all of whose values are of one type of Spark's, or of types that widen without a loss.
_PLAIN = frozenset({bool, int, float, Decimal, str, bytes, dt.date, dt.timedelta})
_Leaf = tuple[tuple[Any, ...], str]


def alike(rows: Sequence[Sequence[Any]]) -> list[list[Sequence[Any]]]:
    """Return the rows in groups, in each of which no column has values of two types."""
    mixed = [
        (place, paths)
        for place in range(len(rows[0]) if rows else 0)
        if (paths := _mixed_paths([row[place] for row in rows]))
    ]
    if not mixed:
        return [list(rows)] if rows else []
    groups: defaultdict[Any, list[Sequence[Any]]] = defaultdict(list)
    for row in rows:
        key = [
            frozenset(leaf for leaf in _leaves(row[place]) if leaf[0] in paths)
            for place, paths in mixed
        ]
        groups[tuple(key)].append(row)
    return list(groups.values())


def _mixed_paths(column: list[Any]) -> set[tuple[Any, ...]]:
    """Return where a column's values are of different types; NULL is of any."""
    classes = set(map(type, column)) - {type(None)}
    if len(classes) <= 1 and classes <= _PLAIN:
        return set()
    found: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
    for value in column:
        for path, kind in _leaves(value):
            found[path].add(kind)
    return {path for path, kinds in found.items() if len(kinds) > 1}


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[_Leaf]:
    """Yield the type of a value, and of each that it holds, with its place in the value."""
    kind = _kind(value)
    if kind is None:
        return
    yield path, kind
    if isinstance(value, dict):
        # The fields of a struct have types of their own, the values of a map have one.
        is_struct = kind == "Struct"
        for name, part in value.items():
            if not is_struct:
                yield from _leaves(name, (*path, "key"))
            yield from _leaves(part, (*path, "value", name if is_struct else None))
    elif kind == "sequence":
        fields = getattr(value, "_fields", None) or range(len(value))
        is_struct = hasattr(value, "_fields")
        for name, part in zip(fields, value, strict=True):
            yield from _leaves(part, (*path, name if is_struct else None))


def _kind(value: Any) -> str | None:
    name = type(value).__name__
    if value is None or name in {"NAType", "NaTType"}:
        return None
    if isinstance(value, dt.datetime):
        return "datetime" if value.tzinfo is None else "datetime with zone"
    if isinstance(value, bool) or name == "bool_":
        return "bool"
    if isinstance(value, numbers.Integral):
        return "int"
    if isinstance(value, numbers.Real):
        return "float"
    if isinstance(value, (list, tuple)):
        return "sequence"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    return "str" if isinstance(value, str) else name
