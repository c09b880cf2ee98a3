"""
A seed's rows as text columns, which Spark casts to the seed's types.

Imports: nothing of this package. Used by: impl.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import agate


def texts(rows: agate.Table) -> pa.Table:
    """Give the rows with every value as Spark's CAST reads it; columns are named c0, c1, ..."""
    columns = {
        f"c{number}": pa.array([_text(value) for value in column.values()], pa.string())
        for number, column in enumerate(rows.columns)
    }
    return pa.table(columns)


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
