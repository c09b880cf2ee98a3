"""
Row filters that neither a null nor a NaN leaves undecided: a row matches, or it does not.

pyiceberg deletes by writing again what a filter does not match, and takes for that the filter's
negation, and every row with a null in a column that the filter does not ask about nulls. So
`amount > 3 or day = 3` leaves the row of day 3 whose amount is null, and
`amount = 3 or (amount is null and day = 1)` takes that of day 2 along. And it drops files by their
statistics, which go by values alone: `day != 1` drops a file of nulls and twos, `amount <= 5` one
of threes and NaNs, of which nobody wrote how many there are. Here each condition says that its
column has a value; then the negation is what is to stay, and the statistics speak of all rows.
"""

from __future__ import annotations

from functools import reduce
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
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

_ABOUT_NULLS = (IsNull, NotNull)
_ABOUT_NANS = (IsNaN, NotNaN)
_NULLS_MATCH = (IsNull,)
_NANS_MATCH = (IsNaN, NotEqualTo, NotIn, NotNull)


class _Column(NamedTuple):
    """
    A column that a filter is about.

    Attributes:
        field_id: Its own; a filter may write its name in several ways.
        name: Its name in the schema.
        null_with: The column that is null wherever it has no value: itself, or, where its struct
            always has one, the nearest struct about it that may be null. None where there is none.
        is_float: Whether it may be NaN.
    """

    field_id: int
    name: str
    null_with: str | None
    is_float: bool


def two_valued(
    expression: BooleanExpression,
    schema: Schema,
    case_sensitive: bool,  # noqa: FBT001 -- as pyiceberg passes it on
) -> BooleanExpression:
    """
    Give a filter that matches the same rows.

    Raises:
        ValueError: It is about a column that the schema does not have.
    """
    plain = rewrite_not(expression)
    columns = {
        name: _column(schema, schema.find_field(name, case_sensitive))
        for name in dict.fromkeys(map(_name, _predicates(plain)))
    }
    return _Decided(plain, columns).whole()


class _Decided:
    """
    Makes a filter decided.

    Of a column that has a value in each row that matches it is said once, for all conditions: a
    filter of thousands of keys stays as it is, but for that.
    """

    def __init__(self, plain: BooleanExpression, columns: dict[str, _Column]) -> None:
        """Take a filter without NOT, and its columns by the names that it has for them."""
        self._plain = plain
        self._columns = columns
        valued = self._ids_free_of(plain, _NULLS_MATCH)
        not_nans = self._ids_free_of(plain, _NANS_MATCH)
        self._at_once = {
            column.field_id: column
            for column in columns.values()
            if column.field_id in valued and (not column.is_float or column.field_id in not_nans)
        }

    def whole(self) -> BooleanExpression:
        """Give all of it."""
        each = (has for column in self._at_once.values() for has in _has_value(column))
        return _all(self._each(self._plain), each)

    def _ids_free_of(
        self, expression: BooleanExpression, matched: tuple[type, ...]
    ) -> frozenset[int]:
        """Give the columns that no matching row has it in, by what may match such a row."""
        if isinstance(expression, And | Or):
            left = self._ids_free_of(expression.left, matched)
            right = self._ids_free_of(expression.right, matched)
            return left | right if isinstance(expression, And) else left & right
        if not isinstance(expression, UnboundPredicate) or isinstance(expression, matched):
            return frozenset()
        return frozenset([self._columns[_name(expression)].field_id])

    def _each(self, expression: BooleanExpression) -> BooleanExpression:
        """Decide each condition whose column may have no value in a row that matches the whole."""
        if isinstance(expression, And | Or):
            left, right = self._each(expression.left), self._each(expression.right)
            if left is expression.left and right is expression.right:
                return expression
            return And(left, right) if isinstance(expression, And) else Or(left, right)
        if not isinstance(expression, UnboundPredicate):
            return expression
        column = self._columns[_name(expression)]
        return expression if column.field_id in self._at_once else _decided(expression, column)


def _decided(predicate: UnboundPredicate, column: _Column) -> BooleanExpression:
    if isinstance(predicate, _ABOUT_NULLS):
        return _asked_of_nans(predicate, column)
    if not column.is_float or isinstance(predicate, _ABOUT_NANS):
        return _all(predicate, _not_null(column))
    if isinstance(predicate, _NANS_MATCH):
        return _all(Or(predicate, IsNaN(term=Reference(column.name))), _not_null(column))
    return _all(predicate, _has_value(column))


def _asked_of_nans(predicate: UnboundPredicate, column: _Column) -> BooleanExpression:
    """Ask what asks about nulls about NaNs, too, which changes nothing."""
    asked: BooleanExpression = predicate
    if isinstance(predicate, NotNull) and column.null_with not in {None, column.name}:
        # pyiceberg takes it for true, also where its struct is null.
        asked = NotNull(term=Reference(column.null_with))
    return Or(asked, And(asked, IsNaN(term=Reference(column.name)))) if column.is_float else asked


def _all(first: BooleanExpression, others: Iterable[BooleanExpression]) -> BooleanExpression:
    return reduce(And, others, first)


def _has_value(column: _Column) -> Iterator[BooleanExpression]:
    yield from _not_null(column)
    if column.is_float:
        yield NotNaN(term=Reference(column.name))


def _not_null(column: _Column) -> Iterator[BooleanExpression]:
    if column.null_with:
        yield NotNull(term=Reference(column.null_with))


def _predicates(expression: BooleanExpression) -> Iterator[UnboundPredicate]:
    open_ones = [expression]
    while open_ones:
        each = open_ones.pop()
        if isinstance(each, And | Or):
            open_ones += (each.right, each.left)
        elif isinstance(each, UnboundPredicate):
            yield each


def _name(predicate: UnboundPredicate) -> str:
    assert isinstance(predicate.term, Reference)  # there are no other terms
    return predicate.term.name


def _column(schema: Schema, field: NestedField) -> _Column:
    name = schema.find_column_name(field.field_id)
    assert name is not None
    is_float = isinstance(field.field_type, FloatType | DoubleType)
    return _Column(field.field_id, name, _null_with(schema, field), is_float)


def _null_with(schema: Schema, field: NestedField) -> str | None:
    structs = schema._lazy_id_to_parent  # noqa: SLF001 -- nothing public says it
    while field.required:
        if field.field_id not in structs:
            return None
        field = schema.find_field(structs[field.field_id])
    return schema.find_column_name(field.field_id)
