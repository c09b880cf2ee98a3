"""
The spec and the order that a table goes by, where those that it has are not of its columns.

Strangers may have had it go by columns that a logged change takes away, of which no requirement
tells; and which ones were an earlier schema's Iceberg does not keep. No library takes such a table,
so it goes by others: the order of no columns, and the newest spec whose columns are there. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemovePartitionSpecsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    Updates = tuple[TableUpdate, ...]

LAST_ADDED = -1
"""What an update names by this is what was added last."""


def is_of(what: PartitionSpec | SortOrder, schema: Schema) -> bool:
    """Whether a schema has all columns of a spec or an order, of types that it takes."""
    try:
        what.check_compatible(schema)
    except ValidationError:
        return False
    return True


def fitting(metadata: TableMetadata) -> TableMetadata:
    """Give a table with a spec and an order that its schema has all columns of."""
    schema = metadata.schema()
    return _by_spec_of(_by_order_of(metadata, schema), schema)


def misfit(base: TableMetadata, updates: Updates) -> str:
    """Say in words why a table's own do not fit a change; empty where they do."""
    if not _has_columns(base, updates):
        return "somebody has taken a column away that the change sorts or partitions by"
    fits = fitting_change(base, updates)
    if fits.default_sort_order_id != base.default_sort_order_id:
        return "the table is sorted by a column that the change takes away"
    if fits.default_spec_id != base.default_spec_id:
        return "the table is partitioned by a column that the change takes away"
    return ""


def fitting_change(base: TableMetadata, updates: Updates) -> TableMetadata:
    """
    Give a table with a schema, a spec and an order that a change can be laid over.

    Where strangers have taken a column away that the change itself goes by, that is the schema
    which its last snapshot names: by it the change leaves the table.

    Args:
        base: The table.
        updates: Those of the change, by the table's ids. What they set is not asked for here.
    """
    if not _has_columns(base, updates):
        base = with_schema_of(base, _last_schema_id(updates), updates) or base
    schema = _left(base, updates)
    if not any(isinstance(each, SetDefaultSortOrderUpdate) for each in updates):
        base = _by_order_of(base, schema)
    if not any(isinstance(each, SetDefaultSpecUpdate) for each in updates):
        removals = (each for each in updates if isinstance(each, RemovePartitionSpecsUpdate))
        base = _by_spec_of(base, schema, {gone for each in removals for gone in each.spec_ids})
    return base


def with_schema_of(
    base: TableMetadata, schema_id: int | None, updates: Updates
) -> TableMetadata | None:
    """Give a table that goes by a schema of its own, or of a change; None where there is none."""
    said: dict[str, object] = {"current_schema_id": schema_id}
    if all(schema.schema_id != schema_id for schema in base.schemas):
        added = (each.schema_ for each in updates if isinstance(each, AddSchemaUpdate))
        schema = next((each for each in added if each.schema_id == schema_id), None)
        if schema is None:
            return None
        said["schemas"] = [*base.schemas, schema]
    return base.model_copy(update=said)


def _last_schema_id(updates: Updates) -> int | None:
    added = [each.snapshot for each in updates if isinstance(each, AddSnapshotUpdate)]
    return added[-1].schema_id if added else None


def _has_columns(base: TableMetadata, updates: Updates) -> bool:
    """
    Whether the columns are there of what a change names, and of what it leaves a table to go by.

    What it names of before comes first in it (spec 7), and is added while the schema is the
    table's own; of several that it sets the last one counts.
    """
    known: dict[tuple[type, int], PartitionSpec | SortOrder] = {
        **{(PartitionSpec, each.spec_id): each for each in base.partition_specs},
        **{(SortOrder, each.order_id): each for each in base.sort_orders},
    }
    named: list[PartitionSpec | SortOrder] = []
    left: dict[type, PartitionSpec | SortOrder | None] = {}
    leading = True
    for update in updates:
        added: PartitionSpec | SortOrder | None = None
        match update:
            case AddPartitionSpecUpdate(spec=spec):
                known[PartitionSpec, spec.spec_id] = known[PartitionSpec, LAST_ADDED] = added = spec
            case AddSortOrderUpdate(sort_order=order):
                known[SortOrder, order.order_id] = known[SortOrder, LAST_ADDED] = added = order
            case SetDefaultSpecUpdate(spec_id=wanted):
                left[PartitionSpec] = known.get((PartitionSpec, wanted))
            case SetDefaultSortOrderUpdate(sort_order_id=wanted):
                left[SortOrder] = known.get((SortOrder, wanted))
        leading = leading and (added is not None or isinstance(update, AddSchemaUpdate))
        if leading and added is not None:
            named.append(added)
    schema = _left(base, updates)
    own = all(each is None or is_of(each, schema) for each in left.values())
    return own and all(is_of(each, base.schema()) for each in named)


