"""
The spec and the order that a table goes by when a logged change is laid over it.

Strangers may have had it go by columns that the change takes away, of which no requirement tells:
no library takes such a table, so others come before the change. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)

from txns._iceberg.earlier_schema import is_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

_LAST_ADDED = -1


def misfit(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> str:
    """Say in words why a table's own do not fit a change; empty where they do."""
    schema = _left(base, updates)
    if not _fits_order(base, updates, schema):
        return "the table is sorted by a column that the change takes away"
    if not _fits_spec(base, updates, schema):
        return "the table is partitioned by a column that the change takes away"
    return ""


def fitting(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> Iterator[TableUpdate]:
    """
    Give the updates that come before a change's, so that the table goes by what the change leaves.

    The order of no columns, and the newest spec that can be.
    """
    schema = _left(base, updates)
    if not _fits_order(base, updates, schema):
        if all(each.order_id != UNSORTED_SORT_ORDER.order_id for each in base.sort_orders):
            yield AddSortOrderUpdate(sort_order=UNSORTED_SORT_ORDER)
        yield SetDefaultSortOrderUpdate(sort_order_id=UNSORTED_SORT_ORDER.order_id)
    if not _fits_spec(base, updates, schema):
        own = [each.spec_id for each in base.partition_specs if is_of(each, schema)]
        if not own:
            own = [1 + max(each.spec_id for each in base.partition_specs)]
            yield AddPartitionSpecUpdate(spec=PartitionSpec(spec_id=own[0]))
        yield SetDefaultSpecUpdate(spec_id=max(own))


def unloadable(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> str:
    """
    Say in words why a table could be loaded by nobody after a change; empty where it can.

    Iceberg's Java loads none with a spec, be it an old one, whose transform is not of its column's
    type: a stranger's, of a column whose id the log has given to another.
    """
    schema = _left(base, updates)
    for spec in base.partition_specs:
        try:
            spec.check_compatible(schema, allow_missing_fields=True)
        except ValidationError as error:
            return (
                f"partition spec {spec.spec_id} of the table is of a column that is another one in"
                f" the log, {error}: remove the spec outside the protocol"
            )
    return ""


def _fits_order(base: TableMetadata, updates: Iterable[TableUpdate], schema: Schema) -> bool:
    sets = any(isinstance(each, SetDefaultSortOrderUpdate) for each in updates)
    return sets or is_of(base.sort_order(), schema)


def _fits_spec(base: TableMetadata, updates: Iterable[TableUpdate], schema: Schema) -> bool:
    sets = any(isinstance(each, SetDefaultSpecUpdate) for each in updates)
    return sets or is_of(base.spec(), schema)


def _left(base: TableMetadata, updates: Iterable[TableUpdate]) -> Schema:
    """Give the schema that a change leaves current."""
    known = {each.schema_id: each for each in base.schemas}
    left = base.schema()
    for update in updates:
        if isinstance(update, AddSchemaUpdate):
            known[update.schema_.schema_id] = known[_LAST_ADDED] = update.schema_
        elif isinstance(update, SetCurrentSchemaUpdate):
            left = known.get(update.schema_id, left)
    return left
