"""A seed's rows as text columns, which Spark casts to the seed's types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    import agate

_PARAMETERS_MAX = 10_000


def texts(rows: agate.Table) -> pa.Table:
    """Give the rows with every value as Spark's CAST reads it; columns are named c0, c1, ..."""
    columns = {
        f"c{number}": pa.array([_text(value) for value in column.values()], pa.string())
        for number, column in enumerate(rows.columns)
    }
    return pa.table(columns)


def literal_rows(table: pa.Table) -> Iterator[tuple[str, list[str | None]]]:
    """Give VALUES clauses of all rows with their parameters, for sessions that take no view."""
    names = ", ".join(table.column_names)
    row = f"({', '.join('?' for _ in table.column_names)})"
    size = max(1, _PARAMETERS_MAX // max(1, table.num_columns))
    for batch in table.to_batches(max_chunksize=size):
        values = [value for row in batch.to_pylist() for value in row.values()]
        yield f"values {', '.join([row] * batch.num_rows)} as seed ({names})", values


def _text(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case _:
            return str(value)
