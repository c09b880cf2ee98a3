"""
Which rows may stand in one VALUES.

Spark makes one type of each of its columns, and changes values for it: beside a float a DECIMAL
becomes a DOUBLE and loses digits, beside a time with zone one without gets the session's. Row by
row each value goes to the table's column as it is. An int beside floats is the same number as a
DOUBLE, if that holds it, and does not stand apart from them: each column of both, as JSON gives
them, would double the statements.
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
_NUMBERS = frozenset({"int", "great int", "float", "Decimal"})
# From here on a DOUBLE does not hold each int, nor tell it from its neighbours.
_EXACT_EXCLUSIVE = 2**53
_Path = tuple[Any, ...]
# Of which types a row's values are at each mixed path of its columns; none at a NULL.
_Pattern = tuple[frozenset[str], ...]


def alike(rows: Sequence[Sequence[Any]]) -> list[list[Sequence[Any]]]:
    """
    Return the rows in groups, in each of which no column has values of two types.

    There is one for each combination of types that rows have in their mixed columns. A row with
    a NULL there goes with the others.
    """
    mixed = [
        (place, paths)
        for place in range(len(rows[0]) if rows else 0)
        if (paths := _mixed_paths([row[place] for row in rows]))
    ]
    if not mixed:
        return [list(rows)] if rows else []
    patterns = [_pattern(row, mixed) for row in rows]
    numbers = _numbered(patterns)
    groups: defaultdict[int, list[Sequence[Any]]] = defaultdict(list)
    for row, pattern in zip(rows, patterns, strict=True):
        groups[numbers[pattern]].append(row)
    return list(groups.values())


def _mixed_paths(column: list[Any]) -> dict[_Path, dict[str, str]]:
    """Return where a column's values are of different types, and what each of them counts as."""
    classes = set(map(type, column)) - {type(None)}
    if len(classes) <= 1 and classes <= _PLAIN:
        return {}
    found: defaultdict[_Path, set[str]] = defaultdict(set)
    for value in column:
        for path, kind in _leaves(value):
            found[path].add(kind)
    counted = {path: _counted_as(kinds) for path, kinds in found.items()}
    return {path: types for path, types in counted.items() if len(set(types.values())) > 1}


def _counted_as(kinds: set[str]) -> dict[str, str]:
    # Where text stands as well, the table's column may be text, and a 2 is to be no 2.0 there.
    is_beside_floats = "float" in kinds and kinds <= _NUMBERS
    one = {"int": "float"} if is_beside_floats else {"great int": "int"}
    return {kind: one.get(kind, kind) for kind in kinds}


def _pattern(
    row: Sequence[Any], mixed: Sequence[tuple[int, dict[_Path, dict[str, str]]]]
) -> _Pattern:
    pattern: list[frozenset[str]] = []
    for place, paths in mixed:
        found: dict[_Path, set[str]] = {path: set() for path in paths}
        for path, kind in _leaves(row[place]):
            if path in found:
                found[path].add(paths[path][kind])
        pattern += map(frozenset, found.values())
    return tuple(pattern)


def _numbered(patterns: list[_Pattern]) -> dict[_Pattern, int]:
    """Return the number of the group of each pattern."""
    groups: list[_Pattern] = []
    numbers: dict[_Pattern, int] = {}
    # Those with the fewest NULLs first: whoever has more finds one to go with, if there is any.
    for pattern in sorted(dict.fromkeys(patterns), key=lambda one: one.count(frozenset())):
        fitting = (number for number, group in enumerate(groups) if _fit(group, pattern))
        # Without a NULL it differs from all that are there.
        number = next(fitting, None) if frozenset() in pattern else None
        if number is None:
            number = len(groups)
            groups.append(pattern)
        groups[number] = tuple(
            one or other for one, other in zip(groups[number], pattern, strict=True)
        )
        numbers[pattern] = number
    return numbers


def _fit(one: _Pattern, other: _Pattern) -> bool:
    return all(not a or not b or a == b for a, b in zip(one, other, strict=True))


def _leaves(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, str]]:
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
        return "int" if abs(int(value)) < _EXACT_EXCLUSIVE else "great int"
    if isinstance(value, numbers.Real):
        return "float"
    if isinstance(value, (list, tuple)):
        return "sequence"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    return "str" if isinstance(value, str) else name
