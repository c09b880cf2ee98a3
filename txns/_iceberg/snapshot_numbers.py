"""
How far above a table's numbers those of a logged change may be (docs/spec.md 7). Pure.

Numbers end: at 2^63 - 1 those of snapshots, where nobody writes the table any more, and at
2^31 - 1 the ids of columns and partitions. And a snapshot that stands on itself has no last one:
who walks that history comes to no end.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
)

from txns._iceberg.manifests import last_sequence_number
from txns._iceberg.snapshot_index import index_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

SNAPSHOTS_AHEAD_MAX = 1 << 32
"""How many snapshots a table can have lost since a change was staged on it; and many more."""

ROWS_AHEAD_MAX = 1 << 48
"""The same of rows, and how many rows one change adds."""

IDS_AHEAD_MAX = 1 << 20
"""The same of columns, partition fields, specs, schemas and sort orders."""


def far_ahead(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> str | None:
    """
    Give the first number of a change that no writer has given; None for none.

    Writers number from where the table is that they stage on. It may lose some of that by a
    recovery, or by whoever sets it back, but nobody loses that many.

    Args:
        base: The table that the change is laid over; None for a new one.
        updates: The change.
    """
    updates = tuple(updates)
    added = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
    found = chain(_far_ids(base, updates), _far_numbers(base, added), _circles(base, added))
    return next(found, None)


def _far_numbers(base: TableMetadata | None, snapshots: Iterable[Snapshot]) -> Iterator[str]:
    newest = last_sequence_number(base) if base else 0
    next_row = (base.next_row_id or 0) if isinstance(base, TableMetadataV3) else 0
    added = 0
    for snapshot in snapshots:
        added += max(0, snapshot.added_rows or 0)
        if (snapshot.sequence_number or 0) > newest + SNAPSHOTS_AHEAD_MAX:
            yield f"sequence-number {snapshot.sequence_number}"
        if (snapshot.first_row_id or 0) > next_row + ROWS_AHEAD_MAX:
            yield f"first-row-id {snapshot.first_row_id}"
        if added > ROWS_AHEAD_MAX:
            yield f"added-rows {snapshot.added_rows}"


def _circles(base: TableMetadata | None, snapshots: Iterable[Snapshot]) -> Iterator[str]:
    """Give the snapshots by which a history goes in a circle: one stands on itself, or a later."""
    added = {each.snapshot_id: each for each in snapshots}
    if not added:
        return
    # Of the table's own nothing stands on what is new, unless that was there before.
    there = index_of(base) if base else None
    later = set(added)
    for snapshot_id, snapshot in added.items():
        if snapshot.parent_snapshot_id in later or (there and there.is_stood_on(snapshot_id)):
            yield f"parent-snapshot-id {snapshot.parent_snapshot_id}"
        later.remove(snapshot_id)


def _far_ids(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> Iterator[str]:
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                last = base.last_column_id if base else 0
                if schema.highest_field_id > last + IDS_AHEAD_MAX:
                    yield f"column {schema.highest_field_id}"
                if base is None and schema.schema_id > IDS_AHEAD_MAX:  # else it gets a free one
                    yield f"schema-id {schema.schema_id}"
            case AddPartitionSpecUpdate():
                yield from _far_partitions(base, update)
            case AddSortOrderUpdate(sort_order=order) if base is None:
                if order.order_id > IDS_AHEAD_MAX:
                    yield f"order-id {order.order_id}"


def _far_partitions(base: TableMetadata | None, update: AddPartitionSpecUpdate) -> Iterator[str]:
    """
    Give the ids of a spec that nobody has given.

    Below the first one are the columns of manifests: where a table has both, nobody plans a scan.
    """
    specs = base.partition_specs if base else []
    if update.spec in specs:
        return
    if update.spec.spec_id > max((each.spec_id for each in specs), default=0) + IDS_AHEAD_MAX:
        yield f"spec-id {update.spec.spec_id}"
    first = PARTITION_FIELD_ID_START
    last = max(first, (base.last_partition_id or 0) if base else 0)
    known = {field.field_id for each in specs for field in each.fields}
    for field in update.spec.fields:
        is_near = first <= field.field_id <= last + IDS_AHEAD_MAX
        if not is_near and field.field_id not in known:
            yield f"field-id {field.field_id}"
