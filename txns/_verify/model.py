"""
Tables over rows, and what statements do to them: it knows nothing of files, logs or locks.

A transaction's statements are run over the rows that it began on, and over those that stood when
it committed: who saw the same in both may stand there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Row(NamedTuple):
    """A row of any of the tables."""

    id: int
    day: int
    amount: int | None


Rows = tuple[Row, ...]
State = dict[str, Rows]
"""The rows of each table, in order."""


def ordered(rows: Iterable[Row]) -> Rows:
    """Give rows in the order in which they are compared."""
    return tuple(
        sorted(rows, key=lambda row: (row.id, row.day, row.amount is None, row.amount or 0))
    )


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda found, wanted: found is not None and found == wanted,
    "!=": lambda found, wanted: found is not None and found != wanted,
    ">": lambda found, wanted: found is not None and found > wanted,
    ">=": lambda found, wanted: found is not None and found >= wanted,
    "in": lambda found, wanted: found in wanted,
    "is": lambda found, _wanted: found is None,
}


class Condition(NamedTuple):
    """
    One condition on a column.

    Attributes:
        column: Its name.
        operator: A comparison; `in` a list of values; `is` null.
        value: What is compared with.
    """

    column: str
    operator: str
    value: Any

    def holds(self, row: Row) -> bool:
        """Whether a row fulfils it."""
        return _HOLDS[self.operator](getattr(row, self.column), self.value)

    def __str__(self) -> str:
        """Give it as SQL, and pyiceberg, have it."""
        if self.operator == "is":
            return f"{self.column} is null"
        if self.operator == "in":
            return f"{self.column} in ({', '.join(map(str, self.value))})"
        return f"{self.column} {self.operator} {self.value}"


@dataclass(frozen=True)
class Where:
    """
    Conditions on a row.

    Attributes:
        conditions: All of them hold; none for every row.
        either: Whether one of them is enough.
    """

    conditions: tuple[Condition, ...] = ()
    either: bool = False

    def holds(self, row: Row) -> bool:
        """Whether a row fulfils them."""
        each = [one.holds(row) for one in self.conditions]
        return any(each) if self.either and each else all(each)

    def __str__(self) -> str:
        """Give them as SQL, and pyiceberg, have them."""
        word = " or " if self.either else " and "
        return word.join(map(str, self.conditions)) or "true"


def where(column: str, operator: str, value: Any = None) -> Where:
    """Give one condition."""
    return Where((Condition(column, operator, value),))


LOOKS = ("read", "count")
"""Statements that write nothing."""


@dataclass(frozen=True)
class Step:
    """
    One statement.

    Attributes:
        verb: `read` rows, `count` them, `append`, `delete`, `overwrite` (what holds by what it
            brings), `update` (the amounts of what holds, by one), `upsert` by id, `replace` the
            days of what it brings, `mark` rows as deleted, or `compact`.
        table: To which table.
        where: To which rows.
        rows: What it brings.
    """

    verb: str
    table: str
    where: Where = field(default_factory=Where)
    rows: Rows = ()

    def on(self, state: State) -> tuple[State, Any]:
        """Give what it makes of the tables, and what it has seen of them."""
        before = state[self.table]
        hit = ordered(row for row in before if self.where.holds(row))
        if self.verb == "read":
            return state, hit
        if self.verb == "count":
            return state, len(hit)
        after = ordered([*self._kept(before), *self._brought(hit)])
        return {**state, self.table: after}, hit if self.verb == "update" else None

    def _kept(self, before: Rows) -> list[Row]:
        if self.verb in {"append", "compact"}:
            return list(before)
        if self.verb == "upsert":
            keys = {row.id for row in self.rows}
            return [row for row in before if row.id not in keys]
        if self.verb == "replace":
            days = {row.day for row in self.rows}
            return [row for row in before if row.day not in days]
        return [row for row in before if not self.where.holds(row)]

    def _brought(self, hit: Rows) -> Sequence[Row]:
        if self.verb == "update":
            return [updated(row) for row in hit]
        return () if self.verb in {"delete", "mark", "compact"} else self.rows


AMOUNTS = 6


def updated(row: Row) -> Row:
    """Give what an UPDATE makes of a row."""
    return row._replace(amount=None if row.amount is None else (row.amount + 1) % AMOUNTS)


Program = tuple[Step, ...]


def ran(program: Sequence[Step], state: State) -> tuple[State, list[Any]]:
    """Give what a program leaves, and what it saw."""
    seen = []
    for step in program:
        state, one = step.on(state)
        seen.append(one)
    return state, seen
