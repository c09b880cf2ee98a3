"""Filters in words, as SQL says them: what pyiceberg makes of one is its classes' names."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    SetPredicate,
    StartsWith,
    UnaryPredicate,
)
from pyiceberg.expressions.literals import (
    DateLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
    UUIDLiteral,
)
from pyiceberg.utils.datetime import to_human_day, to_human_time, to_human_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.expressions.literals import Literal

_WORDS: dict[type, str] = {
    EqualTo: "=",
    NotEqualTo: "!=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
    NotIn: "not in",
    IsNull: "is null",
    NotNull: "is not null",
    IsNaN: "is nan",
    NotNaN: "is not nan",
    StartsWith: "starts with",
    NotStartsWith: "does not start with",
}
_HUMAN: dict[type, Callable[[Any], str]] = {
    StringLiteral: repr,
    DateLiteral: to_human_day,
    TimeLiteral: to_human_time,
    TimestampLiteral: to_human_timestamp,
    UUIDLiteral: lambda value: str(UUID(bytes=bytes(value))),
}
"""What else has numbers, of days or of parts of a second, or bytes."""
_SHOWN = 5
"""Of the values of a list."""


_LONGEST = 1000
"""Of all words together: an upsert has a condition for each of its rows."""


def words(*filters: BooleanExpression) -> str:
    """Give what any of some filters matches in words; `true` for all rows."""
    told = " or ".join(dict.fromkeys(map(_words, filters)))
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]}..."


def _words(expression: BooleanExpression) -> str:
    match expression:
        case AlwaysTrue():
            return "true"
        case AlwaysFalse():
            return "false"
        case And():
            return f"({_words(expression.left)} and {_words(expression.right)})"
        case Or():
            return f"({_words(expression.left)} or {_words(expression.right)})"
        case Not():
            return f"not {_words(expression.child)}"
    return _of_column(expression)


def _of_column(expression: BooleanExpression) -> str:
    word = _WORDS.get(type(expression))
    term = getattr(expression, "term", None)
    if word is None or not isinstance(term, Reference):
        return str(expression)
    if isinstance(expression, UnaryPredicate):
        return f"{term.name} {word}"
    if isinstance(expression, LiteralPredicate):
        return f"{term.name} {word} {_shown(expression.literal)}"
    assert isinstance(expression, SetPredicate)
    values = sorted(map(_shown, expression.literals))
    more = ["..."] if len(values) > _SHOWN else []
    return f"{term.name} {word} ({', '.join([*values[:_SHOWN], *more])})"


def _shown(literal: Literal[Any]) -> str:
    """Give a value as people write it."""
    return _HUMAN.get(type(literal), str)(literal.value)