def changes(base: TableMetadata, fits: TableMetadata) -> Iterator[TableUpdate]:
    """Give the updates that make of a table the same with another schema, order and spec."""
    if fits.current_schema_id != base.current_schema_id:
        for schema in fits.schemas[len(base.schemas) :]:
            yield AddSchemaUpdate(schema_=schema)
        yield SetCurrentSchemaUpdate(schema_id=fits.current_schema_id)
    if fits.default_sort_order_id != base.default_sort_order_id:
        for order in fits.sort_orders[len(base.sort_orders) :]:
            yield AddSortOrderUpdate(sort_order=order)
        yield SetDefaultSortOrderUpdate(sort_order_id=fits.default_sort_order_id)
    if fits.default_spec_id != base.default_spec_id:
        for spec in fits.partition_specs[len(base.partition_specs) :]:
            yield AddPartitionSpecUpdate(spec=spec)
        yield SetDefaultSpecUpdate(spec_id=fits.default_spec_id)


def unloadable(metadata: TableMetadata) -> str:
    """
    Say in words why a table can be loaded by nobody; empty where it can.

    Iceberg's Java loads none with a spec, be it an old one, whose transform is not of its column's
    type: a stranger's, of a column whose id the log has given to another.
    """
    for spec in metadata.partition_specs:
        try:
            spec.check_compatible(metadata.schema(), allow_missing_fields=True)
        except ValidationError as error:
            return (
                f"partition spec {spec.spec_id} of the table is of a column that is another one in"
                f" the log, {error}: remove the spec outside the protocol"
            )
    return ""


def _by_order_of(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    if is_of(metadata.sort_order(), schema):
        return metadata
    said: dict[str, object] = {"default_sort_order_id": UNSORTED_SORT_ORDER.order_id}
    if all(each.order_id != UNSORTED_SORT_ORDER.order_id for each in metadata.sort_orders):
        said["sort_orders"] = [*metadata.sort_orders, UNSORTED_SORT_ORDER]
    return metadata.model_copy(update=said)


def _by_spec_of(
    metadata: TableMetadata, schema: Schema, removed: Iterable[int] = ()
) -> TableMetadata:
    specs = metadata.partition_specs
    own_id = metadata.default_spec_id
    if any(each.spec_id == own_id and is_of(each, schema) for each in specs):
        return metadata
    kept = (each for each in specs if is_of(each, schema) and each.spec_id not in removed)
    own = [each.spec_id for each in kept] or [each.spec_id for each in specs if not each.fields]
    if own:
        return metadata.model_copy(update={"default_spec_id": max(own)})
    spec = PartitionSpec(spec_id=1 + max((each.spec_id for each in specs), default=-1))
    said = {"default_spec_id": spec.spec_id, "partition_specs": [*specs, spec]}
    return metadata.model_copy(update=said)


def _left(base: TableMetadata, updates: Updates) -> Schema:
    """Give the schema that a change leaves current."""
    known = {each.schema_id: each for each in base.schemas}
    left = base.schema()
    for update in updates:
        if isinstance(update, AddSchemaUpdate):
            known[update.schema_.schema_id] = known[LAST_ADDED] = update.schema_
        elif isinstance(update, SetCurrentSchemaUpdate):
            left = known.get(update.schema_id, left)
    return left
