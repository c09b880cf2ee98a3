"""Carries out the model's statements on tables of a pyiceberg catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from txns._verify.model import Row, Rows, Step, ordered, updated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.table import Table

SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("day", pa.int64()), pa.field("amount", pa.int64())]
)


def carry_out(table: Table, step: Step) -> Any:
    """Carry out a statement; give what it saw, as the model tells it."""
    words = str(step.where)
    looks: dict[str, Callable[[], Any]] = {
        "read": lambda: rows_of(table.scan(words)),
        "count": lambda: table.scan(words).count(),
        "update": lambda: _update(table, words),
    }
    if step.verb in looks:
        return looks[step.verb]()
    writes: dict[str, Callable[[], Any]] = {
        "append": lambda: table.append(arrow(step.rows)),
        "delete": lambda: table.delete(words),
        "overwrite": lambda: table.overwrite(arrow(step.rows), words),
        "upsert": lambda: table.upsert(arrow(step.rows), ["id"]),
        "replace": lambda: table.dynamic_partition_overwrite(arrow(step.rows)),
    }
    writes[step.verb]()
    return None


def _update(table: Table, words: str) -> Rows:
    """Write rows again as an UPDATE does, which looks even where there are none."""
    seen = rows_of(table.scan(words))
    if seen:
        table.overwrite(arrow(updated(row) for row in seen), words)
    else:
        table.delete(words)
    return seen


def rows_of(scan: Any) -> Rows:
    """Read a scan."""
    found = scan.to_arrow().to_pylist()
    return ordered(Row(each["id"], each["day"], each["amount"]) for each in found)


def arrow(rows: Iterable[Row]) -> pa.Table:
    """Give rows as pyiceberg takes them."""
    return pa.Table.from_pylist([row._asdict() for row in rows], SCHEMA)
