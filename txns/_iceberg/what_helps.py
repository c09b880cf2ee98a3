"""
What would keep two transactions apart from now on: the end of what a conflict says of its cause.

`docs/golden/what_helps.json` has cases, which the jar has to tell alike. Pure.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pyiceberg.expressions import And, Not, NotNaN, NotNull, Or, Reference, UnboundPredicate
from pyiceberg.expressions.visitors import inclusive_projection
from pyiceberg.transforms import VoidTransform

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table.metadata import TableMetadata


class Clash(Enum):
    """Kinds of clashes, by what helps."""

    ROWS = "rows"
    """Rows were written that it has read, or that it wrote by what they are."""
    FILES = "files"
    """Others have changed files that it replaced or removed."""
    COMPACTED = "compacted"
    """Others have compacted such files: the rows are the same."""
    ALTERED = "altered"
    """Others have altered a table that it read or wrote."""
    ALTERS = "alters"
    """It alters, drops or replaces a table itself."""
    CREATED = "created"
    """Both create one table."""
    OTHER = "other"
    """Nothing helps but to run it again."""


BEGINNING = "what would help: "
_SHOWN = 3
"""Of the columns that filters compare."""

_WORDS = {
    Clash.COMPACTED: "to run it again, since the rows are the same, or to compact while no"
    " transaction changes those files",
    Clash.ALTERED: "to alter the table while no transaction is at work on it",
    Clash.ALTERS: "to alter, drop or replace the table while nobody else writes it",
    Clash.CREATED: "to create the table once, before both",
}
_NARROWER = "narrower filters, or a finer partitioning of the table"
_SNAPSHOT = "level SNAPSHOT, where what is only read may change meanwhile"


def words(
    clash: Clash,
    base: TableMetadata | None = None,
    filters: Sequence[BooleanExpression] = (),
    *,
    by_table: Sequence[str] = (),
    only_read: bool = False,
) -> str:
    """
    Say what would help.

    Args:
        clash: What has happened.
        base: The table that it is about, as the transaction read it; None where it is not known.
        filters: What met, in columns of `base`; all that it read by where tables decide.
        by_table: Whose `txns.conflicts` is `table`: "transaction", "table" or both.
        only_read: Whether there is no such clash at SNAPSHOT.

    Returns:
        A clause to stand behind the reason; empty where nothing is known to help.
    """
    helps = [_WORDS.get(clash) or _apart(clash, base, filters, by_table)]
    helps += [_SNAPSHOT] if only_read else []
    told = "; or ".join(filter(None, helps))
    return f"; {BEGINNING}{told}" if told else ""


def _apart(
    clash: Clash,
    base: TableMetadata | None,
    filters: Sequence[BooleanExpression],
    by_table: Sequence[str],
) -> str:
    if clash is Clash.FILES and base is not None:
        finer = "a finer partitioning of" if any(_partitioned_by(base)) else "partitioning"
        return f"{finer} the table, so that each changes files of its own"
    if clash is not Clash.ROWS:
        return ""
    apart = _by_filters(base, filters, finer=not by_table) if base is not None and filters else ""
    if not by_table:
        return apart
    by_file = f"a {' and a '.join(by_table)} in which files decide (`txns.conflicts=file`)"
    return f"{by_file}, and {apart}" if apart else by_file


def _by_filters(base: TableMetadata, filters: Sequence[BooleanExpression], *, finer: bool) -> str:
    """Say by which filters or partitions files would be apart; `finer` than what they are by."""
    columns = dict.fromkeys(_partitioned_by(base))
    try:
        bounded = [_bounded(base, each) for each in filters]
    except Exception:  # noqa: BLE001 -- advice hides no conflict: of columns that it has not, or twice
        return ""
    unbounded = [name for name in columns if not all(name in each for each in bounded)]
    if unbounded:
        return (
            f"filters that compare {_named(unbounded)}, by which the table is partitioned,"
            " with literals"
        )
    known = {name.lower() for name in columns}
    compared = dict.fromkeys(name for each in filters for name in _compared(each))
    others = [name for name in compared if name.lower() not in known]
    if not columns and not others:
        return "partitioning the table by a column that the filters compare with literals"
    if not finer:
        return ""
    if not others:
        return _NARROWER
    return f"partitioning the table by {_named(others)}" + (", too" if columns else "")


def _partitioned_by(base: TableMetadata) -> Iterator[str]:
    """Give the columns by which a table is partitioned."""
    schema = base.schema()
    for field in base.spec().fields:
        name = schema.find_column_name(field.source_id)
        if name is not None and not isinstance(field.transform, VoidTransform):
            yield name


def _bounded(base: TableMetadata, row_filter: BooleanExpression) -> set[str]:
    """Give those of which a filter tells partitions apart: a range does not, of buckets."""
    schema, spec = base.schema(), base.spec()
    names = {field.name: schema.find_column_name(field.source_id) for field in spec.fields}
    within = inclusive_projection(schema, spec, case_sensitive=False)(row_filter)
    return {names[field] or "" for field in _compared(within)}


def _compared(expression: BooleanExpression) -> Iterator[str]:
    """Give the columns that a filter compares with something: that one is not null tells little."""
    match expression:
        case And() | Or():
            yield from _compared(expression.left)
            yield from _compared(expression.right)
        case Not():
            yield from _compared(expression.child)
        case NotNull() | NotNaN():
            pass
        case UnboundPredicate(term=Reference(name=name)):
            yield name


def _named(columns: Iterable[str]) -> str:
    """Name columns: a name may be anybody's words."""
    names = [f"`{name.replace('`', chr(39))}`" for name in columns]
    return " or ".join(names[:_SHOWN])
