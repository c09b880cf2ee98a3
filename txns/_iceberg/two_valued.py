"""
Row filters that neither a null nor a NaN leaves undecided: a row matches, or it does not.

pyiceberg deletes by writing again what a filter does not match, and takes for that the filter's
negation, and every row with a null in a column that the filter does not ask about nulls. So
`amount > 3 or day = 3` leaves the row of day 3 whose amount is null, and
`amount = 3 or (amount is null and day = 1)` takes that of day 2 along. Here each condition says
that its column has a value; then the negation is what is to stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    IsNaN,
    IsNull,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.types import DoubleType, FloatType

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_ABOUT_NULLS = (IsNull, NotNull)
_ABOUT_NANS = (IsNaN, NotNaN)
_NANS_MATCH = (NotEqualTo, NotIn, NotNull)


class _Columns(NamedTuple):
    """
    What is known of the columns of a filter, by their names, as to nulls or as to NaNs.

    Attributes:
        compared: Those whose values are looked at.
        asked: Those that are asked about it.
        free: Those that are free of it in each row that matches.
    """

    compared: frozenset[str]
    asked: frozenset[str]
    free: frozenset[str]


_NONE = _Columns(frozenset(), frozenset(), frozenset())


def two_valued(
    expression: BooleanExpression,
    schema: Schema,
    case_sensitive: bool,  # noqa: FBT001 -- as pyiceberg passes it on
) -> BooleanExpression:
    """Give a filter that matches the same rows; itself, where pyiceberg negates it right."""
    plain = rewrite_not(expression)
    nulls, nans = _columns(plain, _ABOUT_NULLS, ()), _columns(plain, _ABOUT_NANS, _NANS_MATCH)
    floats = {name for name in nans.compared if _is_float(schema, name, case_sensitive)}
    if nulls.compared <= nulls.free - nulls.asked and floats <= nans.free - nans.asked:
        return expression
    return _decided(plain, floats)


def _columns(
    expression: BooleanExpression, asks: tuple[type, ...], matched: tuple[type, ...]
) -> _Columns:
    """Tell of columns what those predicates have to say that ask about it, or are matched by it."""
    if isinstance(expression, And | Or):
        left = _columns(expression.left, asks, matched)
        right = _columns(expression.right, asks, matched)
        either = isinstance(expression, Or)
        free = left.free & right.free if either else left.free | right.free
        return _Columns(left.compared | right.compared, left.asked | right.asked, free)
    if not isinstance(expression, UnboundPredicate):
        return _NONE
    its = frozenset([_name(expression)])
    if isinstance(expression, asks):
        return _NONE._replace(asked=its)
    return _NONE._replace(compared=its, free=_NONE.free if isinstance(expression, matched) else its)


def _decided(expression: BooleanExpression, floats: set[str]) -> BooleanExpression:
    if isinstance(expression, And):
        return And(_decided(expression.left, floats), _decided(expression.right, floats))
    if isinstance(expression, Or):
        return Or(_decided(expression.left, floats), _decided(expression.right, floats))
    if not isinstance(expression, UnboundPredicate):
        return expression
    return _decided_predicate(expression, is_float=_name(expression) in floats)


def _decided_predicate(expression: UnboundPredicate, *, is_float: bool) -> BooleanExpression:
    term = expression.term
    if isinstance(expression, _ABOUT_NULLS):
        # Who asks about nulls has to ask about NaNs, too, and this changes nothing.
        return Or(expression, And(expression, IsNaN(term=term))) if is_float else expression
    if not is_float or isinstance(expression, _ABOUT_NANS):
        return And(expression, NotNull(term=term))
    if isinstance(expression, _NANS_MATCH):
        return And(Or(expression, IsNaN(term=term)), NotNull(term=term))
    return And(expression, NotNull(term=term), NotNaN(term=term))


def _name(predicate: UnboundPredicate) -> str:
    term = predicate.term
    return term.name if isinstance(term, Reference) else str(term)


def _is_float(schema: Schema, name: str, case_sensitive: bool) -> bool:  # noqa: FBT001
    field = schema.find_field(name, case_sensitive)
    return isinstance(field.field_type, FloatType | DoubleType)
