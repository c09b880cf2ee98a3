"""
A dropped name created again, on its physical table: a new table with the old one's numbers.

As Iceberg's own replacement of a table (`TableMetadata.buildReplacement` in its Java library): what
is there keeps its ids, and what is new gets ids that nothing has had. Docs/spec.md 6.5. Pure.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import _index_parents, assign_fresh_schema_ids, index_by_id
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
)

from txns._iceberg.updates import reads_as
from txns._table import mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.types import IcebergType

_LAST_ADDED = -1


def recreation(
    base: TableMetadata, new: TableMetadata, location: str | None = None
) -> tuple[TableUpdate, ...]:
    """
    Give the updates that make a new table of a dropped one's.

    Uuid and format stay, and the place where no other one is asked for; but for them, and what the
    protocol keeps, nothing of the old table is left.

    Args:
        base: The dropped table, which is what the updates fit on.
        new: The first metadata that the new one would have under a name of its own.
        location: Where the new table's files go; None where the old one's went.
    """
    schema = _schema(base, new)
    place = location.rstrip("/") if location else base.location
    return (
        *((SetLocationUpdate(location=place),) if place != base.location else ()),
        *_without_refs(base),
        *_properties(base, new),
        *_set_schema(base, schema),
        *_set_spec(base, new, schema),
        *_set_sort_order(base, new, schema),
    )


def is_base(base: TableMetadata, table: TableMetadata) -> bool:
    """Whether what was planned on one state of a dropped table fits on another one."""
    return _numbers(base) == _numbers(table)


def _numbers(metadata: TableMetadata) -> tuple[object, ...]:
    return (
        metadata.table_uuid,
        metadata.current_snapshot_id,
        metadata.last_column_id,
        metadata.last_partition_id,
        {schema.schema_id for schema in metadata.schemas},
        {spec.spec_id for spec in metadata.partition_specs},
        {order.order_id for order in metadata.sort_orders},
    )


def _without_refs(base: TableMetadata) -> Iterator[TableUpdate]:
    yield RemoveSnapshotRefUpdate(ref_name=MAIN_BRANCH)
    for name in base.refs:
        if name != MAIN_BRANCH and not name.startswith(mark.REF_PREFIX):
            yield RemoveSnapshotRefUpdate(ref_name=name)


def _properties(base: TableMetadata, new: TableMetadata) -> Iterator[TableUpdate]:
    wanted = mark.without_reserved(new.properties)
    gone = [key for key in mark.without_reserved(base.properties) if key not in wanted]
    if gone:
        yield RemovePropertiesUpdate(removals=gone)
    if wanted:
        yield SetPropertiesUpdate(updates=wanted)


def _schema(base: TableMetadata, new: TableMetadata) -> Schema:
    """
    Give the new columns: each has the id that its full name has in the dropped table.

    But for one whose type does not read as the new one, and those inside it: specs and orders of
    before stay, and every library binds those of the column's id to its type as it loads the table.
    """
    first = assign_fresh_schema_ids(new.schema())  # their ids tell the order of a second time
    wanted, dropped = _types(first), _types(base.schema())
    fresh = count(base.last_column_id + 1)
    parents, kept, given = _index_parents(first), set(), []
    for name, (field_id, kind) in sorted(wanted.items(), key=lambda column: column[1][0]):
        old_id, old_kind = dropped.get(name, (0, None))
        inside = field_id not in parents or parents[field_id] in kept
        keeps = inside and old_kind is not None and reads_as(old_kind, kind)
        kept |= {field_id} if keeps else set()
        given.append(old_id if keeps else next(fresh))
    ids = iter(given)
    return assign_fresh_schema_ids(new.schema(), lambda: next(ids))


def _types(schema: Schema) -> dict[str | None, tuple[int, IcebergType]]:
    """Give id and type of every column, of those inside others too, by its full name."""
    return {
        schema.find_column_name(field_id): (field_id, field.field_type)
        for field_id, field in index_by_id(schema).items()
    }


def _set_schema(base: TableMetadata, schema: Schema) -> tuple[TableUpdate, ...]:
    """Add the schema under a number of its own, or take the table's equal one."""
    for known in base.schemas:
        if known == schema:
            return (SetCurrentSchemaUpdate(schema_id=known.schema_id),)
    number = max(known.schema_id for known in base.schemas) + 1
    added = schema.model_copy(update={"schema_id": number})
    return AddSchemaUpdate(schema_=added), SetCurrentSchemaUpdate(schema_id=_LAST_ADDED)


def _source(new: TableMetadata, schema: Schema, source_id: int) -> int:
    """Give the id that a column of the new table has on the dropped one's."""
    name = new.schema().find_column_name(source_id)
    assert name is not None
    return schema.find_field(name).field_id


def _set_spec(base: TableMetadata, new: TableMetadata, schema: Schema) -> tuple[TableUpdate, ...]:
    """
    Add the spec under a number of its own, or take the table's equal one.

    A partition field of the same column and transform keeps its id, the newest of several. Specs
    are equal without regard to the ids of their fields, as Iceberg's Java library compares them:
    it would take the equal one for an added one.
    """
    wanted = [
        (_source(new, schema, field.source_id), field.transform, field.name)
        for field in new.spec().fields
    ]
    for spec in base.partition_specs:
        if wanted == [(field.source_id, field.transform, field.name) for field in spec.fields]:
            return (SetDefaultSpecUpdate(spec_id=spec.spec_id),)
    every = [field for spec in base.partition_specs for field in spec.fields]
    every.sort(key=lambda field: field.field_id)
    known = {(field.source_id, str(field.transform)): field.field_id for field in every}
    fresh = count(max(base.last_partition_id or 0, PARTITION_FIELD_ID_START - 1) + 1)
    fields = [
        PartitionField(
            source_id, known.get((source_id, str(transform))) or next(fresh), transform, name
        )
        for source_id, transform, name in wanted
    ]
    number = max(spec.spec_id for spec in base.partition_specs) + 1
    added = PartitionSpec(*fields, spec_id=number)
    return AddPartitionSpecUpdate(spec=added), SetDefaultSpecUpdate(spec_id=_LAST_ADDED)


def _set_sort_order(
    base: TableMetadata, new: TableMetadata, schema: Schema
) -> tuple[TableUpdate, ...]:
    """Add the sort order under a number of its own, or take the table's equal one; 0 is none."""
    fields = [
        SortField(
            source_id=_source(new, schema, field.source_id),
            transform=field.transform,
            direction=field.direction,
            null_order=field.null_order,
        )
        for field in new.sort_order().fields
    ]
    for order in base.sort_orders:
        if order.fields == fields:
            return (SetDefaultSortOrderUpdate(sort_order_id=order.order_id),)
    number = max(order.order_id for order in base.sort_orders) + 1 if fields else 0
    added = SortOrder(*fields, order_id=number)
    return (
        AddSortOrderUpdate(sort_order=added),
        SetDefaultSortOrderUpdate(sort_order_id=number),
    )
