"""
How far above a table's numbers those of a logged snapshot may be (docs/spec.md 7). Pure.

Numbers end at 2^63 - 1: a table whose snapshot has taken the last one is written by nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.update import AddSnapshotUpdate

from txns._iceberg.manifests import last_sequence_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

SNAPSHOTS_AHEAD_MAX = 1 << 32
"""How many snapshots a table can have lost since a change was staged on it; and many more."""

ROWS_AHEAD_MAX = 1 << 48
"""The same of rows, and how many rows one change adds."""


def far_ahead(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> str | None:
    """
    Give the first number of a change that no writer has given; None for none.

    Writers number from where the table is that they stage on. It may lose some of that by a
    recovery, or by whoever sets it back, but nobody loses that many.

    Args:
        base: The table that the change is laid over; None for a new one.
        updates: The change.
    """
    newest = last_sequence_number(base) if base else 0
    next_row = (base.next_row_id or 0) if isinstance(base, TableMetadataV3) else 0
    added = 0
    for update in updates:
        if not isinstance(update, AddSnapshotUpdate):
            continue
        snapshot = update.snapshot
        added += max(0, snapshot.added_rows or 0)
        if (snapshot.sequence_number or 0) > newest + SNAPSHOTS_AHEAD_MAX:
            return f"sequence-number {snapshot.sequence_number}"
        if (snapshot.first_row_id or 0) > next_row + ROWS_AHEAD_MAX:
            return f"first-row-id {snapshot.first_row_id}"
        if added > ROWS_AHEAD_MAX:
            return f"added-rows {snapshot.added_rows}"
    return None
