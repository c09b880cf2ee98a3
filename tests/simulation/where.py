"""
Which rows of a table are read, or written over: those of a part, those with some ids, or both.

The part of a row follows from the row. Some tables have it as a column, by which they may be
partitioned, and keep the bounds of their files: then two transactions meet file by file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThanOrEqual,
    LessThanOrEqual,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.expressions import BooleanExpression

Row = int

PART = "part"
"""What the column is called, and the field of a spec that goes by it."""
PARTS = 3


def part_of(row: Row) -> int:
    """Give the part of a row."""
    return row % PARTS


def has_parts(table: Any) -> bool:
    """Whether a table, or its metadata, has parts of rows as a column."""
    return any(field.name == PART for field in table.schema().fields)


@dataclass(frozen=True)
class Where:
    """
    A filter of rows.

    Attributes:
        part: Only rows of this part; None for all.
        low: Only rows from this id on; None for no such bound.
        high: Only rows up to this id; None for no such bound.
    """

    part: int | None = None
    low: Row | None = None
    high: Row | None = None

    def of(self, rows: Iterable[Row]) -> frozenset[Row]:
        """Give those of some rows that match."""
        return frozenset(row for row in rows if self._matches(row))

    def _matches(self, row: Row) -> bool:
        return (
            self.part in {None, part_of(row)}
            and (self.low is None or self.low <= row)
            and (self.high is None or row <= self.high)
        )

    def expression(self) -> BooleanExpression:
        """Give it as pyiceberg takes it."""
        found: BooleanExpression = AlwaysTrue()
        if self.part is not None:
            found = And(found, EqualTo(PART, self.part))
        if self.low is not None and self.low == self.high:
            return And(found, EqualTo("id", self.low))
        if self.low is not None:
            found = And(found, GreaterThanOrEqual("id", self.low))
        if self.high is not None:
            found = And(found, LessThanOrEqual("id", self.high))
        return found

    def told(self) -> dict[str, Row]:
        """Give it as Java is told of it."""
        bounds = {"part": self.part, "low": self.low, "high": self.high}
        return {name: value for name, value in bounds.items() if value is not None}

    def __str__(self) -> str:
        """Say it for a trace."""
        return " ".join(f"{name} {value}" for name, value in self.told().items()) or "all"


ALL = Where()


def of_key(key: Row) -> Where:
    """Give the filter of one row."""
    return Where(low=key, high=key)
